//! Ollama's native API: one JSON value per line.

use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::options::add_options;
use super::schema::answer_format;
use super::{
    DecodeError, Decoder, Target, arguments_object, base64, count, items, parse, pictures, text,
};
use crate::assemble::Assembler;
use crate::error::ModelError;
use crate::event::StopReason;
use crate::frames::Frame;
use crate::http::HttpCall;
use crate::message::{ChatMessage, UserPart};
use crate::model::{Estimate, estimated_tokens};
use crate::request::{ChatRequest, ReasoningEffort};

/// Context size in tokens for a model whose size is unknown.
const DEFAULT_CONTEXT: u64 = 32_768;
const MIN_CONTEXT: u64 = 8192;
/// Number of context tokens kept free for the answer.
const ANSWER_RESERVE: u64 = 4096;

pub(super) fn write(target: &Target, request: &ChatRequest) -> Result<HttpCall, ModelError> {
    let mut body = json!({
        "model": target.name.model(),
        "messages": messages(target, request),
        "stream": request.stream,
    });
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            }})
        });
        body["tools"] = tools.collect();
    }
    if let Some(format) = answer_format(target, request) {
        body["format"] = format.schema;
    }
    if let Some(limit) = target.output_limit(request) {
        body["options"]["num_predict"] = limit.into();
    }
    if let Some(temperature) = target.temperature(request) {
        body["options"]["temperature"] = temperature.into();
    }
    // A request that does not fit must be rejected; otherwise the server would drop its beginning and answer anyway.
    body["truncate"] = false.into();
    if !request.options.contains_key("num_ctx") {
        body["options"]["num_ctx"] = context(target, request).into();
    }
    for (name, value) in target.options(request) {
        let place = match name {
            "keep_alive" => &mut body,
            _ => &mut body["options"],
        };
        add_options(place, std::iter::once((name, value)));
    }
    if let Some(effort) = request.reasoning_effort {
        let thinks = effort != ReasoningEffort::None;
        // The server rejects `think: true` for a model that cannot reason; it accepts `think: false` for every model.
        if !thinks || can_think(target.name.model()) {
            body["think"] = thinks.into();
        }
    }
    let mut call = HttpCall::new(target.url("api/chat"), &body);
    if let Some(key) = &target.key {
        call.authorise(&target.name, AUTHORIZATION, "Bearer ", key)?;
    }
    Ok(call)
}

/// The context size to load the model with. The server's default depends on the machine and is often too small for the
/// tools alone. A different size reloads the model, so it grows only by doubling.
fn context(target: &Target, request: &ChatRequest) -> u64 {
    let largest = target
        .capabilities
        .context_window
        .unwrap_or(DEFAULT_CONTEXT);
    let answer = u64::from(target.largest_answer(request)).min(ANSWER_RESERVE);
    let needed = estimated_tokens(request, Estimate::High) + answer;
    needed.next_power_of_two().max(MIN_CONTEXT).min(largest)
}

/// Whether a model of the library is known to support reasoning.
fn can_think(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let families = [
        "qwen3",
        "qwq",
        "deepseek-r1",
        "deepseek-v3.1",
        "gpt-oss",
        "magistral",
        "cogito",
        "glm-4",
        "minimax",
        "nemotron",
        "kimi-k2-thinking",
    ];
    families.iter().any(|family| name.starts_with(family))
}

fn messages(target: &Target, request: &ChatRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system.join("\n\n")}));
    }
    for message in &request.messages {
        match message.as_ref() {
            ChatMessage::User { parts } => messages.push(user(parts)),
            ChatMessage::Assistant(answer) => {
                let mut message = json!({"role": "assistant", "content": answer.text});
                if !answer.calls.is_empty() {
                    let calls = answer.calls.iter().map(|call| {
                        json!({"function": {
                            "name": call.name, "arguments": arguments_object(call),
                        }})
                    });
                    message["tool_calls"] = calls.collect();
                    let own_reasoning = answer
                        .reasoning
                        .iter()
                        .filter(|block| block.provider == target.name.provider());
                    let thought: String = own_reasoning.map(|block| block.text.as_str()).collect();
                    if !thought.is_empty() {
                        message["thinking"] = thought.into();
                    }
                }
                messages.push(message);
            }
            ChatMessage::Tool { results } => {
                messages.extend(results.iter().map(|result| {
                    json!({
                        "role": "tool",
                        "content": result.content,
                        "tool_name": request.called_tool(&result.call_id),
                    })
                }));
                let images = pictures(results);
                if !images.is_empty() {
                    messages.push(user(&images));
                }
            }
        }
    }
    messages.into()
}

fn user(parts: &[UserPart]) -> Value {
    let mut content = String::new();
    let mut images = Vec::new();
    for part in parts {
        match part {
            UserPart::Text(text) => {
                if !content.is_empty() {
                    content.push('\n');
                }
                content.push_str(text);
            }
            UserPart::Image { data, .. } => images.push(base64(data)),
        }
    }
    let mut message = json!({"role": "user", "content": content});
    if !images.is_empty() {
        message["images"] = images.into();
    }
    message
}

/// Parses answers. A streamed answer is a sequence of documents in the format of a complete answer.
pub(super) struct OllamaDecoder;

impl Decoder for OllamaDecoder {
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError> {
        self.whole(&parse(&frame.data)?, answer)
    }

    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError> {
        if body.get("error").is_some() {
            return Err(DecodeError::Reported(body.clone()));
        }
        let message = &body["message"];
        answer.reasoning(text(message, "/thinking"));
        answer.text(text(message, "/content"));
        for call in items(message, "/tool_calls") {
            let function = &call["function"];
            let index = answer.start_call(call["id"].as_str(), text(function, "/name"));
            let arguments = match &function["arguments"] {
                Value::String(text) => text.clone(),
                Value::Null => "{}".to_owned(),
                other => other.to_string(),
            };
            answer.arguments(index, &arguments);
        }
        if body["done"].as_bool() == Some(true) {
            answer.usage.input_tokens = count(body, "/prompt_eval_count");
            answer.usage.output_tokens = count(body, "/eval_count");
            answer.stop(match text(body, "/done_reason") {
                "length" => StopReason::MaxTokens,
                "stop" | "" => StopReason::EndTurn,
                other => StopReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }
}
