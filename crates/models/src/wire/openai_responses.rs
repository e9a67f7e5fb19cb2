//! OpenAI Responses. Nothing is stored at the provider: reasoning arrives encrypted, and the next request contains it.

use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::options::{ToolChoice, add_options, cache_key, parallel_calls};
use super::schema::answer_format;
use super::{
    DecodeError, Decoder, Target, arguments_text, base64, count, effort_word, items, parse,
    pictures, text,
};
use crate::assemble::Assembler;
use crate::error::ModelError;
use crate::event::StopReason;
use crate::frames::Frame;
use crate::http::HttpCall;
use crate::message::{AssistantMessage, ChatMessage, UserPart};
use crate::request::ChatRequest;

/// Minimum output token limit that the API accepts.
const MIN_OUTPUT_TOKENS: u32 = 16;

pub(super) fn write(target: &Target, request: &ChatRequest) -> Result<HttpCall, ModelError> {
    let mut body = json!({
        "model": target.name.model(),
        "input": input(target, request),
        "stream": request.stream,
        "store": false,
    });
    if !request.system.is_empty() {
        body["instructions"] = request.system.join("\n\n").into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    if let Some(format) = answer_format(target, request) {
        body["text"] = json!({"format": {
            "type": "json_schema",
            "name": format.name, "schema": format.schema, "strict": format.strict,
        }});
    }
    if let Some(limit) = target.output_limit(request) {
        body["max_output_tokens"] = limit.max(MIN_OUTPUT_TOKENS).into();
    }
    if let Some(temperature) = target.temperature(request) {
        body["temperature"] = temperature.into();
    }
    if let Some(key) = cache_key(target, request) {
        body["prompt_cache_key"] = key.into();
    }
    if let Some(choice) = ToolChoice::from_request(request) {
        body["tool_choice"] = choice.for_responses();
    }
    if let Some(is_parallel) = parallel_calls(request) {
        body["parallel_tool_calls"] = is_parallel.into();
    }
    add_options(&mut body, target.options(request));
    let effort = request.reasoning_effort;
    let effort = effort.and_then(|effort| effort_word(target, effort));
    if target.capabilities.reasoning || effort.is_some() {
        body["include"] = json!(["reasoning.encrypted_content"]);
        body["reasoning"] = json!({"summary": "auto"});
        if let Some(word) = effort {
            body["reasoning"]["effort"] = word.into();
        }
    }
    let mut call = HttpCall::new(target.url("responses"), &body);
    if let Some(key) = &target.key {
        call.authorise(&target.name, AUTHORIZATION, "Bearer ", key)?;
    }
    Ok(call)
}

fn input(target: &Target, request: &ChatRequest) -> Value {
    let mut items = Vec::new();
    for message in &request.messages {
        match message.as_ref() {
            ChatMessage::User { parts } => {
                let parts: Value = parts.iter().map(user_part).collect();
                items.push(json!({"role": "user", "content": parts}));
            }
            ChatMessage::Assistant(answer) => assistant(target, answer, &mut items),
            ChatMessage::Tool { results } => {
                items.extend(results.iter().map(|result| {
                    json!({
                        "type": "function_call_output",
                        "call_id": result.call_id,
                        "output": result.content,
                    })
                }));
                let images = pictures(results);
                if !images.is_empty() {
                    let parts: Value = images.iter().map(user_part).collect();
                    items.push(json!({"role": "user", "content": parts}));
                }
            }
        }
    }
    items.into()
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "input_text", "text": text}),
        UserPart::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{}", base64(data));
            json!({"type": "input_image", "image_url": url})
        }
    }
}

/// Writes an answer. Reasoning precedes the items that it led to.
fn assistant(target: &Target, answer: &AssistantMessage, items: &mut Vec<Value>) {
    let provider = target.name.provider();
    let seals = || {
        answer
            .reasoning
            .iter()
            .filter(|block| block.provider == provider)
            .filter_map(|block| {
                // The provider rejects reasoning without a following item.
                let is_last = !answer.calls.is_empty() && block.after_calls >= answer.calls.len();
                Some((block.after_calls, block.seal.clone().filter(|_| !is_last)?))
            })
    };
    let mut is_text_added = answer.text.is_empty();
    let mut add_message = |items: &mut Vec<Value>| {
        if !is_text_added {
            let content = json!([{"type": "output_text", "text": answer.text}]);
            items.push(json!({"type": "message", "role": "assistant", "content": content}));
            is_text_added = true;
        }
    };
    items.extend(
        seals()
            .filter(|(after, _)| *after == 0)
            .map(|(_, seal)| seal),
    );
    add_message(items);
    for (index, call) in answer.calls.iter().enumerate() {
        if index > 0 {
            items.extend(
                seals()
                    .filter(|(after, _)| *after == index)
                    .map(|(_, seal)| seal),
            );
        }
        items.push(json!({
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_text(call),
        }));
    }
}

/// Parses answers.
#[derive(Default)]
pub(super) struct ResponsesDecoder {
    /// Started calls: the provider's index and our index.
    calls: Vec<(u64, usize)>,
    /// Messages whose text was received, by the provider's index.
    messages: Vec<u64>,
    /// Reasoning blocks whose text was received, by the provider's index.
    thoughts: Vec<u64>,
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError> {
        let value = parse(&frame.data)?;
        match text(&value, "/type") {
            "error" | "response.failed" => return Err(DecodeError::Reported(value)),
            "response.output_text.delta" | "response.refusal.delta" => {
                mark_received(&mut self.messages, &value);
                answer.text(text(&value, "/delta"));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                mark_received(&mut self.thoughts, &value);
                answer.reasoning(text(&value, "/delta"));
            }
            "response.reasoning_summary_part.added" if count(&value, "/summary_index") > 0 => {
                answer.reasoning("\n\n");
            }
            "response.output_item.added" => self.begin(&value, answer),
            "response.function_call_arguments.delta" => {
                if let Some(place) = self.place(&value) {
                    answer.arguments(place, text(&value, "/delta"));
                }
            }
            "response.output_item.done" => self.done(&value, answer),
            "response.completed" | "response.incomplete" => {
                let response = &value["response"];
                add_missing(response, answer);
                read_end(response, answer);
            }
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError> {
        if body.get("error").is_some_and(|error| !error.is_null()) {
            return Err(DecodeError::Reported(body.clone()));
        }
        if !body["output"].is_array() {
            return Err(DecodeError::Malformed(
                "the response has no `output`".to_owned(),
            ));
        }
        for item in items(body, "/output") {
            match text(item, "/type") {
                "reasoning" => {
                    add_summary(item, answer);
                    seal(item, answer);
                }
                "message" => add_text(item, answer),
                "function_call" => add_call(item, answer),
                _ => {}
            }
        }
        read_end(body, answer);
        Ok(())
    }
}

impl ResponsesDecoder {
    fn place(&self, value: &Value) -> Option<usize> {
        let index = count(value, "/output_index");
        let known = self.calls.iter().find(|(known, _)| *known == index);
        known.map(|(_, place)| *place)
    }

    fn begin(&mut self, value: &Value, answer: &mut Assembler) {
        let item = &value["item"];
        match text(item, "/type") {
            "function_call" => {
                let place = answer.start_call(item["call_id"].as_str(), text(item, "/name"));
                self.calls.push((count(value, "/output_index"), place));
            }
            "reasoning" => answer.end_reasoning(),
            _ => {}
        }
    }

    /// Handles a finished item. Some servers send the complete item here instead of pieces before it.
    fn done(&mut self, value: &Value, answer: &mut Assembler) {
        let item = &value["item"];
        match text(item, "/type") {
            "reasoning" => {
                if mark_received(&mut self.thoughts, value) {
                    add_summary(item, answer);
                }
                seal(item, answer);
            }
            "message" if mark_received(&mut self.messages, value) => add_text(item, answer),
            "function_call" => {
                let known = self.place(value);
                match known.or_else(|| answer.place_of(text(item, "/call_id"))) {
                    None => add_call(item, answer),
                    Some(place) => {
                        let call = answer.call(place);
                        if call.is_some_and(|call| call.arguments.is_empty()) {
                            answer.arguments(place, text(item, "/arguments"));
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// Records that part of an item was received; returns whether it is the first part.
fn mark_received(known: &mut Vec<u64>, value: &Value) -> bool {
    let index = count(value, "/output_index");
    let is_first = !known.contains(&index);
    if is_first {
        known.push(index);
    }
    is_first
}

fn add_text(item: &Value, answer: &mut Assembler) {
    for part in items(item, "/content") {
        answer.text(text(part, "/text"));
        answer.text(text(part, "/refusal"));
    }
}

fn add_summary(item: &Value, answer: &mut Assembler) {
    for part in items(item, "/summary") {
        answer.reasoning(text(part, "/text"));
    }
}

fn add_call(item: &Value, answer: &mut Assembler) {
    let index = answer.start_call(item["call_id"].as_str(), text(item, "/name"));
    answer.arguments(index, text(item, "/arguments"));
}

/// Adds content that only the finished response contains. Text and reasoning are added only if none was received, and
/// calls only if the response has more calls than were received, so that nothing is added twice.
fn add_missing(response: &Value, answer: &mut Assembler) {
    let (lacks_text, lacks_reasoning) = (answer.has_no_text(), answer.has_no_reasoning());
    let is_call = |item: &&Value| text(item, "/type") == "function_call";
    let calls = items(response, "/output").iter().filter(is_call).count();
    let lacks_calls = calls > answer.call_count();
    for item in items(response, "/output") {
        match text(item, "/type") {
            "reasoning" if lacks_reasoning => {
                add_summary(item, answer);
                seal(item, answer);
            }
            "message" if lacks_text => add_text(item, answer),
            "function_call" if lacks_calls && answer.place_of(text(item, "/call_id")).is_none() => {
                add_call(item, answer);
            }
            _ => {}
        }
    }
}

/// Stores a reasoning item for the next request. Only items with encrypted content can be sent back.
fn seal(item: &Value, answer: &mut Assembler) {
    if item["encrypted_content"].is_string() {
        let item_to_return = json!({
            "type": "reasoning",
            "id": item["id"],
            "summary": item["summary"],
            "encrypted_content": item["encrypted_content"],
        });
        answer.seal(|seal| *seal = Some(item_to_return));
    }
    answer.end_reasoning();
}

fn read_end(response: &Value, answer: &mut Assembler) {
    let usage = &response["usage"];
    answer.usage.input_tokens = count(usage, "/input_tokens");
    answer.usage.output_tokens = count(usage, "/output_tokens");
    answer.usage.cached_input_tokens = count(usage, "/input_tokens_details/cached_tokens");
    answer.usage.reasoning_tokens = count(usage, "/output_tokens_details/reasoning_tokens");
    answer.stop(match text(response, "/incomplete_details/reason") {
        "max_output_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::ContentFilter,
        "" => StopReason::EndTurn,
        other => StopReason::Other(other.to_owned()),
    });
}
