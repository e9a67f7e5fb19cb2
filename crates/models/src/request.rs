//! Requests to a model.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::message::{ChatMessage, ToolDefinition, UserPart};

/// A request to a model: the conversation so far and the parameters of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// System instructions, in order.
    pub system: Vec<String>,
    /// The conversation. Shared, since each request of a turn sends it again.
    #[serde(serialize_with = "as_messages", deserialize_with = "from_messages")]
    pub messages: Vec<Arc<ChatMessage>>,
    /// The offered tools. Shared: they are the same for all requests of a turn.
    #[serde(serialize_with = "as_list", deserialize_with = "from_list")]
    pub tools: Arc<[ToolDefinition]>,
    /// JSON schema that the answer must match.
    pub response_schema: Option<ResponseSchema>,
    /// Maximum number of output tokens.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further parameters by their usual names, such as `top_p`, `seed` or `stop`. Each wire format puts them where its
    /// provider expects them; they never replace a field of the request itself.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Whether to mark the beginning of the conversation for caching, for providers that require a mark.
    pub cache: bool,
    /// Whether the answer is streamed. Otherwise it arrives in one piece at the end.
    pub stream: bool,
    /// Identifies requests with the same beginning, such as those of one plan, so that a provider routes them to the
    /// same cache. At most 64 characters. Sent only to OpenAI itself.
    #[serde(skip)]
    pub cache_key: Option<String>,
    /// Idempotency key of this request, which is unchanged when the request is repeated after a crash. Used by remote
    /// agents; models ignore it.
    #[serde(skip)]
    pub key: Option<String>,
    /// For a request that is repeated after a crash: the data that a remote agent's
    /// [`StreamEvent::Noted`](crate::StreamEvent::Noted) reported for it, to resume the agent's task.
    #[serde(skip)]
    pub noted: Option<Value>,
}

fn as_messages<S: Serializer>(messages: &[Arc<ChatMessage>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(messages.iter().map(Arc::as_ref))
}

fn from_messages<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Arc<ChatMessage>>, D::Error> {
    let messages: Vec<ChatMessage> = Vec::deserialize(from)?;
    Ok(messages.into_iter().map(Arc::new).collect())
}

fn as_list<S: Serializer>(tools: &Arc<[ToolDefinition]>, to: S) -> Result<S::Ok, S::Error> {
    tools.as_ref().serialize(to)
}

fn from_list<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<[ToolDefinition]>, D::Error> {
    Vec::deserialize(from).map(Arc::from)
}

impl Default for ChatRequest {
    fn default() -> Self {
        Self {
            system: Vec::new(),
            messages: Vec::new(),
            tools: Arc::default(),
            response_schema: None,
            max_output_tokens: None,
            temperature: None,
            reasoning_effort: None,
            options: Map::new(),
            cache: true,
            stream: true,
            cache_key: None,
            key: None,
            noted: None,
        }
    }
}

impl ChatRequest {
    /// Creates a request with one user message.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self {
            messages: vec![ChatMessage::user(text).into()],
            ..Self::default()
        }
    }

    /// Number of model answers in the conversation.
    pub(crate) fn answers(&self) -> usize {
        let is_answer =
            |message: &&Arc<ChatMessage>| matches!(message.as_ref(), ChatMessage::Assistant(_));
        self.messages.iter().filter(is_answer).count()
    }

    /// Number of tool calls in the conversation; also the first free number for generated ids.
    pub(crate) fn calls(&self) -> usize {
        self.messages
            .iter()
            .map(|message| match message.as_ref() {
                ChatMessage::Assistant(answer) => answer.calls.len(),
                _ => 0,
            })
            .sum()
    }

    /// Name of the tool that was called with this id.
    pub(crate) fn called_tool(&self, id: &str) -> Option<&str> {
        self.messages
            .iter()
            .rev()
            .find_map(|message| match message.as_ref() {
                ChatMessage::Assistant(answer) => answer
                    .calls
                    .iter()
                    .find(|call| call.id == id)
                    .map(|call| call.name.as_str()),
                _ => None,
            })
    }

    /// Whether the conversation contains images.
    pub(crate) fn has_images(&self) -> bool {
        self.images() > 0
    }

    /// Number of images in the conversation.
    pub(crate) fn images(&self) -> usize {
        let counts = self.messages.iter().map(|message| match message.as_ref() {
            ChatMessage::User { parts } => parts
                .iter()
                .filter(|part| matches!(part, UserPart::Image { .. }))
                .count(),
            ChatMessage::Tool { results } => {
                results.iter().map(|result| result.pictures.len()).sum()
            }
            ChatMessage::Assistant(_) => 0,
        });
        counts.sum()
    }
}

/// JSON schema that an answer must match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseSchema {
    /// Name of the schema: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
    /// Whether the provider must enforce the schema exactly, if it supports that.
    #[serde(default)]
    pub strict: bool,
}

/// Amount of reasoning before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// No reasoning, where the model supports that.
    None,
    /// As little as possible.
    Minimal,
    /// Little reasoning.
    Low,
    /// The usual amount.
    Medium,
    /// Extensive reasoning.
    High,
}

impl ReasoningEffort {
    /// The value that most providers use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Token budget for reasoning, for providers that require a number.
    pub(crate) const fn budget(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Minimal => 1024,
            Self::Low => 2048,
            Self::Medium => 8192,
            Self::High => 24_576,
        }
    }
}
