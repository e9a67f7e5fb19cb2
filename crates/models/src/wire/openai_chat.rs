//! OpenAI Chat Completions, which many other servers support too.

use cleveragents_domain::MicroUsd;
use reqwest::header::{AUTHORIZATION, HeaderName};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::options::{ToolChoice, add_options, cache_key, parallel_calls, stop_list};
use super::schema::answer_format;
use super::{
    DecodeError, Decoder, Dialect, Target, arguments_text, base64, count, effort_word, items,
    needs_responses, parse, pictures, text,
};
use crate::assemble::Assembler;
use crate::error::ModelError;
use crate::event::StopReason;
use crate::frames::Frame;
use crate::http::HttpCall;
use crate::message::{AssistantMessage, ChatMessage, UserPart};
use crate::request::ChatRequest;

/// Maximum number of stop sequences.
const MAX_STOPS: usize = 4;

pub(super) fn write(target: &Target, request: &ChatRequest) -> Result<HttpCall, ModelError> {
    let mut body = json!({
        "model": target.name.model(),
        "messages": messages(target, request),
        "stream": request.stream,
    });
    if request.stream && target.dialect != Dialect::Mistral {
        body["stream_options"] = json!({"include_usage": true});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            // Without `strict`, Chat Completions does not enforce the schema; only the Responses API would.
            let function = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            });
            json!({"type": "function", "function": function})
        });
        body["tools"] = tools.collect();
    }
    if let Some(format) = answer_format(target, request) {
        body["response_format"] = json!({"type": "json_schema", "json_schema": {
            "name": format.name, "schema": format.schema, "strict": format.strict,
        }});
    }
    if let Some(limit) = target.output_limit(request) {
        let field = match target.dialect {
            Dialect::OpenAi | Dialect::Azure => "max_completion_tokens",
            _ => "max_tokens",
        };
        body[field] = limit.into();
    }
    if let Some(temperature) = target.temperature(request) {
        body["temperature"] = temperature.into();
    }
    if let Some(effort) = request.reasoning_effort {
        match target.dialect {
            Dialect::OpenRouter => body["reasoning"] = json!({"effort": effort.as_str()}),
            // These providers have no such parameter: whether a model reasons depends on its name.
            Dialect::DeepSeek | Dialect::Mistral => {}
            Dialect::OpenAi | Dialect::Azure => {
                if let Some(word) = effort_word(target, effort) {
                    body["reasoning_effort"] = word.into();
                }
            }
            Dialect::Plain | Dialect::Groq => body["reasoning_effort"] = effort.as_str().into(),
        }
    }
    let is_openai = matches!(target.dialect, Dialect::OpenAi | Dialect::Azure);
    if is_openai && !request.tools.is_empty() && needs_responses(target.name.model()) {
        // Over Chat Completions, these models call tools only without reasoning.
        body["reasoning_effort"] = "none".into();
    }
    if let Some(key) = cache_key(target, request) {
        body["prompt_cache_key"] = key.into();
    }
    if let Some(choice) = ToolChoice::from_request(request) {
        body["tool_choice"] = choice.for_chat();
    }
    if let Some(is_parallel) = parallel_calls(request) {
        body["parallel_tool_calls"] = is_parallel.into();
    }
    for (name, value) in target.options(request) {
        match name {
            "stop" if value.is_array() => {
                if let Some(texts) = stop_list(value, MAX_STOPS) {
                    body["stop"] = texts;
                }
            }
            _ => add_options(&mut body, std::iter::once((name, value))),
        }
    }
    if target.dialect == Dialect::OpenRouter {
        body["usage"] = json!({"include": true});
    }
    let url = if target.dialect == Dialect::Azure && !target.base_url.path().contains("/openai/v1")
    {
        let model = target.name.model();
        let mut url = target.url(&format!("openai/deployments/{model}/chat/completions"));
        url.query_pairs_mut()
            .append_pair("api-version", &target.api_version);
        url
    } else {
        target.url("chat/completions")
    };
    let mut call = HttpCall::new(url, &body);
    if let Some(key) = &target.key {
        if target.dialect == Dialect::Azure {
            call.authorise(&target.name, HeaderName::from_static("api-key"), "", key)?;
        } else {
            call.authorise(&target.name, AUTHORIZATION, "Bearer ", key)?;
        }
    }
    Ok(call)
}

fn messages(target: &Target, request: &ChatRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        let content = request.system.join("\n\n");
        // Over OpenRouter, Anthropic's models cache only marked content.
        let is_marked = request.cache
            && target.dialect == Dialect::OpenRouter
            && target.name.model().starts_with("anthropic/");
        let content = if is_marked {
            json!([{"type": "text", "text": content, "cache_control": {"type": "ephemeral"}}])
        } else {
            content.into()
        };
        messages.push(json!({"role": "system", "content": content}));
    }
    for message in &request.messages {
        match message.as_ref() {
            ChatMessage::User { parts } => user(target, parts, &mut messages),
            ChatMessage::Assistant(answer) => messages.push(assistant(target, answer)),
            ChatMessage::Tool { results } => {
                messages.extend(results.iter().map(|result| {
                    json!({
                        "role": "tool",
                        "tool_call_id": call_id(target, &result.call_id),
                        "content": result.content,
                    })
                }));
                let images = pictures(results);
                if !images.is_empty() {
                    user(target, &images, &mut messages);
                }
            }
        }
    }
    messages.into()
}

/// Adds a user message. Mistral rejects a user message directly after a tool result.
fn user(target: &Target, parts: &[UserPart], messages: &mut Vec<Value>) {
    let follows_result = messages.last().is_some_and(|last| last["role"] == "tool");
    if target.dialect == Dialect::Mistral && follows_result {
        messages.push(json!({"role": "assistant", "content": "I have the results."}));
    }
    messages.push(json!({"role": "user", "content": user_content(parts)}));
}

fn user_content(parts: &[UserPart]) -> Value {
    if let [UserPart::Text(text)] = parts {
        return text.as_str().into();
    }
    let parts = parts.iter().map(|part| match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{}", base64(data));
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    });
    parts.collect()
}

fn assistant(target: &Target, answer: &AssistantMessage) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    let content = if answer.text.is_empty() && !answer.calls.is_empty() {
        Value::Null
    } else {
        answer.text.as_str().into()
    };
    message.insert("content".to_owned(), content);
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({"id": call_id(target, &call.id), "type": "function", "function": {
                "name": call.name, "arguments": arguments_text(call),
            }})
        });
        message.insert("tool_calls".to_owned(), calls.collect());
    }
    let own_reasoning = || {
        let provider = target.name.provider();
        answer
            .reasoning
            .iter()
            .filter(move |block| block.provider == provider)
    };
    match target.dialect {
        Dialect::OpenRouter => {
            let details: Vec<Value> = own_reasoning()
                .filter_map(|block| block.seal.as_ref()?.as_array().cloned())
                .flatten()
                .collect();
            if !details.is_empty() {
                message.insert("reasoning_details".to_owned(), details.into());
            }
        }
        // While DeepSeek calls tools, it requires its reasoning in the next request.
        Dialect::DeepSeek if !answer.calls.is_empty() => {
            let thought: String = own_reasoning().map(|block| block.text.as_str()).collect();
            message.insert("reasoning_content".to_owned(), thought.into());
        }
        _ => {}
    }
    Value::Object(message)
}

/// A call id that the provider accepts: Mistral requires nine letters or digits.
fn call_id(target: &Target, id: &str) -> String {
    let is_valid = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if target.dialect != Dialect::Mistral || is_valid {
        return id.to_owned();
    }
    let mut digest = hex::encode(Sha256::digest(id));
    digest.truncate(9);
    digest
}

/// Parses answers.
#[derive(Default)]
pub(super) struct ChatDecoder {
    /// The provider's index of each call, by our index.
    indices: Vec<u64>,
    stop: Option<StopReason>,
}

impl Decoder for ChatDecoder {
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError> {
        if frame.data.trim() == "[DONE]" {
            // Some servers end without a stop reason.
            answer.stop(self.stop.take().unwrap_or(StopReason::EndTurn));
            return Ok(());
        }
        let value = parse(&frame.data)?;
        check(&value)?;
        if let Some(choice) = items(&value, "/choices").first() {
            let delta = &choice["delta"];
            read_text(delta, answer);
            for call in items(delta, "/tool_calls") {
                self.call_delta(call, answer);
            }
            self.read_stop_reason(choice);
        }
        usage(&value, answer);
        Ok(())
    }

    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError> {
        check(body)?;
        let Some(choice) = items(body, "/choices").first() else {
            return Err(DecodeError::Malformed(
                "the response has no `choices`".to_owned(),
            ));
        };
        let message = &choice["message"];
        read_text(message, answer);
        for call in items(message, "/tool_calls") {
            let index = answer.start_call(call["id"].as_str(), text(call, "/function/name"));
            answer.arguments(index, &arguments(&call["function"]["arguments"]));
        }
        self.read_stop_reason(choice);
        usage(body, answer);
        answer.stop(self.stop.take().unwrap_or(StopReason::EndTurn));
        Ok(())
    }

    /// Some servers omit `[DONE]`. A stop reason is enough.
    fn end(&mut self, answer: &mut Assembler) {
        if let Some(stop) = self.stop.take() {
            answer.stop(stop);
        }
    }
}

/// Reads text and reasoning of a message, or of a piece of a message.
fn read_text(message: &Value, answer: &mut Assembler) {
    for field in ["reasoning_content", "reasoning"] {
        if let Some(thought) = message[field].as_str() {
            answer.reasoning(thought);
            break;
        }
    }
    if let Some(details) = message["reasoning_details"].as_array()
        && !details.is_empty()
    {
        answer.seal(|seal| match seal {
            Some(Value::Array(known)) => known.extend(details.iter().cloned()),
            other => *other = Some(details.clone().into()),
        });
    }
    match &message["content"] {
        Value::String(text) => answer.text(text),
        // Mistral's reasoning models send typed pieces.
        Value::Array(pieces) => {
            for piece in pieces {
                match text(piece, "/type") {
                    "thinking" => {
                        for thought in items(piece, "/thinking") {
                            answer.reasoning(text(thought, "/text"));
                        }
                    }
                    _ => answer.text(text(piece, "/text")),
                }
            }
        }
        _ => {}
    }
    if let Some(refusal) = message["refusal"].as_str() {
        answer.text(refusal);
    }
}

impl ChatDecoder {
    fn call_delta(&mut self, delta: &Value, answer: &mut Assembler) {
        let id = delta["id"].as_str().filter(|id| !id.is_empty());
        let name = text(delta, "/function/name");
        let index = delta["index"].as_u64();
        let known = match index {
            Some(index) => self.indices.iter().rposition(|known| *known == index),
            // A piece without an index belongs to the last call, unless it starts a new one.
            None if name.is_empty() => self.indices.len().checked_sub(1),
            None => None,
        };
        // Some servers give every call the same index: a different id together with a name starts a
        // new call.
        let known = known.filter(|place| {
            let is_other = |id: &str| answer.call(*place).is_some_and(|call| call.id != id);
            name.is_empty() || !id.is_some_and(is_other)
        });
        let place = known.unwrap_or_else(|| {
            self.indices
                .push(index.unwrap_or(self.indices.len() as u64));
            answer.start_call(id, name)
        });
        answer.arguments(place, &arguments(&delta["function"]["arguments"]));
    }

    fn read_stop_reason(&mut self, choice: &Value) {
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(match reason {
                "stop" | "eos" => StopReason::EndTurn,
                "tool_calls" | "function_call" => StopReason::ToolCalls,
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::ContentFilter,
                other => StopReason::Other(other.to_owned()),
            });
        }
    }
}

/// Arguments as text; a few servers send the object itself.
fn arguments(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn check(value: &Value) -> Result<(), DecodeError> {
    match value.get("error") {
        Some(error) if !error.is_null() => Err(DecodeError::Reported(value.clone())),
        _ => Ok(()),
    }
}

fn usage(value: &Value, answer: &mut Assembler) {
    let reported = ["/usage", "/x_groq/usage"]
        .iter()
        .find_map(|place| value.pointer(place).filter(|usage| usage.is_object()));
    let Some(usage) = reported else { return };
    answer.usage.input_tokens = count(usage, "/prompt_tokens");
    answer.usage.output_tokens = count(usage, "/completion_tokens");
    answer.usage.cached_input_tokens = count(usage, "/prompt_tokens_details/cached_tokens")
        .max(count(usage, "/prompt_cache_hit_tokens"));
    answer.usage.cache_write_tokens = count(usage, "/prompt_tokens_details/cache_write_tokens");
    answer.usage.reasoning_tokens = count(usage, "/completion_tokens_details/reasoning_tokens");
    if let Some(cost) = usage["cost"].as_f64() {
        answer.cost = MicroUsd::from_usd_rounded_up(cost);
    }
}
