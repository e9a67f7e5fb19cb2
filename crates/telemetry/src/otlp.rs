//! The OpenTelemetry protocol (OTLP) over HTTP, in JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::attribute::Attribute;
use crate::layer::{FinishedSpan, Kind};

/// The body of a request that exports spans. `resource` describes the process they come from.
pub fn request(spans: &[FinishedSpan], resource: &[(&str, String)]) -> Value {
    let resource: Vec<Value> = resource
        .iter()
        .map(|(name, value)| json!({"key": name, "value": {"stringValue": value}}))
        .collect();
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": "cleveragents", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn span(span: &FinishedSpan) -> Value {
    let mut exported = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": span.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": if span.is_failed { json!({"code": 2}) } else { json!({}) },
        "flags": 1,
    });
    if let Some(parent) = span.parent {
        exported["parentSpanId"] = format!("{parent:016x}").into();
    }
    exported
}

/// Nanoseconds since the Unix epoch, as text, because large JSON numbers lose digits.
fn nanoseconds(time: SystemTime) -> String {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_nanos().to_string()
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Float(number) => json!({"doubleValue": number}),
        Attribute::Texts(texts) => {
            let texts: Vec<Value> = texts
                .iter()
                .map(|text| json!({"stringValue": text}))
                .collect();
            json!({"arrayValue": {"values": texts}})
        }
    };
    json!({"key": name, "value": value})
}
