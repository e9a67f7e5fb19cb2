//! Spans as the protocol of OpenTelemetry (OTLP) has them, in JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::span::{Attribute, Ended, Kind};

/// The body of a request that tells spans. `resource` says whose they are.
pub fn request(spans: &[Ended], resource: &[(&str, String)]) -> Value {
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

fn span(span: &Ended) -> Value {
    let mut told = json!({
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
        told["parentSpanId"] = format!("{parent:016x}").into();
    }
    told
}

/// A whole number goes as a text: JSON has no room for all of its digits.
fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Fraction(number) => json!({"doubleValue": number}),
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::request;
    use crate::{Context, Ended, Kind, Span, attach, is_on, name, send_to};

    static TOLD: Mutex<Vec<Ended>> = Mutex::new(Vec::new());

    #[test]
    fn spans_are_told_with_their_parents_once_somebody_wants_them() {
        assert!(!is_on());
        drop(Span::begin(Kind::Internal, || panic!("nobody wants it")));
        let sink = |ended| TOLD.lock().expect("no panic").push(ended);
        assert!(send_to(sink));
        assert!(!send_to(sink), "once");

        let from = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        {
            let mut outer = Span::below(from, Kind::Server, || "POST /x".to_owned());
            let _in = attach(outer.context());
            let mut inner = Span::begin(Kind::Client, || "chat m".to_owned());
            inner.set(name::INPUT_TOKENS, 3_u64);
            inner.set(name::FINISH_REASONS, vec!["stop".to_owned()]);
            inner.fail("CA-0001");
            outer.set(name::TEMPERATURE, 0.5);
        }
        let unwanted = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        drop(Span::below(unwanted, Kind::Server, || "no".to_owned()));

        let told = TOLD.lock().expect("no panic");
        let body = request(&told, &[("service.name", "test".to_owned())]);
        let of = &body["resourceSpans"][0];
        assert_eq!(
            of["resource"]["attributes"],
            json!([{"key": "service.name", "value": {"stringValue": "test"}}])
        );
        let spans = of["scopeSpans"][0]["spans"].as_array().expect("spans");
        assert_eq!(spans.len(), 2, "{spans:?}");
        let (inner, outer) = (&spans[0], &spans[1]);
        assert_eq!(inner["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(inner["parentSpanId"], outer["spanId"]);
        assert_eq!(outer["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(inner["status"], json!({"code": 2}));
        assert_eq!(outer["status"], json!({}));
        assert_eq!(
            inner["attributes"],
            json!([
                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "3"}},
                {"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}}},
                {"key": "error.type", "value": {"stringValue": "CA-0001"}},
            ])
        );
        let began: u128 = outer["startTimeUnixNano"]
            .as_str()
            .expect("text")
            .parse()
            .expect("a number");
        let ended: u128 = outer["endTimeUnixNano"]
            .as_str()
            .expect("text")
            .parse()
            .expect("a number");
        assert!(began <= ended);
    }
}
