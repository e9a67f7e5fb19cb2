//! The Anthropic Messages API.

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::options::{ToolChoice, add_options, parallel_calls, stop_list};
use super::schema::answer_format;
use super::{
    DecodeError, Decoder, Target, arguments_object, base64, count, items, parse, pictures, text,
};
use crate::assemble::Assembler;
use crate::error::ModelError;
use crate::event::StopReason;
use crate::frames::Frame;
use crate::http::HttpCall;
use crate::message::{AssistantMessage, ChatMessage, Reasoning, ToolResult, UserPart};
use crate::price::Thinking;
use crate::request::{ChatRequest, ReasoningEffort};

pub(super) fn write(target: &Target, request: &ChatRequest) -> Result<HttpCall, ModelError> {
    // The output limit is mandatory.
    let limit = u64::from(target.largest_answer(request));
    let mut body = json!({
        "model": target.name.model(),
        "max_tokens": limit,
        "stream": request.stream,
    });
    if !request.system.is_empty() {
        let mut blocks: Vec<Value> = request
            .system
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        mark_last(request, &mut blocks);
        if !blocks.is_empty() {
            body["system"] = blocks.into();
        }
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                })
            })
            .collect();
        mark_last(request, &mut tools);
        body["tools"] = tools.into();
    }
    let is_thinking = request_reasoning(target, request, limit, &mut body);
    let mut messages = messages(target, request, is_thinking);
    if let Some(last) = messages
        .last_mut()
        .and_then(|last| last["content"].as_array_mut())
    {
        mark_last(request, last);
    }
    body["messages"] = messages.into();
    if let Some(format) = answer_format(target, request) {
        body["output_config"]["format"] = json!({"type": "json_schema", "schema": format.schema});
    }
    // A temperature is not accepted together with reasoning.
    if let Some(temperature) = target.temperature(request)
        && !is_thinking
    {
        body["temperature"] = temperature.into();
    }
    let choice =
        ToolChoice::from_request(request).and_then(|choice| choice.for_anthropic(is_thinking));
    let mut choice = choice.unwrap_or_else(|| json!({}));
    if parallel_calls(request) == Some(false) {
        choice["disable_parallel_tool_use"] = true.into();
        if choice["type"].is_null() {
            choice["type"] = "auto".into();
        }
    }
    if !choice["type"].is_null() {
        body["tool_choice"] = choice;
    }
    for (name, value) in target.options(request) {
        let is_refused = match name {
            // Newer models reject `top_p` together with a temperature, and values below 0.95 together with reasoning.
            "top_p" => body.get("temperature").is_some() || is_thinking,
            "top_k" => is_thinking,
            _ => false,
        };
        if name == "stop" {
            if let Some(texts) = stop_list(value, usize::MAX) {
                body["stop_sequences"] = texts;
            }
        } else if !is_refused {
            add_options(&mut body, std::iter::once((name, value)));
        }
    }
    let mut call = HttpCall::new(target.versioned_url("v1", "messages"), &body);
    call.headers.insert(
        HeaderName::from_static("anthropic-version"),
        HeaderValue::from_static("2023-06-01"),
    );
    if let Some(key) = &target.key {
        call.authorise(&target.name, HeaderName::from_static("x-api-key"), "", key)?;
    }
    Ok(call)
}

/// Marks the last block for caching. The mark covers all blocks before it too. Reasoning blocks cannot be marked.
fn mark_last(request: &ChatRequest, blocks: &mut [Value]) {
    if request.cache
        && let Some(last) = blocks.last_mut()
        && !is_thought(last)
    {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// Requests reasoning in the form that the model supports. Returns whether the model will reason.
fn request_reasoning(target: &Target, request: &ChatRequest, limit: u64, body: &mut Value) -> bool {
    let effort = match request.reasoning_effort {
        None | Some(ReasoningEffort::None) => return false,
        Some(effort) => effort,
    };
    if target.thinking == Thinking::Adaptive {
        let level = match effort {
            ReasoningEffort::High => "high",
            ReasoningEffort::Medium => "medium",
            _ => "low",
        };
        // Newer models return no reasoning text unless it is requested.
        body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        body["output_config"]["effort"] = level.into();
        return true;
    }
    if !target.capabilities.reasoning || !can_continue_reasoning(target, request) {
        return false;
    }
    // The answer itself needs room after the reasoning, and reasoning needs at least 1024 tokens.
    let budget = u64::from(effort.budget()).min(limit.saturating_sub(1024));
    if budget < 1024 {
        return false;
    }
    body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    true
}

/// Whether the answers since the last user request begin with signed reasoning blocks. If they do not, for example
/// because another model wrote them, the provider rejects a request with reasoning.
fn can_continue_reasoning(target: &Target, request: &ChatRequest) -> bool {
    for (index, message) in request.messages.iter().enumerate().rev() {
        match message.as_ref() {
            // A user message directly after tool results is merged with them and does not count as a new request.
            ChatMessage::User { .. } => {
                let previous = index
                    .checked_sub(1)
                    .map(|previous| &request.messages[previous]);
                let is_tool_result = |previous: &std::sync::Arc<ChatMessage>| {
                    matches!(previous.as_ref(), ChatMessage::Tool { .. })
                };
                if !previous.is_some_and(is_tool_result) {
                    return true;
                }
            }
            ChatMessage::Assistant(answer) => {
                let blocks = assistant(target, answer, true);
                if !blocks.first().is_some_and(is_thought) {
                    return false;
                }
            }
            ChatMessage::Tool { .. } => {}
        }
    }
    true
}

fn is_thought(block: &Value) -> bool {
    text(block, "/type").ends_with("thinking")
}

fn messages(target: &Target, request: &ChatRequest, is_thinking: bool) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut add = |role: &str, blocks: Vec<Value>| {
        // Tool results and the next user message are merged into one message.
        if let Some(last) = messages.last_mut()
            && last["role"] == role
            && let Some(known) = last["content"].as_array_mut()
        {
            known.extend(blocks);
        } else if !blocks.is_empty() {
            messages.push(json!({"role": role, "content": blocks}));
        }
    };
    for message in &request.messages {
        match message.as_ref() {
            ChatMessage::User { parts } => add("user", parts.iter().map(user_block).collect()),
            ChatMessage::Assistant(answer) => {
                add("assistant", assistant(target, answer, is_thinking));
            }
            ChatMessage::Tool { results } => {
                let mut blocks: Vec<Value> = results
                    .iter()
                    .map(|result| {
                        json!({
                            "type": "tool_result",
                            "tool_use_id": result.call_id,
                            "content": result_content(result),
                            "is_error": result.is_error,
                        })
                    })
                    .collect();
                // A failed result must be text, so its images follow after all results.
                let failed = results.iter().filter(|result| result.is_error);
                blocks.extend(pictures(failed).iter().map(user_block));
                add("user", blocks);
            }
        }
    }
    messages
}

/// Content of a result: text, or text followed by images. A failed result is non-empty text.
fn result_content(result: &ToolResult) -> Value {
    if result.is_error && result.content.trim().is_empty() {
        return "The call failed without a message.".into();
    }
    if result.pictures.is_empty() || result.is_error {
        return result.content.as_str().into();
    }
    // Anthropic rejects empty text.
    let has_text = !result.content.trim().is_empty();
    let text = has_text.then(|| json!({"type": "text", "text": result.content}));
    let pictures = result.pictures.iter();
    let pictures = pictures.map(|picture| image_block(&picture.media_type, &picture.data));
    text.into_iter().chain(pictures).collect()
}

fn image_block(media_type: &str, data: &[u8]) -> Value {
    json!({"type": "image", "source": {
        "type": "base64", "media_type": media_type, "data": base64(data),
    }})
}

fn user_block(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image { media_type, data } => image_block(media_type, data),
    }
}

/// Blocks of an answer in their original order: signatures are only valid in that order. Reasoning blocks are accepted
/// only if the answer begins with a reasoning block and does not end with one.
fn assistant(target: &Target, answer: &AssistantMessage, is_thinking: bool) -> Vec<Value> {
    let mut blocks = all_blocks(target, answer);
    let is_in_order = is_thinking && blocks.first().is_some_and(is_thought);
    if !is_in_order || blocks.iter().all(is_thought) {
        blocks.retain(|block| !is_thought(block));
    }
    while blocks.last().is_some_and(is_thought) {
        blocks.pop();
    }
    blocks
}

fn all_blocks(target: &Target, answer: &AssistantMessage) -> Vec<Value> {
    let provider = target.name.provider();
    let mut blocks = Vec::new();
    let mut written = 0;
    let mut add_text = |blocks: &mut Vec<Value>, to: usize| {
        let text = answer.text.get(written..to).unwrap_or_default();
        // Anthropic rejects empty and blank text.
        if !text.trim().is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        written = written.max(to);
    };
    let mut calls = answer.calls.iter().enumerate().peekable();
    for thought in answer
        .reasoning
        .iter()
        .filter(|thought| thought.provider == provider)
    {
        let Some(block) = thinking_block(thought) else {
            continue;
        };
        if thought.after_calls > 0 {
            add_text(&mut blocks, answer.text.len());
        }
        while let Some((_, call)) = calls.next_if(|(index, _)| *index < thought.after_calls) {
            blocks.push(tool_use(call));
        }
        add_text(&mut blocks, thought.after_text);
        blocks.push(block);
    }
    add_text(&mut blocks, answer.text.len());
    blocks.extend(calls.map(|(_, call)| tool_use(call)));
    blocks
}

fn tool_use(call: &crate::message::ToolCall) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(call)})
}

/// Converts a reasoning block; `None` for a block without a signature, which the provider would reject.
fn thinking_block(thought: &Reasoning) -> Option<Value> {
    let seal = thought.seal.as_ref()?;
    if let Some(data) = seal.get("redacted") {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let signature = seal.get("signature")?;
    Some(json!({"type": "thinking", "thinking": thought.text, "signature": signature}))
}

/// Kind of a block of a streamed answer.
enum Block {
    Other,
    Call(usize),
}

/// Parses answers.
#[derive(Default)]
pub(super) struct AnthropicDecoder {
    /// Open blocks with the provider's index.
    blocks: Vec<(u64, Block)>,
    stop: Option<StopReason>,
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError> {
        let value = parse(&frame.data)?;
        match text(&value, "/type") {
            "error" => return Err(DecodeError::Reported(value)),
            "message_start" => usage(&value["message"]["usage"], answer),
            "content_block_start" => {
                let index = count(&value, "/index");
                let block = begin(&value["content_block"], answer);
                self.blocks.push((index, block));
            }
            "content_block_delta" => self.delta(&value, answer),
            "content_block_stop" => {
                let index = count(&value, "/index");
                self.blocks.retain(|(known, _)| *known != index);
                answer.end_reasoning();
            }
            "message_delta" => {
                if let Some(reason) = value.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop_reason(reason));
                }
                usage(&value["usage"], answer);
            }
            "message_stop" => answer.stop(self.stop.take().unwrap_or(StopReason::EndTurn)),
            // `ping`, and future event types.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError> {
        if text(body, "/type") == "error" {
            return Err(DecodeError::Reported(body.clone()));
        }
        if !body["content"].is_array() {
            return Err(DecodeError::Malformed(
                "the response has no `content`".to_owned(),
            ));
        }
        for block in items(body, "/content") {
            if let Block::Call(index) = begin(block, answer) {
                answer.arguments(index, &block["input"].to_string());
            }
            answer.end_reasoning();
        }
        usage(&body["usage"], answer);
        let reason = body["stop_reason"].as_str();
        answer.stop(reason.map_or(StopReason::EndTurn, stop_reason));
        Ok(())
    }
}

impl AnthropicDecoder {
    fn delta(&self, value: &Value, answer: &mut Assembler) {
        let delta = &value["delta"];
        match text(delta, "/type") {
            "text_delta" => answer.text(text(delta, "/text")),
            "thinking_delta" => answer.reasoning(text(delta, "/thinking")),
            "signature_delta" => sign(text(delta, "/signature"), answer),
            "input_json_delta" => {
                let index = count(value, "/index");
                let open = self.blocks.iter().rev().find(|(known, _)| *known == index);
                if let Some((_, Block::Call(place))) = open {
                    answer.arguments(*place, text(delta, "/partial_json"));
                }
            }
            _ => {}
        }
    }
}

fn begin(block: &Value, answer: &mut Assembler) -> Block {
    match text(block, "/type") {
        "text" => answer.text(text(block, "/text")),
        "thinking" => {
            answer.end_reasoning();
            answer.reasoning(text(block, "/thinking"));
            sign(text(block, "/signature"), answer);
        }
        "redacted_thinking" => {
            answer.end_reasoning();
            answer.seal(|seal| *seal = Some(json!({"redacted": block["data"]})));
            answer.end_reasoning();
        }
        "tool_use" => {
            return Block::Call(answer.start_call(block["id"].as_str(), text(block, "/name")));
        }
        _ => {}
    }
    Block::Other
}

/// Appends to a signature. It may arrive in pieces, which are concatenated and never interpreted.
fn sign(piece: &str, answer: &mut Assembler) {
    if piece.is_empty() {
        return;
    }
    answer.seal(|seal| {
        let known = seal.as_ref().map_or("", |seal| text(seal, "/signature"));
        *seal = Some(json!({"signature": format!("{known}{piece}")}));
    });
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::ContentFilter,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Reads token counts. They are cumulative, and a later event may omit some of them. Cached tokens are counted
/// separately from the rest of the input.
fn usage(usage: &Value, answer: &mut Assembler) {
    let total = &mut answer.usage;
    if usage["input_tokens"].is_u64() {
        total.cached_input_tokens = count(usage, "/cache_read_input_tokens");
        total.cache_write_tokens = count(usage, "/cache_creation_input_tokens");
        total.input_tokens = count(usage, "/input_tokens")
            .saturating_add(total.cached_input_tokens)
            .saturating_add(total.cache_write_tokens);
    }
    if usage["output_tokens"].is_u64() {
        total.output_tokens = count(usage, "/output_tokens");
    }
}
