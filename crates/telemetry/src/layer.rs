//! [`TraceLayer`]: collects exported spans and passes them on when they end.

use std::fmt;
use std::time::{Instant, SystemTime};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::attribute::{
    self, Attribute, END_FIELD, ERROR, KIND_FIELD, OPERATION, PARENT_FIELD, TOOL_TYPE,
};
use crate::context::TraceContext;

/// Role of a span in a call between services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Work inside the program.
    #[default]
    Internal,
    /// Handling of a request.
    Server,
    /// A request to another service.
    Client,
}

/// An exported span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSpan {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    pub(crate) is_failed: bool,
}

/// Passes ended spans to a sink. The sink must not block: it runs on the thread that ends the span.
///
/// Filter the layer with [`is_exported`], so that spans for other layers are not collected and do not become parents.
pub struct TraceLayer<F> {
    sink: F,
}

impl<F: Fn(FinishedSpan) + Send + Sync + 'static> TraceLayer<F> {
    /// Creates a layer with a sink.
    pub const fn new(sink: F) -> Self {
        Self { sink }
    }
}

/// Whether a span is exported: it must have the field `otel.kind`.
pub fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().field(KIND_FIELD).is_some()
}

/// Data of a span that has not ended, stored with the span in the registry.
struct OpenSpan {
    context: TraceContext,
    parent: Option<u64>,
    start: SystemTime,
    clock: Instant,
    /// `None` once the span was passed to the sink.
    fields: Option<SpanFields>,
}

/// The context of a span that is exported, or would be if its trace were sampled.
pub(crate) fn context_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<TraceContext> {
    let extensions = span.extensions();
    extensions.get::<OpenSpan>().map(|open| open.context)
}

impl<S, F> Layer<S> for TraceLayer<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(FinishedSpan) + Send + Sync + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        let parent = fields
            .parent
            .or_else(|| span.parent().as_ref().and_then(context_of));
        let open = OpenSpan {
            context: TraceContext {
                trace: parent.map_or_else(|| fastrand::u128(1..), |parent| parent.trace),
                span: fastrand::u64(1..),
                is_sampled: parent.is_none_or(|parent| parent.is_sampled),
            },
            parent: parent.map(|parent| parent.span),
            start: SystemTime::now(),
            clock: Instant::now(),
            fields: Some(fields),
        };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let finished = span
            .extensions_mut()
            .get_mut::<OpenSpan>()
            .and_then(|open| {
                let fields = open.fields.as_mut()?;
                values.record(fields);
                fields.is_ended.then(|| open.finish(span.name()))?
            });
        if let Some(finished) = finished {
            (self.sink)(finished);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let open = span.extensions_mut().remove::<OpenSpan>();
        if let Some(finished) = open.and_then(|mut open| open.finish(span.name())) {
            (self.sink)(finished);
        }
    }
}

impl OpenSpan {
    /// Returns the finished span; `None` when it was returned before, or when its trace is not sampled.
    fn finish(&mut self, name: &str) -> Option<FinishedSpan> {
        let fields = self.fields.take()?;
        if !self.context.is_sampled {
            return None;
        }
        let (name_fields, is_operation) = attribute::naming(name);
        let SpanFields {
            kind,
            texts,
            mut attributes,
            ..
        } = fields;
        let is_failed = attributes.iter().any(|(name, _)| *name == ERROR);
        let mut name_parts: Vec<&str> = name_fields
            .iter()
            .filter_map(|field| texts.iter().find(|(name, _)| name == field))
            .map(|(_, text)| text.as_str())
            .collect();
        if is_operation || name_parts.is_empty() {
            name_parts.insert(0, name);
        }
        if is_operation {
            attributes.insert(0, (OPERATION, Attribute::Text(name.to_owned())));
        }
        if name == "execute_tool" {
            attributes.push((TOOL_TYPE, Attribute::Text("function".to_owned())));
        }
        Some(FinishedSpan {
            context: self.context,
            parent: self.parent,
            name: name_parts.join(" "),
            kind,
            start: self.start,
            // Computed from the monotonic clock, because the system clock may have been changed since the start.
            end: self.start + self.clock.elapsed(),
            attributes,
            is_failed,
        })
    }
}

/// The exported fields of a span.
#[derive(Default)]
struct SpanFields {
    kind: Kind,
    parent: Option<TraceContext>,
    is_ended: bool,
    /// Recorded texts, for the name of the span.
    texts: Vec<(&'static str, String)>,
    attributes: Vec<(&'static str, Attribute)>,
}

impl SpanFields {
    fn set(&mut self, attribute: &'static str, value: Attribute) {
        match self
            .attributes
            .iter_mut()
            .find(|(name, _)| *name == attribute)
        {
            Some((_, present)) => *present = value,
            None => self.attributes.push((attribute, value)),
        }
    }
}

impl Visit for SpanFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == END_FIELD {
            self.is_ended = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            KIND_FIELD => {
                self.kind = match value {
                    "server" => Kind::Server,
                    "client" => Kind::Client,
                    _ => Kind::Internal,
                };
            }
            PARENT_FIELD => self.parent = TraceContext::parse(value),
            name => {
                if let Some(attribute) = attribute::name_of(name) {
                    self.texts.push((name, value.to_owned()));
                    self.set(attribute, attribute::text(attribute, value));
                }
            }
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if let Some(attribute) = attribute::name_of(field.name()) {
            self.set(attribute, Attribute::Number(value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_u64(field, u64::try_from(value).unwrap_or_default());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if let Some(attribute) = attribute::name_of(field.name()) {
            self.set(attribute, Attribute::Float(value));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if attribute::name_of(field.name()).is_some() {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing::field::Empty;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::{Layer as _, filter, registry};

    use super::{TraceLayer, is_exported};
    use crate::{current, request};

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";

    /// The exported spans of some work, in the order in which they ended.
    fn exported(work: impl FnOnce()) -> Vec<Value> {
        let finished = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&finished);
        let layer = TraceLayer::new(move |span| sink.lock().expect("no panic").push(span));
        let subscriber = registry().with(layer.with_filter(filter::filter_fn(is_exported)));
        tracing::subscriber::with_default(subscriber, work);
        let body = request(
            &finished.lock().expect("no panic"),
            &[("service.name", "test".to_owned())],
        );
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"],
            json!([{"key": "service.name", "value": {"stringValue": "test"}}])
        );
        resource["scopeSpans"][0]["spans"]
            .as_array()
            .expect("spans")
            .clone()
    }

    fn answer(parent: &str) {
        let outer = tracing::info_span!(
            "request",
            otel.kind = "server",
            otel.parent = parent,
            method = "POST",
            route = Empty
        );
        outer.record("route", "/x");
        let _outer = outer.enter();
        // Not exported, so it does not become a parent.
        let between = tracing::info_span!("phase", phase = "execute");
        let _between = between.enter();
        let inner = tracing::info_span!(
            "chat",
            otel.kind = "client",
            provider = "gemini",
            model = "m",
            prompt = "a-secret",
            input_tokens = Empty,
            temperature = Empty,
            finish_reason = Empty,
            code = Empty,
        );
        inner.record("input_tokens", 3_u64);
        inner.record("temperature", 0.5);
        inner.record("finish_reason", "stop");
        inner.record("code", "CA-0001");
    }

    #[test]
    fn exported_spans_have_a_parent_and_a_name_and_the_listed_attributes() {
        let spans = exported(|| answer(&format!("00-{TRACE}-{CALLER}-01")));
        assert_eq!(spans.len(), 2, "{spans:?}");
        let (inner, outer) = (&spans[0], &spans[1]);
        assert_eq!(
            (&inner["name"], &inner["kind"]),
            (&json!("chat m"), &json!(3))
        );
        assert_eq!(
            (&outer["name"], &outer["kind"]),
            (&json!("POST /x"), &json!(2))
        );
        assert_eq!(inner["traceId"], TRACE);
        assert_eq!(inner["parentSpanId"], outer["spanId"]);
        assert_eq!(outer["parentSpanId"], CALLER);
        assert_eq!(inner["status"], json!({"code": 2}));
        assert_eq!(outer["status"], json!({}));
        assert_eq!(
            inner["attributes"],
            json!([
                {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                {"key": "gen_ai.provider.name", "value": {"stringValue": "gcp.gemini"}},
                {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "3"}},
                {"key": "gen_ai.request.temperature", "value": {"doubleValue": 0.5}},
                {"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}}},
                {"key": "error.type", "value": {"stringValue": "CA-0001"}},
            ])
        );
        let time = |field: &str| -> u128 {
            let text = outer[field].as_str().expect("text");
            text.parse().expect("a number")
        };
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }

    #[test]
    fn an_unsampled_trace_is_not_exported_and_its_flag_is_propagated() {
        let spans = exported(|| {
            answer(&format!("00-{TRACE}-{CALLER}-00"));
            let parent = format!("00-{TRACE}-{CALLER}-00");
            let span = tracing::info_span!("request", otel.kind = "server", otel.parent = parent);
            let _entered = span.enter();
            let sent = current().expect("a context").to_string();
            assert!(
                sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00"),
                "{sent}"
            );
        });
        assert_eq!(spans, Vec::<Value>::new());
    }

    #[test]
    fn a_span_that_ends_early_is_exported_at_once_and_stays_a_parent() {
        let spans = exported(|| {
            let outer = tracing::info_span!("request", otel.kind = "server", otel.end = Empty);
            outer.record("otel.end", true);
            let _outer = outer.enter();
            drop(tracing::info_span!(
                "chat",
                otel.kind = "client",
                model = "m"
            ));
        });
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert_eq!(spans[0]["name"], "request");
        assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    }

    #[test]
    fn the_current_context_is_that_of_the_innermost_exported_span() {
        assert_eq!(current(), None, "no subscriber");
        let mut sent = String::new();
        let spans = exported(|| {
            assert_eq!(current(), None, "no span");
            let span = tracing::info_span!("chat", otel.kind = "client", model = "m");
            let _entered = span.enter();
            let inside = tracing::info_span!("attempt");
            let _inside = inside.enter();
            sent = current().expect("a context").to_string();
        });
        let trace = spans[0]["traceId"].as_str().expect("a trace");
        let span = spans[0]["spanId"].as_str().expect("a span");
        assert_eq!(sent, format!("00-{trace}-{span}-01"));
    }
}
