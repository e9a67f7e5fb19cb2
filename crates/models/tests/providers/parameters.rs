//! Tests of limits, sampling and options: the parameters that each wire format sends, and that models reject.

use cleveragents_models::{Catalogue, ChatRequest, ErrorKind, ReasoningEffort, StopReason};
use cleveragents_testkit::model_server::{
    ModelServer, ReceivedRequest, Response, anthropic, openai,
};
use serde_json::{Value, json};

use super::{ask, catalogue, catalogue_with, open, with_tools};

/// Answers in the format of the called provider.
pub(super) fn answer_any_request(request: &ReceivedRequest) -> Response {
    let path = request.path.as_str();
    if path.ends_with("/messages") {
        anthropic::text(&["ok"])
    } else if path.ends_with("/responses") {
        Response::events([
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "ok"}),
            json!({"type": "response.completed", "response": {"output": []}}),
        ])
    } else if path.contains("/v1beta/") {
        let part = json!({"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"});
        Response::events([json!({"candidates": [part]})])
    } else if path.ends_with("/api/chat") {
        let line = json!({"message": {"content": "ok"}, "done": true});
        Response::json(200, &line.to_string()).header("content-type", "application/x-ndjson")
    } else {
        openai::text(&["ok"])
    }
}

/// Returns the body that is sent for a request.
fn sent(name: &str, request: ChatRequest) -> Value {
    let server = ModelServer::answering(answer_any_request);
    ask(&*open(&server, name), request).expect(name);
    server.received()[0].json()
}

fn with_options() -> ChatRequest {
    let mut request = ChatRequest::prompt("a");
    request.temperature = Some(0.25);
    let options = json!({"top_p": 0.5, "seed": 7, "stop": "END", "stream": "no", "model": "x"});
    request.options = options.as_object().cloned().expect("an object");
    request
}

#[test]
fn options_are_sent_where_each_provider_expects_them() {
    let sent_to = |name: &str| sent(name, with_options());
    for name in ["groq/llama-3.3-70b-versatile", "openai/gpt-4.1"] {
        let body = sent_to(name);
        assert_eq!(body["temperature"], 0.25, "{name}");
        assert_eq!(
            (&body["top_p"], &body["seed"]),
            (&json!(0.5), &json!(7)),
            "{name}"
        );
        assert_eq!(body["stop"], "END", "{name}");
        assert_eq!(
            body["stream"], true,
            "{name}: options never replace fields of the request"
        );
        assert_ne!(body["model"], "x", "{name}");
    }
    let body = sent_to("openai-responses/gpt-4.1");
    assert_eq!(
        (&body["top_p"], &body["temperature"]),
        (&json!(0.5), &json!(0.25))
    );
    assert!(body.get("seed").is_none() && body.get("stop").is_none());
    let config = &sent_to("gemini/gemini-2.5-pro")["generationConfig"];
    assert_eq!(config["topP"], 0.5);
    assert_eq!(config["stopSequences"], json!(["END"]));
    assert_eq!(
        (&config["seed"], &config["temperature"]),
        (&json!(7), &json!(0.25))
    );
    let options = &sent_to("ollama/llama3")["options"];
    assert_eq!(
        (&options["top_p"], &options["seed"]),
        (&json!(0.5), &json!(7))
    );
    let body = sent_to("anthropic/claude-sonnet-4-5");
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["temperature"], 0.25);
    assert!(
        body.get("top_p").is_none(),
        "top_p is not accepted together with a temperature"
    );
    assert!(body.get("seed").is_none(), "seed is not supported");
}

#[test]
fn models_that_reject_sampling_receive_no_sampling_parameters() {
    for name in [
        "openai/gpt-5.1",
        "openai/gpt-5-2025-08-07",
        "openai/gpt-5.9-unheard-of",
        "openai/o3",
        "openai/o4-unheard-of",
        "openai-responses/gpt-5.3-codex",
        "openai-responses/gpt-5",
        "azure/gpt-5-mini",
        "anthropic/claude-opus-4-7",
        "anthropic/claude-unheard-of-9",
    ] {
        let body = sent(name, with_options());
        assert!(body.get("temperature").is_none(), "{name}: {body}");
        assert!(body.get("top_p").is_none(), "{name}: {body}");
        assert!(
            !body["model"].is_null() || name.starts_with("azure"),
            "{name}"
        );
    }
    let mut thinking = with_options();
    thinking.reasoning_effort = Some(ReasoningEffort::High);
    let body = sent("anthropic/claude-opus-4-6", thinking);
    assert_eq!(body["thinking"]["type"], "adaptive");
    assert!(body.get("temperature").is_none() && body.get("top_p").is_none());
}

fn limit_of(catalogue: &Catalogue, name: &str, configured: Option<u32>) -> u32 {
    let entry = catalogue.entry(&name.parse().expect("a name"));
    entry.expect(name).capabilities.output_tokens(configured)
}

#[test]
fn the_output_limit_never_exceeds_the_limit_of_the_model() {
    let server = ModelServer::start(Vec::new());
    let catalogue = catalogue(&server);
    for (name, default, maximum) in [
        ("openai/gpt-5.1", 32_000, 128_000),
        ("openai/gpt-4o", 16_384, 16_384),
        ("openai/gpt-4-turbo", 4_096, 4_096),
        ("anthropic/claude-3-haiku-20240307", 4_096, 4_096),
        ("anthropic/claude-opus-5", 32_000, 128_000),
        ("gemini/gemini-9-pro", 32_000, 65_536),
        ("deepseek/deepseek-chat", 8_192, 8_192),
        ("ollama/llama3", 8_192, 1_000_000),
        ("mistral/codestral-latest", 8_191, 8_191),
    ] {
        assert_eq!(limit_of(&catalogue, name, None), default, "{name}");
        assert_eq!(
            limit_of(&catalogue, name, Some(1_000_000)),
            maximum,
            "{name}"
        );
        assert_eq!(limit_of(&catalogue, name, Some(100)), 100, "{name}");
    }
}

/// The request was made for the first model; the second has a lower output limit.
#[test]
fn a_fallback_model_has_its_own_output_limit() {
    let server = ModelServer::answering(|request| {
        if request.json()["model"] == "gpt-4o" {
            openai::text(&["ok"])
        } else {
            openai::error(503, "overloaded", "busy")
        }
    });
    let catalogue = catalogue_with(&server, |options| {
        options.fallback = vec!["openai/gpt-4o".parse().expect("a name")];
        options.retry.retries = 0;
    });
    let model = catalogue.open(&"openai/gpt-5.1".parse().expect("a name"));
    let mut request = ChatRequest::prompt("a");
    request.max_output_tokens = Some(32_000);
    ask(&*model.expect("a model"), request).expect("an answer");
    let limits: Vec<Value> = server
        .received()
        .iter()
        .map(|received| received.json()["max_completion_tokens"].clone())
        .collect();
    assert_eq!(limits, [json!(32_000), json!(16_384)]);
}

#[test]
fn families_describe_models_without_an_entry() {
    let server = ModelServer::start(Vec::new());
    let catalogue = catalogue(&server);
    for (name, window, vision, reasoning) in [
        ("anthropic/claude-nova-7", 200_000, true, true),
        ("openai/gpt-5.9", 400_000, true, true),
        ("openai/o3-unheard-of", 200_000, true, true),
        ("azure/gpt-5.1", 400_000, true, true),
        ("gemini/gemini-9-ultra", 1_048_576, true, true),
        ("google/gemini-9-ultra", 1_048_576, true, true),
        ("openrouter/anthropic/claude-opus-9", 200_000, true, true),
        ("openai/gpt-3.5-turbo", 16_385, false, false),
    ] {
        let entry = catalogue.entry(&name.parse().expect("a name")).expect(name);
        let capabilities = entry.capabilities;
        assert_eq!(capabilities.context_window, Some(window), "{name}");
        assert_eq!(
            (capabilities.vision, capabilities.reasoning),
            (vision, reasoning),
            "{name}"
        );
        assert!(
            capabilities.max_output.is_some_and(|limit| limit > 4_000),
            "{name}"
        );
        assert!(entry.price.is_none(), "{name}: families have no price");
    }
}

/// A user file changes only the fields it names.
#[test]
fn a_user_file_changes_single_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("models.yaml");
    let text = "models:\n  openai/gpt-5.1: {capabilities: {max_output: 5000}}\n  \
                openai/gpt-5*: {sampling: true}\n  openai/gpt-7: {price: {input: 1, output: 2}}\n";
    std::fs::write(&file, text).expect("a file");
    let server = ModelServer::answering(answer_any_request);
    let catalogue = catalogue_with(&server, |options| options.file = Some(file));
    let entry = |name: &str| catalogue.entry(&name.parse().expect("a name")).expect(name);
    let changed = entry("openai/gpt-5.1");
    assert_eq!(changed.capabilities.max_output, Some(5000));
    assert!(changed.capabilities.vision && changed.price.is_some());
    let new = entry("openai/gpt-7");
    assert!(new.price.is_some() && new.capabilities.reasoning);
    let model = catalogue.open(&"openai/gpt-5.9".parse().expect("a name"));
    ask(&*model.expect("a model"), with_options()).expect("an answer");
    assert_eq!(server.received()[0].json()["temperature"], 0.25);
}

fn responses(
    events: impl IntoIterator<Item = Value>,
) -> Result<cleveragents_models::Completion, cleveragents_models::ModelError> {
    let events: Vec<Value> = events.into_iter().collect();
    let server = ModelServer::answering(move |_| Response::events(events.clone()));
    ask(
        &*open(&server, "openai-responses/gpt-5.1"),
        with_tools("go"),
    )
}

fn message() -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": "said"}]})
}

fn call() -> Value {
    json!({"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\":\"a\"}"})
}

#[test]
fn items_that_are_sent_several_times_are_read_once() {
    let done = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let added = |index: u64, mut item: Value| {
        item["arguments"] = "".into();
        item["content"] = json!([]);
        json!({"type": "response.output_item.added", "output_index": index, "item": item})
    };
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "said"});
    let arguments = json!({"type": "response.function_call_arguments.delta", "output_index": 1,
        "delta": "{\"path\":\"a\"}"});
    let completed =
        |output: Vec<Value>| json!({"type": "response.completed", "response": {"output": output}});
    let all = || completed(vec![message(), call()]);
    for (case, events) in [
        (
            "done",
            vec![done(0, message()), done(1, call()), completed(vec![])],
        ),
        ("completed", vec![all()]),
        (
            "done and completed",
            vec![done(0, message()), done(1, call()), all()],
        ),
        (
            "text by pieces",
            vec![text.clone(), done(0, message()), done(1, call()), all()],
        ),
        (
            "everything",
            vec![
                added(0, message()),
                text,
                done(0, message()),
                added(1, call()),
                arguments,
                done(1, call()),
                all(),
            ],
        ),
    ] {
        let answer = responses(events).expect(case);
        assert_eq!(answer.message.text, "said", "{case}");
        let calls: Vec<_> = answer
            .message
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("c1", "{\"path\":\"a\"}")], "{case}");
        assert_eq!(answer.stop, StopReason::ToolCalls, "{case}");
    }
}

#[test]
fn an_answer_without_text_and_calls_is_a_failure_of_every_format() {
    let error = responses([json!({"type": "response.completed", "response": {"output": []}})]);
    assert_eq!(error.expect_err("empty").kind(), &ErrorKind::EmptyAnswer);
    let used_up = json!({"type": "response.incomplete", "response": {
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let error = responses([used_up]).expect_err("used up");
    assert_eq!(
        (error.kind(), error.attempts()),
        (&ErrorKind::NoRoomForAnswer, 1)
    );

    let gemini = |_: &ReceivedRequest| {
        Response::events([
            json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}),
        ])
    };
    let server = ModelServer::answering(gemini);
    let error = ask(
        &*open(&server, "gemini/gemini-2.5-pro"),
        ChatRequest::prompt("a"),
    );
    assert_eq!(error.expect_err("empty").kind(), &ErrorKind::EmptyAnswer);
    let server = ModelServer::answering(|_| {
        let line = json!({"message": {"content": ""}, "done": true});
        Response::json(200, &line.to_string()).header("content-type", "application/x-ndjson")
    });
    let error = ask(&*open(&server, "ollama/llama3"), ChatRequest::prompt("a"));
    assert_eq!(error.expect_err("empty").kind(), &ErrorKind::EmptyAnswer);
}
