//! Responses in the format of Anthropic Messages.

use serde_json::{Value, json};

use super::{Response, Step};

/// A streamed text, one event per piece.
pub fn text(pieces: &[&str]) -> Response {
    let deltas = pieces
        .iter()
        .map(|piece| json!({"type": "text_delta", "text": piece}));
    let block = json!({"type": "text", "text": ""});
    streamed(&[(block, deltas.collect())], "end_turn")
}

/// Streamed tool calls `(id, name, arguments)`, one block after another.
pub fn calls(calls: &[(&str, &str, &str)]) -> Response {
    let blocks: Vec<_> = calls
        .iter()
        .map(|(id, name, arguments)| {
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            let deltas = arguments.chars().map(
                |letter| json!({"type": "input_json_delta", "partial_json": letter.to_string()}),
            );
            (block, deltas.collect())
        })
        .collect();
    streamed(&blocks, "tool_use")
}

/// A streamed response of blocks with their deltas. Usage: 12 input tokens, 5 more read from the cache, 3 more written
/// to it, and 10 output tokens.
pub fn streamed(blocks: &[(Value, Vec<Value>)], stop_reason: &str) -> Response {
    let mut data = vec![
        json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 12, "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "ping"}),
    ];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        data.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            data.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        data.push(json!({"type": "content_block_stop", "index": index}));
    }
    data.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason},
                     "usage": {"output_tokens": 10}}),
    );
    data.push(json!({"type": "message_stop"}));
    let mut response = Response::events(data.iter());
    response.steps = data
        .iter()
        .map(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            Step::Send(format!("event: {name}\ndata: {event}\n\n").into_bytes())
        })
        .collect();
    response
}

/// A complete response of blocks, not streamed.
pub fn whole(blocks: &[Value], stop_reason: &str) -> Response {
    let body = json!({"type": "message", "role": "assistant", "content": blocks,
        "stop_reason": stop_reason, "usage": {
            "input_tokens": 12, "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 3, "output_tokens": 10}});
    Response::json(200, &body.to_string())
}

pub fn error(status: u16, kind: &str, message: &str) -> Response {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    Response::json(status, &body.to_string())
}
