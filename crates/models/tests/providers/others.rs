//! Tests of Gemini, Ollama, OpenAI Responses and Azure, each in its own format.

use cleveragents_models::{
    ChatMessage, ChatRequest, ErrorKind, ReasoningEffort, StopReason, StreamEvent, ToolResult,
};
use cleveragents_testkit::model_server::{ModelServer, Response, Step, openai};
use serde_json::{Value, json};

use super::{KEY, ask, events, open, with_tools};

fn result(id: &str) -> ChatMessage {
    ChatMessage::Tool {
        results: vec![ToolResult {
            pictures: Vec::new(),
            call_id: id.to_owned(),
            content: "text".to_owned(),
            is_error: false,
        }],
    }
}

#[test]
fn gemini_streams_calls_and_receives_its_signatures() {
    let part =
        |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    let first = Response::events([
        part(json!([{"text": "thinking", "thought": true}])),
        part(json!([{"text": "I read. "}])),
        part(json!([
            {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "sig"},
            {"functionCall": {"name": "read", "args": {"path": "b"}}},
        ])),
        json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 6,
                                 "thoughtsTokenCount": 4, "cachedContentTokenCount": 8}}),
    ]);
    let second = Response::json(
        200,
        &json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]})
            .to_string(),
    );
    let server = ModelServer::start(vec![first, second]);
    let model = open(&server, "gemini/gemini-2.5-pro");
    let mut request = with_tools("go");
    request.reasoning_effort = Some(ReasoningEffort::Low);
    let answer = ask(&*model, request.clone()).expect("an answer");
    assert_eq!(answer.stop, StopReason::ToolCalls);
    assert_eq!(answer.message.reasoning[0].text, "thinking");
    let calls = &answer.message.calls;
    assert_eq!(
        (calls[0].id.as_str(), calls[1].id.as_str()),
        ("call_0", "call_1")
    );
    assert_eq!(calls[1].arguments, "{\"path\":\"b\"}");
    let usage = answer.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (20, 10));
    assert_eq!((usage.cached_input_tokens, usage.reasoning_tokens), (8, 4));

    request
        .messages
        .push(ChatMessage::Assistant(answer.message.clone()).into());
    request.messages.push(result("call_1").into());
    request.stream = false;
    ask(&*model, request).expect("an answer");
    let received = server.received();
    assert_eq!(
        received[0].path,
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    );
    assert_eq!(
        received[1].path,
        "/v1beta/models/gemini-2.5-pro:generateContent"
    );
    assert_eq!(received[0].header("x-goog-api-key"), Some(KEY));
    let config = &received[0].json()["generationConfig"]["thinkingConfig"];
    assert_eq!(config["thinkingBudget"], 2048);
    let sent = received[1].json();
    let parts = &sent["contents"][1]["parts"];
    assert_eq!(parts[1]["thoughtSignature"], "sig");
    assert_eq!(parts[1]["functionCall"]["args"], json!({"path": "a"}));
    let response = &sent["contents"][2]["parts"][1]["functionResponse"];
    assert_eq!(
        response,
        &json!({"name": "read", "response": {"result": "text"}})
    );
    assert_eq!(sent["systemInstruction"]["parts"][0]["text"], "Be brief.");
}

#[test]
fn an_interrupted_or_blocked_gemini_response_is_an_error() {
    let half = Response::events([json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]})]);
    let blocked = Response::events([json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    for (response, kind) in [
        (half, ErrorKind::Interrupted),
        (blocked, ErrorKind::ContentFiltered),
    ] {
        let server = ModelServer::start(vec![response; 3]);
        let error = ask(&*open(&server, "gemini/x"), ChatRequest::prompt("a"));
        assert_eq!(error.expect_err("no answer").kind(), &kind);
    }
}

#[test]
fn ollama_streams_calls_line_by_line() {
    let lines = [
        json!({"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": false}),
        json!({"message": {"content": "I "}, "done": false}),
        json!({"message": {"content": "read"}, "done": false}),
        json!({"message": {"content": "", "tool_calls": [
            {"function": {"name": "read", "arguments": {"path": "a"}}},
            {"function": {"name": "read", "arguments": {"path": "b"}}}]}, "done": false}),
        json!({"message": {"content": ""}, "done": true, "done_reason": "stop",
               "prompt_eval_count": 20, "eval_count": 10}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let mut first = Response::json(200, &lines).in_chunks_of(7);
    first.headers = vec![("content-type".to_owned(), "application/x-ndjson".to_owned())];
    let second = Response::json(
        200,
        &json!({"message": {"content": "ok"}, "done": true}).to_string(),
    );
    let server = ModelServer::start(vec![first, second]);
    let model = open(&server, "ollama/llama3:8b");
    let mut request = with_tools("go");
    let events = events(&*model, request.clone());
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (answer.message.text.as_str(), answer.message.calls.len()),
        ("I read", 2)
    );
    assert_eq!(
        (answer.usage.input_tokens, answer.usage.output_tokens),
        (20, 10)
    );
    assert_eq!(
        answer.cost_micro_usd.map(|cost| cost.0),
        Some(0),
        "a local model is free"
    );
    request
        .messages
        .push(ChatMessage::Assistant(answer.message.clone()).into());
    request.messages.push(result("call_1").into());
    request.stream = false;
    ask(&*model, request).expect("an answer");
    let received = server.received();
    assert_eq!(received[0].path, "/api/chat");
    assert_eq!(received[0].json()["model"], "llama3:8b");
    assert_eq!(received[0].header("authorization"), None);
    let sent = received[1].json();
    assert_eq!(
        sent["messages"][2]["tool_calls"][1]["function"]["arguments"],
        json!({"path": "b"})
    );
    assert_eq!(sent["messages"][3]["tool_name"], "read");
}

#[test]
fn ollama_errors_in_the_stream_are_errors() {
    let mut response = Response::json(
        200,
        "{\"message\":{\"content\":\"a\"}}\n{\"error\":\"out of memory\"}\n",
    );
    response.headers.clear();
    let server = ModelServer::answering(move |_| response.clone());
    let error = ask(&*open(&server, "ollama/x"), ChatRequest::prompt("a")).expect_err("no answer");
    assert!(error.to_string().contains("out of memory"), "{error}");
}

#[test]
fn responses_stream_calls_and_receive_encrypted_reasoning() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [],
                           "encrypted_content": "sealed"});
    let call =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "read", "arguments": ""});
    let first = Response::events([
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.output_item.added", "output_index": 0,
               "item": {"type": "reasoning", "id": "rs_1"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "I read"}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": call("c1")}),
        json!({"type": "response.output_item.added", "output_index": 3, "item": call("c2")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{\"p"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"path\":\"a\"}"}),
        json!({"type": "response.completed", "response": {"status": "completed", "usage": {
            "input_tokens": 20, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 8},
            "output_tokens_details": {"reasoning_tokens": 4}}}}),
    ]);
    let second = Response::json(
        200,
        &json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}],
                "usage": {"input_tokens": 1, "output_tokens": 1}})
        .to_string(),
    );
    let server = ModelServer::start(vec![first, second]);
    let model = open(&server, "openai-responses/gpt-5.1");
    let mut request = with_tools("go");
    let answer = ask(&*model, request.clone()).expect("an answer");
    let calls: Vec<_> = answer
        .message
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("c1", "{\"path\":\"a\"}"), ("c2", "{\"p")]);
    assert_eq!(answer.message.reasoning[0].text, "hm");
    assert_eq!(answer.usage.cached_input_tokens, 8);
    assert_eq!(answer.cost_micro_usd.map(|cost| cost.0), Some(116));

    request
        .messages
        .push(ChatMessage::Assistant(answer.message).into());
    request.messages.push(result("c1").into());
    request.stream = false;
    assert_eq!(ask(&*model, request).expect("an answer").message.text, "ok");
    let received = server.received();
    assert_eq!(received[0].path, "/v1/responses");
    let sent = received[1].json();
    assert_eq!(sent["store"], false);
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
    let kinds: Vec<&str> = sent["input"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["type"].as_str().unwrap_or("user"))
        .collect();
    assert_eq!(
        kinds,
        [
            "user",
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output"
        ]
    );
    assert_eq!(sent["input"][1]["encrypted_content"], "sealed");
}

#[test]
fn failed_and_incomplete_responses_have_distinct_errors() {
    let failed = json!({"type": "response.failed", "response": {"error": {
        "code": "context_length_exceeded", "message": "too long"}}});
    let server = ModelServer::start(vec![Response::events([failed])]);
    let model = open(&server, "openai-responses/x");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("failed");
    assert_eq!(error.kind(), &ErrorKind::ContextTooLong);
    let cut = json!({"type": "response.incomplete", "response": {
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let started = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "half"});
    let server = ModelServer::start(vec![Response::events([started, cut])]);
    let answer = ask(
        &*open(&server, "openai-responses/x"),
        ChatRequest::prompt("a"),
    );
    assert_eq!(answer.expect("an answer").stop, StopReason::MaxTokens);
}

#[test]
fn azure_streams_calls_from_a_deployment() {
    let calls = [("c1", "read", "{}"), ("c2", "read", "{}")];
    let server = ModelServer::start(vec![openai::calls(&calls)]);
    let answer = ask(&*open(&server, "azure/my-gpt"), with_tools("go")).expect("an answer");
    assert_eq!(answer.message.calls.len(), 2);
    let request = &server.received()[0];
    assert_eq!(
        request.path,
        "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    );
    assert_eq!(request.header("api-key"), Some(KEY));
    assert_eq!(request.header("authorization"), None);
}

/// The last event of a stream may lack its trailing blank line.
#[test]
fn a_last_event_without_its_end_is_read() {
    let event =
        json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]});
    let mut response = Response::events([""; 0]);
    response.steps = vec![Step::Send(format!("data: {event}").into_bytes())];
    let server = ModelServer::start(vec![response]);
    let answer = ask(&*open(&server, "gemini/x"), ChatRequest::prompt("a")).expect("an answer");
    assert_eq!(answer.message.text, "a");
}
