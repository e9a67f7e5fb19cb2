//! The two wire formats of the endpoints in these tests.

use cleveragents_testkit::model_server::{ReceivedRequest, Response, anthropic, openai};
use serde_json::{Value, json};

/// A tool call in a response: id, name, arguments.
pub(crate) type Call<'a> = (&'a str, &'a str, &'a str);

/// Keys that must not appear in any output.
pub(crate) const OPENAI_KEY: &str = "sk-test-0pen4I0123456789abcdefghij";
pub(crate) const ANTHROPIC_KEY: &str = "zz-nothing-like-a-key-7742";

/// Wire format of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    OpenAi,
    Anthropic,
}

/// Shape of a response: a stream of pieces or one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Pieces,
    Document,
}

/// A tool result, as an endpoint receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolResultMessage {
    pub(crate) id: String,
    pub(crate) content: String,
}

impl WireFormat {
    pub(crate) const BOTH: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    pub(crate) const fn model(self) -> &'static str {
        match self {
            Self::OpenAi => "openai/gpt-5.1",
            Self::Anthropic => "anthropic/claude-sonnet-4-5",
        }
    }

    /// Environment variables for URL and key, and the value of the key.
    pub(crate) const fn variables(self) -> [&'static str; 3] {
        match self {
            Self::OpenAi => ["OPENAI_BASE_URL", "OPENAI_API_KEY", OPENAI_KEY],
            Self::Anthropic => ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ANTHROPIC_KEY],
        }
    }

    pub(crate) fn text_response(self, shape: Shape, pieces: &[&str]) -> Response {
        let text = pieces.concat();
        match (self, shape) {
            (Self::OpenAi, Shape::Pieces) => openai::text(pieces),
            (Self::OpenAi, Shape::Document) => openai::whole(&text, &[]),
            (Self::Anthropic, Shape::Pieces) => anthropic::text(pieces),
            (Self::Anthropic, Shape::Document) => {
                anthropic::whole(&[json!({"type": "text", "text": text})], "end_turn")
            }
        }
    }

    pub(crate) fn calls(self, shape: Shape, calls: &[Call<'_>]) -> Response {
        match (self, shape) {
            (Self::OpenAi, Shape::Pieces) => openai::calls(calls),
            (Self::OpenAi, Shape::Document) => openai::whole("", calls),
            (Self::Anthropic, Shape::Pieces) => anthropic::calls(calls),
            (Self::Anthropic, Shape::Document) => {
                let blocks: Vec<Value> = calls
                    .iter()
                    .map(|(id, name, arguments)| {
                        let input: Value = serde_json::from_str(arguments).expect("JSON");
                        json!({"type": "tool_use", "id": id, "name": name, "input": input})
                    })
                    .collect();
                anthropic::whole(&blocks, "tool_use")
            }
        }
    }

    pub(crate) fn refuses(self, status: u16, message: &str) -> Response {
        match self {
            Self::OpenAi => openai::error(status, "trouble", message),
            Self::Anthropic => anthropic::error(status, "trouble", message),
        }
    }

    /// Key that a request contains.
    pub(crate) fn key_of(self, request: &ReceivedRequest) -> Option<String> {
        match self {
            Self::OpenAi => {
                let header = request.header("authorization")?;
                header.strip_prefix("Bearer ").map(str::to_owned)
            }
            Self::Anthropic => request.header("x-api-key").map(str::to_owned),
        }
    }

    /// Names of the tools that a request offers.
    pub(crate) fn offered(self, request: &ReceivedRequest) -> Vec<String> {
        let body = request.json();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| match self {
            Self::OpenAi => text(&tool["function"]["name"]),
            Self::Anthropic => text(&tool["name"]),
        };
        tools.iter().map(name).collect()
    }

    /// Calls in a request with their results. Asserts that every result follows the message with
    /// its call, and that every call has a result.
    pub(crate) fn exchanges(self, request: &ReceivedRequest) -> Vec<(Value, ToolResultMessage)> {
        let body = request.json();
        let messages = body["messages"].as_array().expect("messages").clone();
        let mut pairs: Vec<(Value, ToolResultMessage)> = Vec::new();
        let mut pending: Vec<Value> = Vec::new();
        for message in &messages {
            let (calls, results) = self.parts(message);
            for result in results {
                let position = pending
                    .iter()
                    .position(|call| text(&call["id"]) == result.id);
                let position =
                    position.unwrap_or_else(|| panic!("a result without a call: {result:?}"));
                pairs.push((pending.remove(position), result));
            }
            if message["role"] != "tool" {
                assert!(
                    pending.is_empty(),
                    "calls without results: {pending:?} in {messages:#?}"
                );
            }
            pending.extend(calls);
        }
        assert!(pending.is_empty(), "calls without results: {pending:?}");
        pairs
    }

    pub(crate) fn results(self, request: &ReceivedRequest) -> Vec<ToolResultMessage> {
        let pairs = self.exchanges(request).into_iter();
        pairs.map(|(_, result)| result).collect()
    }

    /// Calls, as `{id, name}`, and results of one message.
    fn parts(self, message: &Value) -> (Vec<Value>, Vec<ToolResultMessage>) {
        match self {
            Self::OpenAi => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                let calls =
                    calls.map(|call| json!({"id": call["id"], "name": call["function"]["name"]}));
                let result = (message["role"] == "tool").then(|| ToolResultMessage {
                    id: text(&message["tool_call_id"]),
                    content: text(&message["content"]),
                });
                (calls.collect(), result.into_iter().collect())
            }
            Self::Anthropic => {
                let blocks = message["content"].as_array().cloned().unwrap_or_default();
                let blocks_of = |kind: &'static str| {
                    let blocks = blocks.clone().into_iter();
                    blocks.filter(move |block| block["type"] == kind)
                };
                let calls = blocks_of("tool_use")
                    .map(|block| json!({"id": block["id"], "name": block["name"]}))
                    .collect();
                let results = blocks_of("tool_result")
                    .map(|block| ToolResultMessage {
                        id: text(&block["tool_use_id"]),
                        content: text(&block["content"]),
                    })
                    .collect();
                (calls, results)
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
