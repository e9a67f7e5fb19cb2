//! What is asked of a model.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::message::{ChatMessage, ToolDefinition, UserPart};

/// One question to a model: the conversation so far and how to answer it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// What the model must keep in mind, in order.
    pub system: Vec<String>,
    /// The conversation. Shared, since it is given to a model again with each question of a turn.
    #[serde(serialize_with = "as_messages", deserialize_with = "from_messages")]
    pub messages: Vec<Arc<ChatMessage>>,
    /// The tools it may ask for. Shared: they are the same for all questions of a turn.
    #[serde(serialize_with = "as_list", deserialize_with = "from_list")]
    pub tools: Arc<[ToolDefinition]>,
    /// The form the answer must have.
    pub response_schema: Option<ResponseSchema>,
    /// The longest answer.
    pub max_output_tokens: Option<u32>,
    /// How freely it chooses words.
    pub temperature: Option<f64>,
    /// How hard it thinks.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further parameters by their usual names, such as `top_p`, `seed` or `stop`. Each wire format puts them
    /// where its provider expects them; they never replace a field of the request itself.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Whether to have the beginning of the conversation cached where that must be asked for.
    pub cache: bool,
    /// Whether the answer comes piece by piece. Otherwise it comes as one piece at the end.
    pub stream: bool,
    /// What this question is called, the same when it is asked again after a crash. Agents on other machines know
    /// it by this; models need no such thing.
    #[serde(skip)]
    pub key: Option<String>,
    /// What was noted ([`StreamEvent::Noted`](crate::StreamEvent::Noted)) when it was asked before.
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
            key: None,
            noted: None,
        }
    }
}

impl ChatRequest {
    /// A request with one message of the user.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self {
            messages: vec![ChatMessage::user(text).into()],
            ..Self::default()
        }
    }

    /// How many answers of models the conversation holds.
    pub(crate) fn answers(&self) -> usize {
        let is_answer =
            |message: &&Arc<ChatMessage>| matches!(message.as_ref(), ChatMessage::Assistant(_));
        self.messages.iter().filter(is_answer).count()
    }

    /// How many tool calls the conversation holds; the first free number for ids we make up.
    pub(crate) fn calls(&self) -> usize {
        self.messages
            .iter()
            .map(|message| match message.as_ref() {
                ChatMessage::Assistant(answer) => answer.calls.len(),
                _ => 0,
            })
            .sum()
    }

    /// The name of the tool that was called with this id.
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

    /// Whether the conversation shows pictures.
    pub(crate) fn has_images(&self) -> bool {
        self.images() > 0
    }

    /// How many pictures the conversation shows.
    pub(crate) fn images(&self) -> usize {
        let shown = self.messages.iter().map(|message| match message.as_ref() {
            ChatMessage::User { parts } => parts
                .iter()
                .filter(|part| matches!(part, UserPart::Image { .. }))
                .count(),
            ChatMessage::Tool { results } => {
                results.iter().map(|result| result.pictures.len()).sum()
            }
            ChatMessage::Assistant(_) => 0,
        });
        shown.sum()
    }
}

/// The form an answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseSchema {
    /// A name for it: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
    /// Whether the provider has to enforce it to the letter, where it can.
    #[serde(default)]
    pub strict: bool,
}

/// How hard a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// Not at all, where that can be chosen.
    None,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// Long.
    High,
}

impl ReasoningEffort {
    /// The word that most providers use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The tokens to think with, for providers that want a number.
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
