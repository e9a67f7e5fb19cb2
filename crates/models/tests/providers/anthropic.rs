//! Tests of the Anthropic Messages API.

use cleveragents_models::{
    ChatMessage, ChatRequest, ErrorKind, ReasoningEffort, ResponseSchema, StopReason, StreamEvent,
    ToolResult, UserPart,
};
use cleveragents_testkit::model_server::{ModelServer, anthropic};
use serde_json::json;

use super::{KEY, PIXEL, ask, events, open, streamed_text, with_tools};

const NAME: &str = "anthropic/claude-sonnet-4-5";

#[test]
fn a_text_is_streamed_with_usage_and_cost() {
    let server = ModelServer::start(vec![anthropic::text(&["Hel", "lo"])]);
    let events = events(&*open(&server, NAME), ChatRequest::prompt("hi"));
    assert_eq!(streamed_text(&events), "Hello");
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("{events:?}");
    };
    let usage = answer.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (20, 10));
    assert_eq!(
        (usage.cached_input_tokens, usage.cache_write_tokens),
        (5, 3)
    );
    // 12 at 3, 5 at 0.30, 3 at 3.75 and 10 at 15 dollars per million, rounded up.
    assert_eq!(answer.cost_micro_usd.map(|cost| cost.0), Some(199));
    let request = &server.received()[0];
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), Some(KEY));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.json()["max_tokens"], 32_000);
}

#[test]
fn parallel_calls_and_malformed_arguments_are_kept() {
    let calls = [
        ("t1", "read", "{\"path\":\"a\"}"),
        ("t2", "read", "{\"pa"),
        ("t3", "list", ""),
    ];
    let server = ModelServer::start(vec![anthropic::calls(&calls), anthropic::text(&["ok"])]);
    let model = open(&server, NAME);
    let answer = ask(&*model, with_tools("go")).expect("an answer");
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let received: Vec<_> = answer
        .message
        .calls
        .iter()
        .map(|call| {
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.as_str(),
            )
        })
        .collect();
    assert_eq!(received, calls);

    let mut next = with_tools("go");
    next.messages
        .push(ChatMessage::Assistant(answer.message).into());
    next.messages.push(
        ChatMessage::Tool {
            results: vec![ToolResult {
                pictures: Vec::new(),
                call_id: "t1".to_owned(),
                content: "text".to_owned(),
                is_error: true,
            }],
        }
        .into(),
    );
    next.messages.push(ChatMessage::user("and?").into());
    ask(&*model, next).expect("an answer");
    let sent = server.received()[1].json();
    let blocks = &sent["messages"][1]["content"];
    assert_eq!(blocks[0]["input"], json!({"path": "a"}));
    assert_eq!(blocks[1]["input"]["malformed_arguments"], "{\"pa");
    assert_eq!(blocks[2]["input"], json!({}));
    // Results and the next user message are merged into one message, the results first.
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(3));
    let last = &sent["messages"][2]["content"];
    assert_eq!(
        (&last[0]["type"], &last[0]["is_error"]),
        (&json!("tool_result"), &json!(true))
    );
    assert_eq!(last[3]["text"], "and?");
}

#[test]
fn reasoning_is_sent_back_with_its_signatures_in_order() {
    let blocks = [
        (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": "first "}),
                json!({"type": "thinking_delta", "thinking": "thought"}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
                json!({"type": "signature_delta", "signature": "MQ=="}),
            ],
        ),
        (
            json!({"type": "redacted_thinking", "data": "sealed"}),
            vec![],
        ),
        (
            json!({"type": "text", "text": ""}),
            vec![json!({"type": "text_delta", "text": "Reading."})],
        ),
        (
            json!({"type": "thinking", "thinking": "second", "signature": "c2lnMg"}),
            vec![],
        ),
        (
            json!({"type": "tool_use", "id": "t1", "name": "read", "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": "{\"path\":\"a\"}"})],
        ),
    ];
    let server = ModelServer::start(vec![
        anthropic::streamed(&blocks, "tool_use"),
        anthropic::text(&["ok"]),
        anthropic::text(&["ok"]),
    ]);
    let model = open(&server, NAME);
    let mut request = with_tools("go");
    request.reasoning_effort = Some(ReasoningEffort::Medium);
    request.temperature = Some(0.5);
    let answer = ask(&*model, request.clone()).expect("an answer");
    // Convert to and from the format of stored sessions.
    let stored = serde_json::to_string(&ChatMessage::Assistant(answer.message)).expect("JSON");
    request.messages.push(std::sync::Arc::new(
        serde_json::from_str(&stored).expect("a message"),
    ));
    ask(&*model, request.clone()).expect("an answer");
    let received = server.received();
    let first = received[0].json();
    assert_eq!(
        first["thinking"],
        json!({"type": "enabled", "budget_tokens": 8192})
    );
    assert!(
        first.get("temperature").is_none(),
        "no temperature together with reasoning"
    );
    let sent = received[1].json();
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "first thought", "signature": "c2lnMQ=="},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "Reading."},
            {"type": "thinking", "thinking": "second", "signature": "c2lnMg"},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
        ])
    );
    // Reasoning of another provider is not sent.
    request.messages.push(ChatMessage::user("and?").into());
    let stored = stored.replace("\"provider\":\"anthropic\"", "\"provider\":\"other\"");
    request.messages[1] = std::sync::Arc::new(serde_json::from_str(&stored).expect("a message"));
    ask(&*model, request).expect("an answer");
    let sent = server.received()[2].json();
    assert_eq!(
        sent["messages"][1]["content"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn the_beginning_of_a_conversation_is_marked_for_the_cache() {
    let server = ModelServer::start(vec![anthropic::text(&["a"]), anthropic::text(&["b"])]);
    let model = open(&server, NAME);
    let mut request = with_tools("go");
    ask(&*model, request.clone()).expect("an answer");
    request.cache = false;
    ask(&*model, request).expect("an answer");
    let marks = |index: usize| {
        server.received()[index]
            .body
            .matches("cache_control")
            .count()
    };
    assert_eq!((marks(0), marks(1)), (3, 0));
}

#[test]
fn images_schemas_and_reasoning_levels_are_sent() {
    let server = ModelServer::start(vec![anthropic::text(&["{}"])]);
    let mut request = ChatRequest {
        messages: vec![
            ChatMessage::User {
                parts: vec![UserPart::Image {
                    media_type: "image/png".to_owned(),
                    data: PIXEL.to_vec(),
                }],
            }
            .into(),
        ],
        ..ChatRequest::default()
    };
    request.response_schema = Some(ResponseSchema {
        name: "s".to_owned(),
        schema: json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}),
        strict: true,
    });
    request.reasoning_effort = Some(ReasoningEffort::High);
    ask(&*open(&server, "anthropic/claude-sonnet-4-6"), request).expect("an answer");
    let sent = server.received()[0].json();
    let source = &sent["messages"][0]["content"][0]["source"];
    assert!(
        source["data"]
            .as_str()
            .is_some_and(|data| data.starts_with("iVBOR"))
    );
    assert_eq!(
        sent["output_config"]["format"]["schema"],
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": [],
               "additionalProperties": false})
    );
    assert_eq!(sent["output_config"]["effort"], "high");
    assert_eq!(sent["thinking"]["type"], "adaptive");
}

#[test]
fn an_answer_without_streaming_is_read() {
    let blocks = [
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        json!({"type": "text", "text": "Hi"}),
        json!({"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}),
    ];
    let server = ModelServer::start(vec![anthropic::whole(&blocks, "tool_use")]);
    let mut request = with_tools("go");
    request.stream = false;
    let answer = ask(&*open(&server, NAME), request).expect("an answer");
    assert_eq!(answer.message.text, "Hi");
    assert_eq!(answer.message.calls[0].arguments, "{\"path\":\"a\"}");
    assert_eq!(
        answer.message.reasoning[0].seal,
        Some(json!({"signature": "s"}))
    );
    assert_eq!(answer.usage.input_tokens, 20);
}

#[test]
fn an_error_in_the_stream_is_an_error() {
    let mut response = anthropic::text(&["Hel", "lo"]);
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    response.steps[4] = cleveragents_testkit::model_server::Step::Send(event.as_bytes().to_vec());
    let server = ModelServer::answering(move |_| response.clone());
    let events = events(&*open(&server, NAME), ChatRequest::prompt("hi"));
    assert_eq!(streamed_text(&events), "HelHelHel", "three attempts");
    let error = events
        .last()
        .expect("an event")
        .as_ref()
        .expect_err("overloaded");
    assert_eq!(error.kind(), &ErrorKind::Overloaded);
    assert_eq!(server.received().len(), 3, "it is retried");
}
