//! [`TraceContext`]: the identity of a span for other services, in the `traceparent` header (W3C Trace Context).

use std::fmt;

use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

use crate::layer::context_of;

/// Ids of a span and of its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// Whether the trace is exported, which the service that starts the trace decides.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Parses the `traceparent` header; `None` when it is malformed.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (span, flags) = (parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            text.len() == length
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let is_known = is_hex(version, 2) && version != "ff";
        // Later versions may have more parts; version 00 may not.
        let has_valid_length = version != "00" || parts.next().is_none();
        if !(is_known
            && has_valid_length
            && is_hex(trace, 32)
            && is_hex(span, 16)
            && is_hex(flags, 2))
        {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok()?;
        let span = u64::from_str_radix(span, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Formats as the `traceparent` header.
impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, .. } = self;
        let flags = u8::from(self.is_sampled);
        write!(formatter, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

/// The context of the innermost exported span that is entered on this thread.
pub fn current() -> Option<TraceContext> {
    tracing::dispatcher::get_default(|dispatch| {
        let registry = dispatch.downcast_ref::<Registry>()?;
        let current = dispatch.current_span();
        let span = registry.span(current.id()?)?;
        span.scope().find_map(|span| context_of(&span))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TraceContext;

    #[test]
    fn a_header_round_trips_through_text() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::parse(header).expect("a context");
        assert_eq!(context.to_string(), header);
        let unsampled = header.replace("-01", "-00");
        assert!(TraceContext::parse(&unsampled).is_some_and(|context| !context.is_sampled));
        let later_version = format!("{}-more", header.replacen("00", "01", 1));
        assert!(TraceContext::parse(&later_version).is_some());
        for malformed in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(TraceContext::parse(malformed), None, "{malformed}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_round_trips(header in ".{0,80}") {
            if let Some(context) = TraceContext::parse(&header) {
                prop_assert!(TraceContext::parse(&context.to_string()) == Some(context));
            }
        }
    }
}
