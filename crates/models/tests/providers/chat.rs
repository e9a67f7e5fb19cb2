//! Tests of OpenAI Chat Completions.

use cleveragents_models::{
    AssistantMessage, ChatMessage, ChatRequest, ErrorKind, ReasoningEffort, ResponseSchema,
    StopReason, StreamEvent, ToolCall, ToolResult, UserPart,
};
use cleveragents_testkit::model_server::{ModelServer, Response, Step, openai};
use serde_json::json;

use super::{KEY, PIXEL, ask, events, open, streamed_text, with_tools};

#[test]
fn a_text_is_streamed_with_usage_and_cost() {
    let server = ModelServer::start(vec![openai::text(&["Hel", "lo"])]);
    let model = open(&server, "openai/gpt-5.1");
    let events = events(&*model, ChatRequest::prompt("hi"));
    assert_eq!(streamed_text(&events), "Hello");
    assert_eq!(events.len(), 3);
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(answer.message.text, "Hello");
    assert_eq!(answer.stop, StopReason::EndTurn);
    let usage = answer.usage;
    assert_eq!((usage.input_tokens, usage.cached_input_tokens), (20, 8));
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (10, 4));
    // 12 tokens at 1.25, 8 at 0.125 and 10 at 10 dollars per million: 116 millionths.
    assert_eq!(answer.cost_micro_usd.map(|cost| cost.0), Some(116));
    let request = &server.received()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(
        request.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(request.json()["stream_options"]["include_usage"], true);
}

#[test]
fn parallel_calls_are_separated_and_malformed_arguments_are_kept() {
    let calls = [
        ("c1", "read", "{\"path\": \"a\"}"),
        ("c2", "read", "{\"path\": \"ü"),
        ("c3", "list", ""),
    ];
    let server = ModelServer::start(vec![openai::calls(&calls), openai::text(&["done"])]);
    let model = open(&server, "openai/gpt-5.1");
    let events = events(&*model, with_tools("go"));
    let started = events.iter().filter(
        |event| matches!(event, Ok(StreamEvent::ToolCallStarted { name, .. }) if !name.is_empty()),
    );
    assert_eq!(started.count(), 3);
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("{events:?}");
    };
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

    // The arguments are sent back as an object, even if the model wrote something else.
    let mut next = with_tools("go");
    next.messages
        .push(ChatMessage::Assistant(answer.message.clone()).into());
    next.messages.push(
        ChatMessage::Tool {
            results: vec![ToolResult {
                pictures: Vec::new(),
                call_id: "c1".to_owned(),
                content: "text".to_owned(),
                is_error: false,
            }],
        }
        .into(),
    );
    ask(&*model, next).expect("an answer");
    let sent = server.received()[1].json();
    let calls = &sent["messages"][2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{\"path\": \"a\"}");
    let wrapped = calls[1]["function"]["arguments"].as_str().expect("a text");
    let wrapped: serde_json::Value = serde_json::from_str(wrapped).expect("JSON");
    assert_eq!(wrapped["malformed_arguments"], "{\"path\": \"ü");
    assert_eq!(calls[2]["function"]["arguments"], "{}");
    assert_eq!(
        sent["messages"][3],
        json!({"role": "tool", "tool_call_id": "c1", "content": "text"})
    );
}

#[test]
fn calls_with_irregular_indices_are_separated() {
    let call = |index: serde_json::Value, id: &str, name: &str, arguments: &str| {
        let mut call = json!({"function": {"name": name, "arguments": arguments}});
        if !index.is_null() {
            call["index"] = index;
        }
        if !id.is_empty() {
            call["id"] = id.into();
        }
        json!({"tool_calls": [call]})
    };
    for deltas in [
        // Every call has index 0.
        vec![
            call(json!(0), "a", "x", "{\"n\":1}"),
            call(json!(0), "b", "y", "{\"n\""),
            call(json!(0), "b", "", ":2}"),
        ],
        // No index at all.
        vec![
            call(json!(null), "a", "x", "{\"n\":1}"),
            call(json!(null), "b", "y", "{\"n\""),
            call(json!(null), "", "", ":2}"),
        ],
        // An index that exceeds any list.
        vec![
            call(json!(7), "a", "x", "{\"n\":1}"),
            call(json!(u64::MAX), "b", "y", "{\"n\""),
            call(json!(u64::MAX), "", "", ":2}"),
        ],
    ] {
        let server = ModelServer::start(vec![openai::streamed(deltas, "tool_calls")]);
        let answer = ask(&*open(&server, "groq/any"), with_tools("go")).expect("an answer");
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
        assert_eq!(received, [("a", "x", "{\"n\":1}"), ("b", "y", "{\"n\":2}")]);
        assert_eq!(answer.cost_micro_usd, None, "the price is unknown");
    }
}

#[test]
fn an_answer_in_one_document_is_read_even_if_a_stream_was_requested() {
    let calls = [("c1", "read", "{}"), ("c2", "read", "{oops")];
    for stream in [false, true] {
        let server = ModelServer::start(vec![openai::whole("Hm.", &calls)]);
        let mut request = with_tools("go");
        request.stream = stream;
        let answer = ask(&*open(&server, "openai/gpt-5.1"), request).expect("an answer");
        assert_eq!(answer.message.text, "Hm.");
        assert_eq!(answer.message.calls[1].arguments, "{oops");
        assert_eq!(answer.usage.input_tokens, 20);
        assert_eq!(server.received()[0].json()["stream"], stream);
    }
}

#[test]
fn all_request_fields_are_sent() {
    let server = ModelServer::start(vec![openai::text(&["ok"])]);
    let mut request = with_tools("look");
    request.messages = vec![
        ChatMessage::User {
            parts: vec![
                UserPart::Text("look".to_owned()),
                UserPart::Image {
                    media_type: "image/png".to_owned(),
                    data: PIXEL.to_vec(),
                },
            ],
        }
        .into(),
    ];
    request.max_output_tokens = Some(77);
    request.reasoning_effort = Some(ReasoningEffort::Low);
    request.response_schema = Some(ResponseSchema {
        name: "verdict".to_owned(),
        schema: json!({"type": "object", "properties": {"met": {"type": "boolean"}}}),
        strict: true,
    });
    ask(&*open(&server, "openai/gpt-5.1"), request).expect("an answer");
    let sent = server.received()[0].json();
    assert_eq!(
        sent["messages"][0],
        json!({"role": "system", "content": "Be brief."})
    );
    let url = &sent["messages"][1]["content"][1]["image_url"]["url"];
    assert!(
        url.as_str()
            .is_some_and(|url| url.starts_with("data:image/png;base64,iVBOR")),
        "{url}"
    );
    assert_eq!(sent["max_completion_tokens"], 77);
    assert!(
        sent.get("temperature").is_none(),
        "reasoning models reject a temperature"
    );
    assert_eq!(sent["reasoning_effort"], "low");
    let format = &sent["response_format"]["json_schema"];
    assert_eq!(
        (&format["name"], &format["strict"]),
        (&json!("verdict"), &json!(true))
    );
    assert_eq!(sent["tools"][0]["function"]["name"], "read");
}

#[test]
fn a_stream_without_done_is_complete_with_a_finish_reason() {
    let mut response = openai::text(&["Hi"]);
    response.steps.pop();
    let server = ModelServer::start(vec![response]);
    let answer = ask(&*open(&server, "openai/gpt-5.1"), ChatRequest::prompt("a"));
    assert_eq!(answer.expect("an answer").message.text, "Hi");
}

#[test]
fn split_characters_and_huge_texts_are_decoded() {
    let huge = "žluťoučký kůň 🐎 ".repeat(40_000);
    for (text, size) in [("žluťoučký 🐎", 1), (huge.as_str(), 65_521)] {
        let server = ModelServer::start(vec![openai::text(&[text]).in_chunks_of(size)]);
        let answer = ask(&*open(&server, "openai/gpt-5.1"), ChatRequest::prompt("a"));
        assert!(answer.expect("an answer").message.text == text);
    }
}

#[test]
fn deepseek_receives_its_reasoning_while_tools_are_called() {
    let thinking = openai::streamed(
        vec![
            json!({"reasoning_content": "let me "}),
            json!({"reasoning_content": "see"}),
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{}"}}]}),
        ],
        "tool_calls",
    );
    let server = ModelServer::start(vec![thinking, openai::text(&["ok"])]);
    let model = open(&server, "deepseek/deepseek-reasoner");
    let first = ask(&*model, with_tools("go")).expect("an answer");
    assert_eq!(first.message.reasoning[0].text, "let me see");
    let mut next = with_tools("go");
    next.messages
        .push(ChatMessage::Assistant(first.message).into());
    ask(&*model, next).expect("an answer");
    let sent = server.received()[1].json();
    assert_eq!(sent["messages"][2]["reasoning_content"], "let me see");
}

#[test]
fn openrouter_keeps_reasoning_details_and_reports_the_cost() {
    let detail = json!({"type": "reasoning.encrypted", "data": "abc"});
    let mut response = openai::streamed(
        vec![
            json!({"reasoning": "hm", "reasoning_details": [detail]}),
            json!({"content": "yes"}),
        ],
        "stop",
    );
    let last = response.steps.len() - 2;
    response.steps[last] = Step::Send(
        b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"cost\":0.0000125}}\n\n".to_vec(),
    );
    let server = ModelServer::start(vec![response, openai::text(&["ok"])]);
    let model = open(&server, "openrouter/anthropic/claude-x");
    let first = ask(&*model, ChatRequest::prompt("a")).expect("an answer");
    assert_eq!(first.cost_micro_usd.map(|cost| cost.0), Some(13));
    let mut next = ChatRequest::prompt("a");
    next.system = vec!["s".to_owned()];
    next.messages
        .push(ChatMessage::Assistant(first.message).into());
    next.messages.push(ChatMessage::user("b").into());
    ask(&*model, next).expect("an answer");
    let sent = server.received()[1].json();
    assert_eq!(sent["messages"][2]["reasoning_details"], json!([detail]));
    assert_eq!(
        sent["messages"][0]["content"][0]["cache_control"]["type"],
        "ephemeral"
    );
}

#[test]
fn mistral_receives_valid_ids() {
    let server = ModelServer::start(vec![openai::text(&["ok"])]);
    let mut request = with_tools("go");
    request.messages.push(
        ChatMessage::Assistant(AssistantMessage {
            calls: vec![ToolCall {
                id: "call_from_elsewhere_0123456789".to_owned(),
                name: "read".to_owned(),
                arguments: "{}".to_owned(),
                signature: None,
            }],
            ..AssistantMessage::default()
        })
        .into(),
    );
    request.messages.push(
        ChatMessage::Tool {
            results: vec![ToolResult {
                pictures: Vec::new(),
                call_id: "call_from_elsewhere_0123456789".to_owned(),
                content: "x".to_owned(),
                is_error: false,
            }],
        }
        .into(),
    );
    ask(&*open(&server, "mistral/codestral-latest"), request).expect("an answer");
    let sent = server.received()[0].json();
    let id = sent["messages"][2]["tool_calls"][0]["id"]
        .as_str()
        .expect("an id");
    assert!(
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(sent["messages"][3]["tool_call_id"], id);
    assert!(sent.get("stream_options").is_none());
}

#[test]
fn an_invalid_response_is_a_protocol_error() {
    for response in [
        Response::json(200, "{}"),
        Response::json(200, "<html>"),
        Response::events(["not JSON"]),
    ] {
        let server = ModelServer::start(vec![response]);
        let error = ask(&*open(&server, "openai/gpt-5.1"), ChatRequest::prompt("a"));
        let error = error.expect_err("no answer");
        assert_eq!(
            error.kind(),
            &cleveragents_models::ErrorKind::Protocol,
            "{error}"
        );
    }
}

#[test]
fn an_unreported_cost_is_not_zero() {
    let delta = json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let document = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0}});
    let server = ModelServer::start(vec![
        Response::events([delta.to_string(), "[DONE]".to_owned()]),
        Response::json(200, &document.to_string()),
    ]);
    let model = open(&server, "openai/gpt-5.1");
    for _ in 0..2 {
        let answer = ask(&*model, ChatRequest::prompt("hi")).expect("an answer");
        assert_eq!(answer.message.text, "hi");
        assert_eq!(answer.cost_micro_usd, None);
    }
}

#[test]
fn a_web_page_is_an_error_and_is_not_retried() {
    let page = Response {
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        ..Response::json(200, "<html>Log in</html>")
    };
    let server = ModelServer::start(vec![page, openai::text(&["late"])]);
    let model = open(&server, "openai/gpt-5.1");
    let mut request = ChatRequest::prompt("hi");
    request.stream = true;
    let error = ask(&*model, request).expect_err("no answer");
    assert_eq!(error.kind(), &ErrorKind::Protocol);
    assert!(error.to_string().contains("web page"), "{error}");
    assert_eq!(server.received().len(), 1);
}
