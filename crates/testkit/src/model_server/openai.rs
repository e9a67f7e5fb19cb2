//! Responses in the format of OpenAI Chat Completions.

use serde_json::{Value, json};

use super::Response;

/// A streamed text, one event per piece.
pub fn text(pieces: &[&str]) -> Response {
    let deltas = pieces.iter().map(|piece| json!({"content": piece}));
    streamed(deltas.collect(), "stop")
}

/// Streamed tool calls `(id, name, arguments)`, interleaved: all calls start first, then their arguments follow in
/// alternating pieces.
pub fn calls(calls: &[(&str, &str, &str)]) -> Response {
    let mut deltas = Vec::new();
    for (index, (id, name, _)) in calls.iter().enumerate() {
        deltas.push(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": ""}}]}),
        );
    }
    let halves = |text: &str| {
        let middle = text.char_indices().nth(text.chars().count() / 2);
        let middle = middle.map_or(0, |(middle, _)| middle);
        [text[..middle].to_owned(), text[middle..].to_owned()]
    };
    for half in 0..2 {
        for (index, (_, _, arguments)) in calls.iter().enumerate() {
            let fragment = &halves(arguments)[half];
            deltas.push(json!({"tool_calls": [{"index": index,
                "function": {"arguments": fragment}}]}));
        }
    }
    streamed(deltas, "tool_calls")
}

/// A streamed response of deltas, with the usage at the end: 20 input tokens, 8 of them cached, and 10 output tokens.
pub fn streamed(deltas: Vec<Value>, finish_reason: &str) -> Response {
    let chunk = |delta: Value, reason: Value| {
        json!({"object": "chat.completion.chunk",
               "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut data: Vec<String> = deltas
        .into_iter()
        .map(|delta| chunk(delta, Value::Null).to_string())
        .collect();
    data.push(chunk(json!({}), finish_reason.into()).to_string());
    data.push(json!({"choices": [], "usage": usage()}).to_string());
    data.push("[DONE]".to_owned());
    Response::events(data)
}

/// A complete response, not streamed.
pub fn whole(text: &str, calls: &[(&str, &str, &str)]) -> Response {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id": id, "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let reason = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}],
                      "usage": usage()});
    Response::json(200, &body.to_string())
}

pub fn error(status: u16, code: &str, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": code, "code": code}});
    Response::json(status, &body.to_string())
}

fn usage() -> Value {
    json!({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30,
           "prompt_tokens_details": {"cached_tokens": 8},
           "completion_tokens_details": {"reasoning_tokens": 4}})
}
