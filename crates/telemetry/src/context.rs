//! [`Context`]: which span is going on, on a thread, in a future, and on the wire (W3C Trace Context).

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{self, Poll};

/// A span that others may be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// Whether it is told at all; what belongs to one that is not is not told either.
    pub(crate) is_sampled: bool,
}

impl Context {
    /// Reads the header `traceparent`; nothing when it is none.
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
        // Later versions may have more parts, this one has not.
        let is_whole = version != "00" || parts.next().is_none();
        if !(is_known && is_whole && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2)) {
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

/// As the header `traceparent` says it.
impl fmt::Display for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, .. } = self;
        let flags = u8::from(self.is_sampled);
        write!(formatter, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

thread_local! {
    static CURRENT: Cell<Option<Context>> = const { Cell::new(None) };
}

/// The span that is going on here.
pub fn current() -> Option<Context> {
    CURRENT.get()
}

/// Lets a span go on here until the guard is dropped.
#[must_use = "the span goes on until this is dropped"]
pub fn attach(context: Option<Context>) -> Attached {
    Attached {
        before: CURRENT.replace(context),
        here: PhantomData,
    }
}

/// Gives the thread back the span that was going on before.
#[derive(Debug)]
pub struct Attached {
    before: Option<Context>,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// A future during which a span goes on, whatever thread it runs on.
pub fn within<F: Future>(context: Option<Context>, future: F) -> Within<F> {
    Within {
        context,
        future: Box::pin(future),
    }
}

/// A future during which a span goes on.
pub struct Within<F> {
    context: Option<Context>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        let _attached = attach(self.context);
        self.future.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Context, attach, current};

    #[test]
    fn headers_are_read_as_they_are_written() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = Context::parse(header).expect("a context");
        assert_eq!(context.to_string(), header);
        let unsampled = header.replace("-01", "-00");
        assert!(Context::parse(&unsampled).is_some_and(|context| !context.is_sampled));
        let later = format!("{}-more", header.replacen("00", "01", 1));
        assert!(Context::parse(&later).is_some());
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(Context::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_header_breaks_it(header in ".{0,80}") {
            if let Some(context) = Context::parse(&header) {
                prop_assert!(Context::parse(&context.to_string()) == Some(context));
            }
        }
    }

    #[test]
    fn what_goes_on_is_given_back() {
        let context = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        {
            let _outer = attach(context);
            {
                let _inner = attach(None);
                assert_eq!(current(), None);
            }
            assert_eq!(current(), context);
        }
        assert_eq!(current(), None);
    }
}
