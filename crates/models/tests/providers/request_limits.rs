//! Tests of requests that exceed a provider's limits, and of conflicting parameters, against endpoints that reject
//! them.

use std::sync::Arc;

use cleveragents_models::{
    AssistantMessage, ChatMessage, ChatRequest, Completion, ErrorKind, ModelError, Picture,
    Protocol, ReasoningEffort, ResponseSchema, ToolCall, ToolDefinition, ToolResult, UserPart,
};
use cleveragents_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::parameters::answer_any_request;
use super::{PIXEL, ask, catalogue, open, with_tools};

/// Returns the answer, and the bodies of the requests that were sent for it.
fn exchange(name: &str, request: ChatRequest) -> (Result<Completion, ModelError>, Vec<Value>) {
    let server = ModelServer::answering(answer_any_request);
    let answer = ask(&*open(&server, name), request);
    let sent = server
        .received()
        .iter()
        .map(cleveragents_testkit::model_server::ReceivedRequest::json)
        .collect();
    (answer, sent)
}

/// Returns the body that was sent for a request that is accepted.
fn sent(name: &str, request: ChatRequest) -> Value {
    let (answer, mut sent) = exchange(name, request);
    answer.unwrap_or_else(|error| panic!("{name}: {error}"));
    sent.remove(0)
}

/// A PNG of this width and of this many bytes.
fn png(width: u32, bytes: usize) -> Vec<u8> {
    let mut data = PIXEL.to_vec();
    data[16..20].copy_from_slice(&width.to_be_bytes());
    data.resize(data.len().max(bytes), 0);
    data
}

/// A conversation in which the user sends images, one per message, each with its number.
fn with_images(images: &[Vec<u8>]) -> ChatRequest {
    let message = |(number, data): (usize, &Vec<u8>)| {
        let text = UserPart::Text(format!("image {number}:"));
        let image = UserPart::Image {
            media_type: "image/png".to_owned(),
            data: data.clone(),
        };
        Arc::new(ChatMessage::User {
            parts: vec![text, image],
        })
    };
    ChatRequest {
        messages: images.iter().enumerate().map(message).collect(),
        ..ChatRequest::default()
    }
}

/// Number of images in a request, and number of notes about omitted images.
fn images_and_notes(body: &Value) -> (usize, usize) {
    let text = body.to_string();
    let images = text.matches("iVBORw0KGgo").count();
    (images, text.matches("was left out").count())
}

#[test]
fn the_oldest_images_beyond_the_limit_are_replaced_by_notes() {
    for (name, maximum) in [
        ("anthropic/claude-sonnet-4-5", 100),
        ("openrouter/anthropic/claude-sonnet-4.5", 100),
        ("openai/gpt-4.1", 500),
        ("openai-responses/gpt-4.1", 500),
        ("azure/gpt-4.1", 50),
        ("mistral/mistral-small-latest", 8),
        ("groq/meta-llama/llama-4-scout-17b-16e-instruct", 5),
    ] {
        let images = |count| with_images(&vec![png(1, 0); count]);
        assert_eq!(
            images_and_notes(&sent(name, images(maximum))),
            (maximum, 0),
            "{name}"
        );
        let body = sent(name, images(maximum + 1));
        let (kept, notes) = images_and_notes(&body);
        assert_eq!(kept + notes, maximum + 1, "{name}");
        assert!(
            (1..=maximum / 4 + 1).contains(&notes),
            "{name}: {notes} left out"
        );
        let text = body.to_string();
        let first_note = text.find("was left out").expect("a note");
        let first_image = text.find("iVBORw0KGgo").expect("an image");
        assert!(
            first_note < first_image,
            "{name}: the oldest images are removed first"
        );
        // One more image changes nothing at the beginning, so that provider caches stay valid.
        if maximum > 8 {
            let next = sent(name, images(maximum + 2)).to_string();
            assert_eq!(
                images_and_notes(&body).1,
                next.matches("was left out").count()
            );
        }
    }
    let newer = sent(
        "anthropic/claude-opus-4-6",
        with_images(&vec![png(1, 0); 150]),
    );
    assert_eq!(
        images_and_notes(&newer),
        (150, 0),
        "a larger window allows more images"
    );
}

#[test]
fn images_of_results_count_too() {
    let mut request = with_tools("go");
    for number in 0..101 {
        request.messages.push(call_message(&format!("c{number}")));
        let mut result = tool_result(&format!("c{number}"), "shown");
        result.pictures = vec![picture(1)];
        request.messages.push(results(vec![result]));
    }
    let body = sent("anthropic/claude-sonnet-4-5", request);
    let (kept, notes) = images_and_notes(&body);
    assert_eq!((kept + notes, kept <= 100), (101, true));
    let first = &body["messages"][2]["content"][0]["content"];
    assert!(
        first
            .as_str()
            .is_some_and(|text| text.starts_with("shown\n[An image")),
        "{first}"
    );
}

#[test]
fn large_images_are_removed_from_requests_with_many_images() {
    let name = "anthropic/claude-sonnet-4-5";
    let mut images = vec![png(3000, 0); 20];
    assert_eq!(images_and_notes(&sent(name, with_images(&images))), (20, 0));
    images.extend(vec![png(1, 0); 3]);
    let (kept, notes) = images_and_notes(&sent(name, with_images(&images)));
    assert_eq!((kept, notes), (20, 3), "only the excess images are removed");
}

#[test]
fn a_request_with_too_many_bytes_loses_its_oldest_images() {
    for (name, bytes, count) in [
        ("anthropic/claude-sonnet-4-5", 3_500_000, 10),
        ("gemini/gemini-2.5-pro", 3_500_000, 6),
        ("openai/gpt-4.1", 8_000_000, 6),
        (
            "groq/meta-llama/llama-4-scout-17b-16e-instruct",
            1_000_000,
            5,
        ),
    ] {
        let (answer, sent) = exchange(name, with_images(&vec![png(1, bytes); count]));
        answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (kept, notes) = images_and_notes(&sent[0]);
        assert_eq!(kept + notes, count, "{name}");
        assert!(
            kept > 0 && notes > 0,
            "{name}: {kept} kept, {notes} left out"
        );
    }
}

/// A request that could only be rejected is not sent.
#[test]
fn a_request_that_is_too_large_without_images_fails_before_it_is_sent() {
    let (answer, sent) = exchange(
        "anthropic/claude-sonnet-4-5",
        ChatRequest::prompt("x".repeat(33_000_000)),
    );
    let error = answer.expect_err("too large");
    assert_eq!(error.kind(), &ErrorKind::ContextTooLong);
    assert!(error.to_string().contains("32000000"), "{error}");
    assert!(sent.is_empty());
}

fn picture(width: u32) -> Picture {
    Picture {
        media_type: "image/png".to_owned(),
        data: png(width, 0),
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
        signature: None,
    }
}

fn call_message(id: &str) -> Arc<ChatMessage> {
    Arc::new(ChatMessage::Assistant(AssistantMessage {
        calls: vec![call(id)],
        ..AssistantMessage::default()
    }))
}

fn tool_result(id: &str, content: &str) -> ToolResult {
    ToolResult {
        call_id: id.to_owned(),
        content: content.to_owned(),
        is_error: false,
        pictures: Vec::new(),
    }
}

fn results(results: Vec<ToolResult>) -> Arc<ChatMessage> {
    Arc::new(ChatMessage::Tool { results })
}

const MODELS: [&str; 18] = [
    "anthropic/claude-sonnet-4",
    "anthropic/claude-sonnet-4-5",
    "anthropic/claude-opus-4-6",
    "anthropic/claude-opus-4-7",
    "anthropic/claude-sonnet-5",
    "gemini/gemini-2.0-flash",
    "gemini/gemini-2.5-flash",
    "gemini/gemini-3-pro-preview",
    "ollama/qwen3:8b",
    "openai/gpt-4.1",
    "openai/gpt-5-mini",
    "openai/gpt-5.1",
    "openai/gpt-5.4",
    "openai/gpt-5.6-terra",
    "openai/o4-mini",
    "openai-responses/gpt-5-pro",
    "azure/gpt-5.6",
    "deepseek/deepseek-chat",
];

#[test]
fn failed_results_without_text_and_with_pictures_are_accepted() {
    for name in MODELS {
        let mut request = with_tools("go");
        request.messages.push(call_message("c1"));
        let failed = ToolResult {
            is_error: true,
            pictures: vec![picture(1)],
            ..tool_result("c1", " ")
        };
        request.messages.push(results(vec![failed]));
        request.messages.push(call_message("c2"));
        let silent = ToolResult {
            is_error: true,
            ..tool_result("c2", "")
        };
        request.messages.push(results(vec![silent]));
        assert_eq!(images_and_notes(&sent(name, request)).0, 1, "{name}");
    }
}

/// `options` of an actor that were written for another provider, with every effort, with and without tools.
#[test]
fn no_combination_of_parameters_is_refused() {
    let choices = [
        json!("auto"),
        json!("none"),
        json!("required"),
        json!({"type": "any"}),
        json!({"type": "tool", "name": "read"}),
        json!({"type": "function", "function": {"name": "read"}}),
    ];
    for name in MODELS {
        for (number, choice) in choices.iter().enumerate() {
            let mut request = with_tools("go");
            if number % 3 == 2 {
                request.tools = Arc::default();
            }
            request.reasoning_effort = [
                None,
                Some(ReasoningEffort::None),
                Some(ReasoningEffort::Low),
                Some(ReasoningEffort::High),
            ][number % 4];
            request.temperature = Some(1.7);
            request.max_output_tokens = Some(5);
            let options = json!({
                "top_p": 0.5, "top_k": 5, "stop": ["\n", "END", "a", "b", "c", "d"], "presence_penalty": 0.5,
                "logprobs": true, "tool_choice": choice, "parallel_tool_calls": false, "user": "me",
            });
            request.options = options.as_object().cloned().expect("an object");
            if !name.starts_with("openai") && !name.starts_with("azure") {
                request.options.remove("logprobs");
                request.options.remove("user");
            }
            if name.starts_with("openai") || name.starts_with("azure") {
                // Users of these providers do not set this option.
                request.options.remove("top_k");
            }
            let (answer, _) = exchange(name, request);
            answer.unwrap_or_else(|error| panic!("{name}, {choice}: {error}"));
        }
    }
}

#[test]
fn a_choice_of_tools_is_translated() {
    let with = |choice: Value, effort| {
        let mut request = with_tools("go");
        request.reasoning_effort = effort;
        let options = json!({"tool_choice": choice, "parallel_tool_calls": false});
        request.options = options.as_object().cloned().expect("an object");
        request
    };
    let tool = || json!({"type": "tool", "name": "read"});
    let claude = "anthropic/claude-sonnet-4-5";
    let body = sent(claude, with(json!("required"), None));
    assert_eq!(
        body["tool_choice"],
        json!({"type": "any", "disable_parallel_tool_use": true})
    );
    let mut thinking = with(tool(), Some(ReasoningEffort::High));
    thinking.max_output_tokens = Some(30_000);
    let body = sent(claude, thinking);
    assert_eq!(body["thinking"]["type"], "enabled");
    assert_eq!(
        body["tool_choice"],
        json!({"type": "auto", "disable_parallel_tool_use": true}),
        "no forced tool together with reasoning"
    );
    let body = sent("openai/gpt-4.1", with(tool(), None));
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "function": {"name": "read"}})
    );
    assert_eq!(body["parallel_tool_calls"], false);
    let body = sent("openai-responses/gpt-4.1", with(tool(), None));
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "name": "read"})
    );
    let body = sent("gemini/gemini-2.5-flash", with(tool(), None));
    assert_eq!(
        body["toolConfig"]["functionCallingConfig"],
        json!({"mode": "ANY", "allowedFunctionNames": ["read"]})
    );
    assert!(body["generationConfig"].get("toolChoice").is_none());
}

/// OpenAI's Chat Completions rejects function tools with reasoning for its newer models.
#[test]
fn newer_models_of_openai_call_tools_over_responses() {
    let server = ModelServer::answering(answer_any_request);
    let catalogue = catalogue(&server);
    let protocol = |name: &str| {
        let entry = catalogue.entry(&name.parse().expect("a name"));
        entry.expect(name).protocol
    };
    for name in [
        "openai/gpt-4.1",
        "openai/gpt-5",
        "openai/gpt-5.1",
        "openai/o3",
    ] {
        assert_eq!(protocol(name), Some(Protocol::OpenaiChat), "{name}");
    }
    for name in [
        "openai/gpt-5.2",
        "openai/gpt-5.4-mini",
        "openai/gpt-5.10",
        "openai/gpt-6",
    ] {
        assert_eq!(protocol(name), Some(Protocol::OpenaiResponses), "{name}");
    }
    assert_eq!(protocol("azure/gpt-5.4"), Some(Protocol::OpenaiChat));
    let mut request = with_tools("go");
    request.reasoning_effort = Some(ReasoningEffort::High);
    let body = sent("openai/gpt-5.4", request.clone());
    assert_eq!(body["reasoning"]["effort"], "high");
    assert_eq!(body["tools"][0]["name"], "read");
    let body = sent("azure/gpt-5.4", request);
    assert_eq!(body["reasoning_effort"], "none");
}

#[test]
fn a_long_description_of_a_tool_is_continued_in_its_parameters() {
    let words: Vec<String> = (0..400).map(|number| format!("word{number}")).collect();
    let text = words.join(" ");
    let mut request = with_tools("go");
    let tool = ToolDefinition {
        description: text.clone(),
        ..request.tools[0].clone()
    };
    request.tools = [tool].into();
    for name in ["openai/gpt-4.1", "azure/gpt-4.1"] {
        let body = sent(name, request.clone());
        let function = &body["tools"][0]["function"];
        let (first, rest) = (
            function["description"].as_str().expect("a text"),
            function["parameters"]["description"]
                .as_str()
                .expect("the rest"),
        );
        let joined = format!(
            "{} {}",
            first.trim_end_matches(" …"),
            rest.trim_start_matches("… ")
        );
        assert_eq!(joined, text.trim(), "{name}: nothing is lost");
    }
    let body = sent("anthropic/claude-sonnet-4-5", request);
    assert_eq!(body["tools"][0]["description"], text.as_str());
}

#[test]
fn an_answer_with_hundreds_of_calls_is_split() {
    let ids: Vec<String> = (0..300).map(|number| format!("c{number}")).collect();
    let mut request = with_tools("go");
    request
        .messages
        .push(Arc::new(ChatMessage::Assistant(AssistantMessage {
            text: "I read all.".to_owned(),
            calls: ids.iter().map(|id| call(id)).collect(),
            ..AssistantMessage::default()
        })));
    request
        .messages
        .push(results(ids.iter().map(|id| tool_result(id, "x")).collect()));
    for name in MODELS {
        let body = sent(name, request.clone());
        if name == "openai/gpt-4.1" {
            let messages = body["messages"].as_array().expect("messages");
            let answers = messages
                .iter()
                .filter(|message| message["role"] == "assistant");
            let calls: Vec<usize> = answers
                .map(|message| message["tool_calls"].as_array().map_or(0, Vec::len))
                .collect();
            assert_eq!(calls, [128, 128, 44]);
            assert!(body.to_string().matches("I read all.").count() == 1);
        }
    }
}

/// A schema that strict mode cannot express is sent as a non-strict schema.
#[test]
fn schemas_beyond_the_limits_of_strict_mode_are_not_strict() {
    let mut deep = json!({"type": "string"});
    for _ in 0..12 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
    }
    let values: Vec<String> = (0..1100).map(|number| number.to_string()).collect();
    let many = json!({"type": "object", "properties": {"a": {"type": "string", "enum": values}}});
    let simple = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for (schema, is_strict) in [(deep, false), (many, false), (simple, true)] {
        let mut request = ChatRequest::prompt("go");
        request.response_schema = Some(ResponseSchema {
            name: "s".to_owned(),
            schema,
            strict: true,
        });
        let body = sent("openai/gpt-4.1", request.clone());
        assert_eq!(body["response_format"]["json_schema"]["strict"], is_strict);
        let body = sent("openai-responses/gpt-4.1", request);
        assert_eq!(body["text"]["format"]["strict"], is_strict);
    }
}

/// Providers reject an output limit that does not fit after the input.
#[test]
fn the_output_limit_fits_into_the_context_window() {
    for (name, letters, limit) in [
        ("openai/gpt-4o", 330_000, "max_completion_tokens"),
        ("anthropic/claude-sonnet-4", 450_000, "max_tokens"),
    ] {
        let mut request = ChatRequest::prompt("x".repeat(letters));
        request.max_output_tokens = Some(64_000);
        let body = sent(name, request);
        let sent = body[limit].as_u64().expect("a limit");
        assert!((1024..64_000).contains(&sent), "{name}: {sent}");
    }
}

#[test]
fn the_ollama_context_size_fits_the_request() {
    let context = |request: ChatRequest| {
        let body = sent("ollama/qwen3:8b", request);
        assert_eq!(body["truncate"], false);
        body["options"]["num_ctx"].as_u64().expect("a size")
    };
    assert_eq!(context(ChatRequest::prompt("go")), 8192);
    assert_eq!(context(ChatRequest::prompt("x".repeat(40_000))), 32_768);
    let mut explicit = ChatRequest::prompt("x".repeat(4_000));
    explicit.options.insert("num_ctx".to_owned(), json!(65_536));
    assert_eq!(context(explicit), 65_536);
    let entry = |name: &str| {
        let server = ModelServer::answering(answer_any_request);
        let entry = catalogue(&server).entry(&name.parse().expect("a name"));
        entry.expect(name).capabilities
    };
    assert!(entry("ollama/qwen3:8b").tools && !entry("ollama/gemma3:27b").tools);
}

#[test]
fn refusals_for_length_have_their_own_error() {
    use cleveragents_testkit::model_server::Response;
    for message in [
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300007 tokens.",
        "the input length exceeds the context length",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    ] {
        let body =
            json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string();
        let server = ModelServer::answering(move |_| Response::json(400, &body));
        let error = ask(&*open(&server, "openai/gpt-4.1"), ChatRequest::prompt("a"));
        assert_eq!(
            error.expect_err("refused").kind(),
            &ErrorKind::ContextTooLong,
            "{message}"
        );
    }
}
