//! Wire formats of providers: how requests are written and answers parsed.
//!
//! A format is a pair of functions that depend on neither connections nor time limits. Parsing is tolerant: unknown
//! fields and events are skipped, because providers add them at any time.

mod anthropic;
mod conversation;
mod failure;
mod gemini;
mod images;
mod ollama;
mod openai_chat;
mod openai_responses;
mod options;
mod schema;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use self::conversation::ToolNames;
pub(crate) use self::failure::{ErrorReply, failure, kind_of_status};
pub use self::images::MAX_IMAGE_BYTES;
pub use self::schema::drop_optional_nulls;
use crate::assemble::Assembler;
use crate::error::{ErrorKind, ModelError};
use crate::frames::{Frame, Framing};
use crate::http::HttpCall;
use crate::message::{ToolCall, ToolResult, UserPart};
use crate::model::{Capabilities, Estimate, estimated_tokens};
use crate::name::ModelName;
use crate::price::Thinking;
use crate::request::{ChatRequest, ReasoningEffort};
use crate::secret::Secret;

/// API protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// OpenAI Chat Completions, which most other providers support too.
    OpenaiChat,
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama's native API.
    Ollama,
}

impl Protocol {
    /// Name in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}

impl Protocol {
    /// Maximum number of tools per request. Servers with OpenAI's interface have the same limit or no limit.
    pub(crate) const fn max_tools(self) -> Option<u64> {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => Some(128),
            Self::Gemini => Some(512),
            Self::Anthropic | Self::Ollama => None,
        }
    }
}

/// Deviations of a provider from its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// No known deviations: any compatible server.
    #[default]
    Plain,
    OpenAi,
    Azure,
    DeepSeek,
    Groq,
    Mistral,
    OpenRouter,
}

/// Minimum output token limit that is sent even when the context window has less room left.
const MIN_ANSWER_TOKENS: u32 = 1024;

/// A model at its provider: the data that a request needs in addition to the conversation.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: ModelName,
    pub(crate) protocol: Protocol,
    pub(crate) dialect: Dialect,
    pub(crate) base_url: Url,
    pub(crate) key: Option<Secret>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) capabilities: Capabilities,
    pub(crate) thinking: Thinking,
    /// Whether the model accepts `temperature` and `top_p`.
    pub(crate) accepts_sampling: bool,
    /// API version; only used for Azure.
    pub(crate) api_version: String,
}

impl Target {
    /// Appends a path to the base URL.
    fn url(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        url
    }

    /// Like [`Self::url`], for an API whose paths begin with a version that the configured base URL may already
    /// contain.
    fn versioned_url(&self, version: &str, path: &str) -> Url {
        if self
            .base_url
            .path()
            .trim_end_matches('/')
            .ends_with(version)
        {
            self.url(path)
        } else {
            self.url(&format!("{version}/{path}"))
        }
    }

    /// The output token limit to send, if the request sets one.
    fn output_limit(&self, request: &ChatRequest) -> Option<u32> {
        request.max_output_tokens?;
        Some(self.largest_answer(request))
    }

    /// The output token limit: at most the limit of this model, which after a fallback may differ from the limit of the
    /// requested model, and at most the part of the context window that the request leaves free.
    fn largest_answer(&self, request: &ChatRequest) -> u32 {
        let limit = self.capabilities.output_tokens(request.max_output_tokens);
        let Some(window) = self.capabilities.context_window else {
            return limit;
        };
        let remaining = window.saturating_sub(estimated_tokens(request, Estimate::High));
        let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
        // An answer with less room is not worth requesting; the provider may also count fewer tokens than the estimate.
        limit.min(remaining.max(MIN_ANSWER_TOKENS))
    }

    /// The temperature to send, clamped to the provider's range; `None` if the model does not accept a temperature.
    fn temperature(&self, request: &ChatRequest) -> Option<f64> {
        let highest = match (self.protocol, self.dialect) {
            (Protocol::Anthropic, _) => 1.0,
            (_, Dialect::Mistral) => 1.5,
            _ => 2.0,
        };
        let requested = request.temperature.filter(|_| self.accepts_sampling)?;
        Some(requested.clamp(0.0, highest))
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError::new(kind, &self.name, message)
    }
}

/// Writes a request in the format of the provider.
pub(crate) fn write(
    target: &Target,
    request: &ChatRequest,
    names: &ToolNames,
) -> Result<HttpCall, ModelError> {
    let mut request = conversation::normalize(target, request, names);
    let mut call = loop {
        let call = match target.protocol {
            Protocol::OpenaiChat => openai_chat::write(target, &request),
            Protocol::OpenaiResponses => openai_responses::write(target, &request),
            Protocol::Anthropic => anthropic::write(target, &request),
            Protocol::Gemini => gemini::write(target, &request),
            Protocol::Ollama => ollama::write(target, &request),
        }?;
        let max_bytes = images::byte_limit(target, request.has_images());
        let bytes = call.body.len();
        if bytes <= max_bytes {
            break call;
        }
        if !images::shrink(target, &mut request.messages, bytes - max_bytes) {
            let message = format!(
                "the request has {bytes} bytes, and the provider accepts {max_bytes} at most"
            );
            return Err(target.error(ErrorKind::ContextTooLong, message));
        }
    };
    for (name, value) in &target.headers {
        call.headers.insert(name.clone(), value.clone());
    }
    Ok(call)
}

/// Parses an answer, event by event or as a whole.
pub(crate) trait Decoder: Send {
    /// Parses one event of a streamed answer.
    fn event(&mut self, frame: &Frame, answer: &mut Assembler) -> Result<(), DecodeError>;

    /// Parses an answer that arrived as one document.
    fn whole(&mut self, body: &Value, answer: &mut Assembler) -> Result<(), DecodeError>;

    /// Called when the stream ended without an error.
    fn end(&mut self, _answer: &mut Assembler) {}

    /// Whether events may follow the one that contains the stop reason.
    fn reads_to_the_end(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The provider reports a failure; the value describes it.
    Reported(Value),
    /// The data is not an answer.
    Malformed(String),
}

/// Framing and decoder of a target's protocol.
pub(crate) fn decoder(target: &Target) -> (Framing, Box<dyn Decoder>) {
    match target.protocol {
        Protocol::OpenaiChat => (
            Framing::Events,
            Box::new(openai_chat::ChatDecoder::default()),
        ),
        Protocol::OpenaiResponses => (
            Framing::Events,
            Box::new(openai_responses::ResponsesDecoder::default()),
        ),
        Protocol::Anthropic => (
            Framing::Events,
            Box::new(anthropic::AnthropicDecoder::default()),
        ),
        Protocol::Gemini => (Framing::Events, Box::new(gemini::GeminiDecoder)),
        Protocol::Ollama => (Framing::Lines, Box::new(ollama::OllamaDecoder)),
    }
}

fn parse(data: &str) -> Result<Value, DecodeError> {
    serde_json::from_str(data).map_err(|error| {
        let beginning: String = data.chars().take(80).collect();
        DecodeError::Malformed(format!("an event is not JSON ({error}): {beginning}"))
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn count(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The arguments of a call as an object, for providers that require one. Other values are wrapped, so that the model
/// sees what it wrote.
fn arguments_object(call: &ToolCall) -> Value {
    if call.arguments.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ => json!({ "malformed_arguments": call.arguments }),
    }
}

/// The arguments of a call as text, for providers that parse it: always the text of an object.
fn arguments_text(call: &ToolCall) -> String {
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(_)) => call.arguments.clone(),
        _ => arguments_object(call).to_string(),
    }
}

/// Generation of an OpenAI model: 5.1 for `gpt-5.1-codex`. `None` for other names.
pub(crate) fn gpt_generation(model: &str) -> Option<(u32, u32)> {
    let mut numbers = model.strip_prefix("gpt-")?.split('-').next()?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().map_or(Some(0), |minor| minor.parse().ok())?;
    Some((major, minor))
}

/// Whether an OpenAI model supports tool calls with reasoning only over the Responses API. Chat Completions rejects
/// function tools together with an effort from `gpt-5.2` on, and from `gpt-5.6` on also without an effort.
pub(crate) fn needs_responses(model: &str) -> bool {
    gpt_generation(model).is_some_and(|generation| generation >= (5, 2))
}

/// The effort value that an OpenAI model accepts: each generation has different ones. `None` for models without
/// reasoning, which reject every value.
fn effort_word(target: &Target, effort: ReasoningEffort) -> Option<&'static str> {
    let model = target.name.model();
    let is_plain = ["gpt-3", "gpt-4", "chatgpt-4"]
        .iter()
        .any(|begin| model.starts_with(begin));
    if is_plain {
        return None;
    }
    let is_o = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
    let is_pro = model.ends_with("-pro") || model.contains("-pro-");
    Some(match effort {
        // `gpt-5-pro` accepts only high effort, its successors medium or high.
        _ if is_pro && gpt_generation(model) == Some((5, 0)) => "high",
        ReasoningEffort::High => "high",
        _ if is_pro && !is_o => "medium",
        ReasoningEffort::None | ReasoningEffort::Minimal if is_o => "low",
        ReasoningEffort::Minimal if model.starts_with("gpt-5.") => "low",
        ReasoningEffort::None if model.starts_with("gpt-5") && !model.starts_with("gpt-5.") => {
            "minimal"
        }
        other => other.as_str(),
    })
}

/// The images of results as parts of a user message, for formats whose results are text only.
fn pictures<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Vec<UserPart> {
    let mut parts = Vec::new();
    for result in results {
        for picture in &result.pictures {
            let caption = format!("Image returned by the call {}:", result.call_id);
            parts.push(UserPart::Text(caption));
            parts.push(UserPart::Image {
                media_type: picture.media_type.clone(),
                data: picture.data.clone(),
            });
        }
    }
    parts
}

fn base64(data: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(data)
}
