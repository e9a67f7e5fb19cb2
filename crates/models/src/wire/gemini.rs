//! The Google Gemini API.

use reqwest::header::HeaderName;
use serde_json::{Value, json};

use super::options::{ToolChoice, add_options, stop_list};
use super::schema::answer_format;
use super::{
    DecodeError, Decoder, Target, arguments_object, base64, count, items, parse, pictures, text,
};
use crate::assemble::Assembler;
use crate::error::ModelError;
use crate::event::StopReason;
use crate::frames::Frame;
use crate::http::HttpCall;
use crate::message::{AssistantMessage, ChatMessage, UserPart};
use crate::price::Thinking;
use crate::request::{ChatRequest, ReasoningEffort};

/// Value that Gemini 3 accepts instead of a signature for calls that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Maximum number of stop sequences.
const MAX_STOPS: usize = 5;

pub(super) fn write(target: &Target, request: &ChatRequest) -> Result<HttpCall, ModelError> {
    let mut body = json!({"contents": contents(target, request)});
    if !request.system.is_empty() {
        let parts: Value = request
            .system
            .iter()
            .map(|text| json!({"text": text}))
            .collect();
        body["systemInstruction"] = json!({"parts": parts});
    }
    if !request.tools.is_empty() {
        let tools: Value = request
            .tools
            .iter()
            .map(|tool| {
                let mut declared = json!({"name": tool.name, "description": tool.description});
                // A function without parameters must not have a parameter schema.
                if tool.input_schema.get("properties").is_some() {
                    declared["parametersJsonSchema"] = tool.input_schema.clone();
                }
                declared
            })
            .collect();
        body["tools"] = json!([{"functionDeclarations": tools}]);
    }
    let mut options = json!({});
    if let Some(limit) = target.output_limit(request) {
        options["maxOutputTokens"] = limit.into();
    }
    if let Some(temperature) = target.temperature(request) {
        options["temperature"] = temperature.into();
    }
    if let Some(format) = answer_format(target, request) {
        options["responseMimeType"] = "application/json".into();
        options["responseJsonSchema"] = format.schema;
    }
    if let Some(effort) = request.reasoning_effort
        && target.capabilities.reasoning
    {
        options["thinkingConfig"] = match target.thinking {
            Thinking::Adaptive => {
                let level = if effort >= ReasoningEffort::Medium {
                    "high"
                } else {
                    "low"
                };
                json!({"thinkingLevel": level, "includeThoughts": true})
            }
            Thinking::Budget => json!({
                "thinkingBudget": budget(target, effort),
                "includeThoughts": effort != ReasoningEffort::None,
            }),
        };
    }
    for (name, value) in target.options(request) {
        if name == "stop" {
            if let Some(texts) = stop_list(value, MAX_STOPS) {
                options["stopSequences"] = texts;
            }
            continue;
        }
        let name = parameter_name(name);
        let is_outer = matches!(
            name.as_str(),
            "safetySettings" | "cachedContent" | "toolConfig" | "labels"
        );
        let place = if is_outer { &mut body } else { &mut options };
        add_options(place, std::iter::once((name.as_str(), value)));
    }
    if let Some(config) = ToolChoice::from_request(request).and_then(ToolChoice::for_gemini) {
        body["toolConfig"] = config;
    }
    body["generationConfig"] = options;
    let model = target.name.model();
    let verb = if request.stream {
        "streamGenerateContent"
    } else {
        "generateContent"
    };
    let mut url = target.versioned_url("v1beta", &format!("models/{model}:{verb}"));
    if request.stream {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    let mut call = HttpCall::new(url, &body);
    if let Some(key) = &target.key {
        call.authorise(
            &target.name,
            HeaderName::from_static("x-goog-api-key"),
            "",
            key,
        )?;
    }
    Ok(call)
}

/// Reasoning token budget. `gemini-2.5-pro` cannot turn reasoning off.
fn budget(target: &Target, effort: ReasoningEffort) -> u32 {
    if target.name.model().starts_with("gemini-2.5-pro") {
        effort.budget().max(128)
    } else {
        effort.budget()
    }
}

/// The provider's spelling of a parameter: `top_p` becomes `topP`.
fn parameter_name(name: &str) -> String {
    let mut parts = name.split('_');
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        written.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        written.push_str(letters.as_str());
    }
    written
}

fn contents(target: &Target, request: &ChatRequest) -> Value {
    let contents = request
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            ChatMessage::User { parts } => {
                let parts: Value = parts.iter().map(user_part).collect();
                json!({"role": "user", "parts": parts})
            }
            ChatMessage::Assistant(answer) => {
                json!({"role": "model", "parts": assistant(target, answer)})
            }
            ChatMessage::Tool { results } => {
                let answers = results.iter().map(|result| {
                    let name = request.called_tool(&result.call_id).unwrap_or("unknown");
                    let field = if result.is_error { "error" } else { "result" };
                    json!({"functionResponse": {"name": name, "response": {field: result.content}}})
                });
                let images = pictures(results);
                let parts: Value = answers.chain(images.iter().map(user_part)).collect();
                json!({"role": "user", "parts": parts})
            }
        });
    contents.collect()
}

fn user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"text": text}),
        UserPart::Image { media_type, data } => {
            json!({"inlineData": {"mimeType": media_type, "data": base64(data)}})
        }
    }
}

fn assistant(target: &Target, answer: &AssistantMessage) -> Value {
    let mut parts = Vec::new();
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}));
    }
    // A signature that was received with a text is sent back directly after the text.
    let is_own = |provider: &str| provider == target.name.provider();
    let seals = answer
        .reasoning
        .iter()
        .filter(|thought| is_own(&thought.provider));
    parts.extend(seals.filter_map(|thought| {
        let signature = thought.seal.as_ref()?.get("thought_signature")?;
        Some(json!({"text": "", "thoughtSignature": signature}))
    }));
    // Models with adaptive reasoning require a signature of the first call of an answer.
    let requires_signature = target.thinking == Thinking::Adaptive;
    parts.extend(answer.calls.iter().enumerate().map(|(index, call)| {
        let mut part = json!({"functionCall": {"name": call.name, "args": arguments_object(call)}});
        if let Some(signature) = &call.signature {
            part["thoughtSignature"] = signature.as_str().into();
        } else if index == 0 && requires_signature {
            part["thoughtSignature"] = FOREIGN_SIGNATURE.into();
        }
        part
    }));
    parts.into()
}

/// Parses answers. A streamed answer is a sequence of documents in the format of a complete answer.
pub(super) struct GeminiDecoder;

impl Decoder for GeminiDecoder {
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError> {
        self.whole(&parse(&frame.data)?, answer)
    }

    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError> {
        if body.get("error").is_some() {
            return Err(DecodeError::Reported(body.clone()));
        }
        if let Some(reason) = body
            .pointer("/promptFeedback/blockReason")
            .and_then(Value::as_str)
        {
            let message = format!("the provider blocked the request: {reason}");
            return Err(DecodeError::Reported(
                json!({"error": {"type": "content_filter", "message": message}}),
            ));
        }
        if let Some(candidate) = items(body, "/candidates").first() {
            for part in items(candidate, "/content/parts") {
                read_part(part, answer);
            }
            if let Some(reason) = candidate["finishReason"].as_str() {
                answer.stop(match reason {
                    "STOP" => StopReason::EndTurn,
                    "MAX_TOKENS" => StopReason::MaxTokens,
                    "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
                    | "LANGUAGE" => StopReason::ContentFilter,
                    other => StopReason::Other(other.to_ascii_lowercase()),
                });
            }
        }
        let usage = &body["usageMetadata"];
        if usage.is_object() {
            let thought = count(usage, "/thoughtsTokenCount");
            answer.usage.input_tokens = count(usage, "/promptTokenCount")
                .saturating_add(count(usage, "/toolUsePromptTokenCount"));
            answer.usage.output_tokens =
                count(usage, "/candidatesTokenCount").saturating_add(thought);
            answer.usage.cached_input_tokens = count(usage, "/cachedContentTokenCount");
            answer.usage.reasoning_tokens = thought;
        }
        Ok(())
    }

    /// Token counts may follow the stop reason.
    fn reads_to_the_end(&self) -> bool {
        true
    }
}

fn read_part(part: &Value, answer: &mut Assembler) {
    let signature = part["thoughtSignature"].as_str();
    if let Some(call) = part.get("functionCall") {
        let index = answer.start_call(call["id"].as_str(), text(call, "/name"));
        let arguments = call.get("args").filter(|arguments| !arguments.is_null());
        answer.arguments(
            index,
            &arguments.map_or_else(|| "{}".to_owned(), Value::to_string),
        );
        if let Some(call) = answer.call(index) {
            call.signature = signature.map(str::to_owned);
        }
        return;
    }
    let content = text(part, "/text");
    if part["thought"].as_bool() == Some(true) {
        answer.reasoning(content);
    } else {
        answer.text(content);
    }
    if let Some(signature) = signature {
        answer.end_reasoning();
        answer.seal(|seal| *seal = Some(json!({"thought_signature": signature})));
        answer.end_reasoning();
    }
}
