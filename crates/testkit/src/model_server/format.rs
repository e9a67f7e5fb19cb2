//! The five wire formats: environment variables for the endpoint, and responses that start with reasoning.

use serde_json::{Value, json};

use super::{Response, anthropic, openai};

/// API protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama's native API.
    Ollama,
    /// OpenAI Chat Completions.
    OpenaiChat,
    OpenaiResponses,
}

impl WireFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::OpenaiChat,
        Self::OpenaiResponses,
    ];

    /// A model that supports reasoning, images and tool calls.
    pub const fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic/claude-sonnet-4-5",
            Self::Gemini => "gemini/gemini-2.5-pro",
            Self::Ollama => "ollama/qwen3:8b",
            Self::OpenaiChat => "openai/gpt-5.1",
            Self::OpenaiResponses => "openai-responses/gpt-5.1",
        }
    }

    /// Environment variables with the endpoint and a key.
    pub fn variables(self, url: &str) -> [(&'static str, String); 2] {
        let key = || "test-key-0123456789".to_owned();
        match self {
            Self::Anthropic => [
                ("ANTHROPIC_BASE_URL", url.to_owned()),
                ("ANTHROPIC_API_KEY", key()),
            ],
            Self::Gemini => [
                ("GEMINI_BASE_URL", url.to_owned()),
                ("GEMINI_API_KEY", key()),
            ],
            Self::Ollama => [
                ("OLLAMA_BASE_URL", url.to_owned()),
                ("OLLAMA_API_KEY", key()),
            ],
            Self::OpenaiChat | Self::OpenaiResponses => [
                ("OPENAI_BASE_URL", format!("{url}/v1")),
                ("OPENAI_API_KEY", key()),
            ],
        }
    }

    /// Response with reasoning, then a text.
    pub fn text_response(self, text: &str) -> Response {
        self.answer(Some(text), &[])
    }

    /// Response with reasoning, then tool calls `(id, name, arguments)`. Formats without ids omit them.
    pub fn calls(self, calls: &[(&str, &str, &Value)]) -> Response {
        self.answer(None, calls)
    }

    fn answer(self, text: Option<&str>, calls: &[(&str, &str, &Value)]) -> Response {
        match self {
            Self::Anthropic => anthropic_answer(text, calls),
            Self::Gemini => gemini_answer(text, calls),
            Self::Ollama => ollama_answer(text, calls),
            Self::OpenaiChat => {
                let mut deltas = vec![json!({"role": "assistant", "content": text})];
                for (index, (id, name, arguments)) in calls.iter().enumerate() {
                    deltas.push(
                        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                        "function": {"name": name, "arguments": arguments.to_string()}}]}),
                    );
                }
                let reason = if calls.is_empty() {
                    "stop"
                } else {
                    "tool_calls"
                };
                openai::streamed(deltas, reason)
            }
            Self::OpenaiResponses => responses_answer(text, calls),
        }
    }
}

fn anthropic_answer(text: Option<&str>, calls: &[(&str, &str, &Value)]) -> Response {
    let mut blocks = vec![(
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        vec![
            json!({"type": "thinking_delta", "thinking": "Let me see."}),
            json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ],
    )];
    if let Some(text) = text {
        blocks.push((
            json!({"type": "text", "text": ""}),
            vec![json!({"type": "text_delta", "text": text})],
        ));
    }
    for (id, name, arguments) in calls {
        blocks.push((
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": arguments.to_string()})],
        ));
    }
    let reason = if calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    anthropic::streamed(&blocks, reason)
}

fn gemini_answer(text: Option<&str>, calls: &[(&str, &str, &Value)]) -> Response {
    let mut parts = vec![json!({"text": "Let me see.", "thought": true})];
    parts.extend(text.map(|text| json!({"text": text})));
    for (index, (_, name, arguments)) in calls.iter().enumerate() {
        let mut part = json!({"functionCall": {"name": name, "args": arguments}});
        if index == 0 {
            part["thoughtSignature"] = "c2lnbmVk".into();
        }
        parts.push(part);
    }
    Response::events([
        json!({"candidates": [{"content": {"role": "model", "parts": parts}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 6, "thoughtsTokenCount": 4}}),
    ])
}

fn ollama_answer(text: Option<&str>, calls: &[(&str, &str, &Value)]) -> Response {
    let mut lines = vec![
        json!({"message": {"role": "assistant", "content": "", "thinking": "Let me see."}, "done": false}),
        json!({"message": {"role": "assistant", "content": text.unwrap_or_default()}, "done": false}),
    ];
    for (_, name, arguments) in calls {
        lines.push(
            json!({"message": {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": name, "arguments": arguments}}]}, "done": false}),
        );
    }
    lines.push(
        json!({"message": {"role": "assistant", "content": ""}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 10}),
    );
    let mut text = String::new();
    for line in &lines {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    let mut response = Response::json(200, &text);
    response.headers = vec![("content-type".to_owned(), "application/x-ndjson".to_owned())];
    response
}

fn responses_answer(text: Option<&str>, calls: &[(&str, &str, &Value)]) -> Response {
    let mut events = vec![
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Let me see."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {
            "type": "reasoning", "id": "rs_1", "encrypted_content": "sealed",
            "summary": [{"type": "summary_text", "text": "Let me see."}]}}),
    ];
    if let Some(text) = text {
        events.push(
            json!({"type": "response.output_item.added", "output_index": 1,
            "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
        );
        events
            .push(json!({"type": "response.output_text.delta", "output_index": 1, "delta": text}));
        events.push(
            json!({"type": "response.output_item.done", "output_index": 1, "item": {
            "type": "message", "id": "msg_1", "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}}),
        );
    }
    for (index, (id, name, arguments)) in (1..).zip(calls) {
        let item = |arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments});
        let complete = arguments.to_string();
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
        );
        events.push(json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": complete}));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item(&complete)}));
    }
    events.push(
        json!({"type": "response.completed", "response": {"status": "completed", "usage": {
        "input_tokens": 20, "output_tokens": 10}}}),
    );
    Response::events(events)
}
