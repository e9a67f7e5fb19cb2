//! Traces of a server, sent to a collector on loopback; and collectors that are missing or do not
//! respond.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cleveragents_testkit::Agents;
use cleveragents_testkit::model_server::{ModelServer, Response, Step};
use serde_json::{Value, json};

use crate::{Server, agents};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const KEY: &str = "collector-key-0123456789";

/// A home whose default model calls a tool and answers.
fn home() -> Agents {
    let home = agents()
        .with(
            "OTEL_EXPORTER_OTLP_HEADERS",
            format!("x-collector-key={KEY}"),
        )
        .with("CLEVERAGENTS_MODEL_DEFAULT", "scripted/look.yaml");
    let script = "answers:\n\
                  - usage: {input_tokens: 11, output_tokens: 7}\n  calls:\n  \
                  - {id: one, name: builtin_S_output-read, arguments: {invocation: 01ARZ3NDEKTSV4RRFFQ69G5FAV}}\n\
                  - text: a-secret-answer\n";
    std::fs::write(home.cwd().join("look.yaml"), script).expect("a file");
    home
}

/// Sends a message in a new session over HTTP, and returns the status.
fn ask(server: &Server, home: &Agents, flags: &str) -> String {
    let session = home.create_session();
    let body = json!({"prompt": "a-secret-question"}).to_string();
    let address = server.url.trim_start_matches("http://");
    let request = format!(
        "POST /api/v1/sessions/{session}/turns HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\ntraceparent: 00-{TRACE}-{CALLER}-{flags}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .write_all(request.as_bytes())
        .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("a-secret-answer"), "{answer}");
    answer.lines().next().unwrap_or_default().to_owned()
}

/// All spans that the collector received.
fn spans(collector: &ModelServer) -> Vec<Value> {
    let received = collector.received();
    let bodies = received.iter().map(|request| {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.header("x-collector-key"), Some(KEY));
        request.json()["resourceSpans"][0]["scopeSpans"][0]["spans"].clone()
    });
    bodies
        .flat_map(|spans| spans.as_array().cloned().unwrap_or_default())
        .collect()
}

fn attribute_value<'a>(span: &'a Value, key: &str) -> &'a Value {
    let mut attributes = span["attributes"].as_array().into_iter().flatten();
    attributes
        .find(|attribute| attribute["key"] == key)
        .map_or(&Value::Null, |attribute| &attribute["value"])
}

#[test]
fn a_request_with_its_turn_model_calls_and_tool_calls_is_one_trace() {
    let collector = ModelServer::answering(|_| Response::json(200, "{}"));
    let home = home();
    let url = collector.url();
    let server = Server::start(&home, &["--insecure-local", "--otlp-endpoint", &url]);
    assert!(ask(&server, &home, "01").contains(" 200 "));
    let deadline = Instant::now() + Duration::from_mins(1);
    let is_request = |span: &&Value| span["name"] == "POST /api/v1/sessions/{session}/turns";
    let received = loop {
        let received = spans(&collector);
        if received.iter().any(|span| is_request(&span)) {
            break received;
        }
        assert!(Instant::now() < deadline, "{received:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let named = |name: &str| -> Vec<&Value> {
        received
            .iter()
            .filter(|span| span["name"] == name)
            .collect()
    };
    let request = received.iter().find(is_request).expect("a request");
    assert_eq!(request["parentSpanId"], CALLER);
    assert_eq!(request["kind"], 2);
    assert_eq!(
        attribute_value(request, "http.response.status_code")["intValue"],
        "200"
    );
    let turns = named("invoke_agent scripted/look.yaml");
    assert_eq!(turns.len(), 1, "{received:?}");
    assert_eq!(turns[0]["parentSpanId"], request["spanId"]);
    let questions = named("chat look.yaml");
    let calls = named("execute_tool builtin/output-read");
    assert_eq!((questions.len(), calls.len()), (2, 1), "{received:?}");
    for child in questions.iter().chain(&calls) {
        assert_eq!(child["parentSpanId"], turns[0]["spanId"]);
    }
    for span in &received {
        assert_eq!(span["traceId"], TRACE, "{span}");
    }
    let first = questions[0];
    for (key, value) in [
        ("gen_ai.operation.name", json!({"stringValue": "chat"})),
        ("gen_ai.provider.name", json!({"stringValue": "scripted"})),
        ("gen_ai.request.model", json!({"stringValue": "look.yaml"})),
        ("gen_ai.usage.input_tokens", json!({"intValue": "11"})),
        ("gen_ai.usage.output_tokens", json!({"intValue": "7"})),
    ] {
        assert_eq!(attribute_value(first, key), &value, "{key}");
    }
    // The span of the failed call has only a status code.
    assert_eq!(calls[0]["status"], json!({"code": 2}));
    assert_eq!(
        attribute_value(calls[0], "gen_ai.tool.name")["stringValue"],
        "builtin/output-read"
    );

    // A caller can disable its trace.
    assert!(ask(&server, &home, "00").contains(" 200 "));
    assert_eq!(server.end(), Some(0));
    assert_eq!(spans(&collector).iter().filter(is_request).count(), 1);
    // Traces contain no message texts and no secrets.
    let bodies: String = collector
        .received()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert!(
        !bodies.contains("a-secret") && !bodies.contains(KEY),
        "{bodies}"
    );
}

#[test]
fn a_missing_or_silent_collector_does_not_affect_requests() {
    let silent = ModelServer::answering(|_| Response::json(200, "").then(Step::Hang));
    let failing = ModelServer::answering(|_| Response::json(500, "{}"));
    for url in ["http://127.0.0.1:1".to_owned(), silent.url(), failing.url()] {
        let home = home();
        let server = Server::start(&home, &["--insecure-local", "--otlp-endpoint", &url]);
        for _ in 0..3 {
            assert!(ask(&server, &home, "01").contains(" 200 "));
        }
        assert_eq!(server.end(), Some(0));
    }
}

#[test]
fn without_a_collector_no_traces_are_sent_and_an_invalid_url_is_refused() {
    let home = home();
    let refused = home.run(&["serve", "--insecure-local", "--otlp-endpoint", "nonsense"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let server = Server::start(&home, &["--insecure-local"]);
    assert!(ask(&server, &home, "01").contains(" 200 "));
    assert_eq!(server.end(), Some(0));
}
