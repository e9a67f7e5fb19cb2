//! Tests of requests with content that providers reject, against endpoints that reject it.

use std::sync::Arc;

use cleveragents_models::{
    AssistantMessage, ChatMessage, ChatRequest, Picture, Reasoning, ReasoningEffort,
    ResponseSchema, ToolCall, ToolDefinition, ToolResult, UserPart, drop_optional_nulls,
};
use cleveragents_testkit::model_server::{ModelServer, WireFormat, openai};
use serde_json::{Value, json};

use super::{PIXEL, ask, open};

/// The schema of a strategy: bounds, open objects, optional properties.
fn strategy() -> Value {
    json!({
        "type": "object", "required": ["summary", "steps"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "risk": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["title"],
                "properties": {
                    "title": {"type": "string", "minLength": 1},
                    "after": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "kind": {"type": "string", "enum": ["a", "b"]},
                },
            }},
        },
    })
}

/// Tools as MCP servers describe them.
fn tools() -> Arc<[ToolDefinition]> {
    let tool = |name: &str, input_schema: Value| ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        input_schema,
    };
    [
        tool("read", json!({"type": "object", "properties": {"path": {"type": "string", "pattern": "^/"}}})),
        tool("my.server_S_list", json!({})),
        tool("1st", json!({"oneOf": [{"type": "object", "properties": {"a": {"type": "array"}}}]})),
        tool(&format!("mcp_S_{}", "x".repeat(110)), json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {
                "node": {"$ref": "#/definitions/node"}, "pair": {"type": "array", "items": [{"type": "string"}]},
                "odd name": {"type": "string"}, "any": true, "n": {"type": "integer", "exclusiveMinimum": true},
            },
            "required": ["missing"],
            "definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
        })),
    ]
    .into()
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        signature: None,
    }
}

fn answer(text: &str, calls: Vec<ToolCall>) -> Arc<ChatMessage> {
    ChatMessage::Assistant(AssistantMessage {
        text: text.to_owned(),
        // Reasoning of another provider, without a signature.
        reasoning: vec![Reasoning {
            text: "hm".to_owned(),
            provider: "anthropic".to_owned(),
            seal: None,
            after_text: 0,
            after_calls: 0,
        }],
        calls,
    })
    .into()
}

/// A conversation with the irregularities that sessions contain.
fn conversation() -> Vec<Arc<ChatMessage>> {
    let result = |id: &str, pictures: Vec<Picture>| ToolResult {
        call_id: id.to_owned(),
        content: String::new(),
        is_error: false,
        pictures,
    };
    let picture = |media_type: &str, data: Vec<u8>| Picture {
        media_type: media_type.to_owned(),
        data,
    };
    let image = |media_type: &str, data: Vec<u8>| UserPart::Image {
        media_type: media_type.to_owned(),
        data,
    };
    let mut wide = PIXEL.to_vec();
    wide[16] = 1;
    let mut large = PIXEL.to_vec();
    large.resize(13_000_000, 0);
    vec![
        answer("It began before.", vec![]),
        ChatMessage::User {
            parts: vec![
                UserPart::Text(" ".to_owned()),
                UserPart::Text("look".to_owned()),
                image("image/png", PIXEL.to_vec()),
                image("image/bmp", b"BM".to_vec()),
                image("image/png", large),
            ],
        }
        .into(),
        answer("  \n", vec![]),
        // Interrupted calls, with ids and names that no provider accepts, and arguments that are
        // not JSON.
        answer(
            "I read.",
            vec![
                call("functions.read:0", "read", "{\"pa"),
                call(&"y".repeat(70), "rm -rf /; x", ""),
                call("c3", "read", "{}"),
            ],
        ),
        ChatMessage::Tool {
            results: vec![
                result(
                    "c3",
                    vec![
                        picture("image/png", PIXEL.to_vec()),
                        picture("image/png", wide),
                    ],
                ),
                result("never-called", vec![]),
            ],
        }
        .into(),
        ChatMessage::user("and?").into(),
        answer("Wait.", vec![]),
        answer("", vec![call("c3", "read", "{}")]),
        ChatMessage::Tool {
            results: vec![result("c3", vec![picture("image/png", PIXEL.to_vec())])],
        }
        .into(),
        answer("So it is.", vec![]),
    ]
}

fn request() -> ChatRequest {
    ChatRequest {
        system: vec!["Be brief.".to_owned(), " ".to_owned()],
        messages: conversation(),
        tools: tools(),
        response_schema: Some(ResponseSchema {
            name: "the strategy".to_owned(),
            schema: strategy(),
            strict: true,
        }),
        max_output_tokens: Some(4096),
        reasoning_effort: Some(ReasoningEffort::Medium),
        ..ChatRequest::default()
    }
}

#[test]
fn every_provider_accepts_the_content_of_a_session() {
    let all = WireFormat::ALL.map(|format| (format.model(), format));
    let other_models = [
        ("anthropic/claude-opus-4-6", WireFormat::Anthropic),
        ("anthropic/claude-sonnet-4", WireFormat::Anthropic),
        ("gemini/gemini-3-pro-preview", WireFormat::Gemini),
        ("ollama/llama3.2", WireFormat::Ollama),
        ("openai/gpt-4.1", WireFormat::OpenaiChat),
        ("openai/o4-mini", WireFormat::OpenaiChat),
        ("openai-responses/gpt-4.1", WireFormat::OpenaiResponses),
        ("mistral/mistral-small", WireFormat::OpenaiChat),
        ("deepseek/deepseek-chat", WireFormat::OpenaiChat),
        ("groq/openai/gpt-oss-120b", WireFormat::OpenaiChat),
        (
            "openrouter/anthropic/claude-sonnet-4.5",
            WireFormat::OpenaiChat,
        ),
    ];
    for (name, format) in all.into_iter().chain(other_models) {
        for effort in [
            None,
            Some(ReasoningEffort::None),
            Some(ReasoningEffort::Minimal),
            Some(ReasoningEffort::High),
        ] {
            for (has_tools, has_schema) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                let server = ModelServer::answering(move |_| format.text_response("ok"));
                let mut request = request();
                request.reasoning_effort = effort;
                if !has_tools {
                    request.tools = Arc::default();
                }
                if !has_schema {
                    request.response_schema = None;
                }
                let completion = ask(&*open(&server, name), request);
                let case = format!("{name}, {effort:?}, tools {has_tools}, schema {has_schema}");
                let completion = completion.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(completion.message.text, "ok", "{case}");
                assert!(server.refused().is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn calls_have_the_original_names_of_the_tools() {
    let server = ModelServer::answering(|request| {
        let tools = request.json()["tools"].clone();
        let tools = tools.as_array().expect("tools").iter().enumerate();
        let calls: Vec<(String, String)> = tools
            .map(|(index, tool)| {
                let name = tool["function"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned();
                (format!("c{index}"), name)
            })
            .collect();
        let calls: Vec<(&str, &str, &str)> = calls
            .iter()
            .map(|(id, name)| (id.as_str(), name.as_str(), "{}"))
            .collect();
        openai::calls(&calls)
    });
    let request = ChatRequest {
        tools: tools(),
        ..ChatRequest::prompt("go")
    };
    let answer = ask(&*open(&server, "openai/gpt-5.1"), request).expect("an answer");
    let called: Vec<&str> = answer
        .message
        .calls
        .iter()
        .map(|call| call.name.as_str())
        .collect();
    let original = tools();
    let original: Vec<&str> = original.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(called, original);
}

#[test]
fn a_null_of_strict_mode_is_an_omitted_property() {
    let mut answer = json!({"summary": "s", "risk": null, "steps": [
        {"title": "t", "after": null, "kind": null}]});
    drop_optional_nulls(&strategy(), &mut answer);
    assert_eq!(
        answer,
        json!({"summary": "s", "risk": null, "steps": [{"title": "t"}]})
    );
}
