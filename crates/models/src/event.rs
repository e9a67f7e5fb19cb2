//! What comes back from a model: pieces of an answer, and the whole at the end.

use cleveragents_domain::MicroUsd;
use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;
use crate::name::ModelName;

/// A piece of an answer. The last one is always [`StreamEvent::Finished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent {
    /// More of the text.
    Text(String),
    /// More of what it thinks.
    Reasoning(String),
    /// It wants a tool to be called; the arguments follow.
    ToolCallStarted {
        /// The place of the call in the answer, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// More of the arguments of a call.
    ToolCallArguments {
        /// The place of the call in the answer.
        index: usize,
        /// The next characters.
        fragment: String,
    },
    /// What is to be kept of a question that was taken on elsewhere, for whoever asks it again after a crash.
    Noted(serde_json::Value),
    /// An attempt failed and another one follows. Everything streamed before this event belongs to the
    /// failed attempt and is void: the answer restarts.
    Retrying(Box<Retry>),
    /// The answer is whole.
    Finished(Box<Completion>),
}

/// Why another attempt is made, and with which model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The model whose attempt failed.
    pub failed: ModelName,
    /// The model that is asked next; a different one after a fallback.
    pub next: ModelName,
    /// Why the attempt failed. Redacted.
    pub reason: String,
    /// How many attempts failed so far, over all models.
    pub attempts: u32,
    /// The pause before the next attempt, in milliseconds.
    pub pause_ms: u64,
}

impl Retry {
    /// Whether another model is asked.
    pub fn is_fallback(&self) -> bool {
        self.failed != self.next
    }
}

/// One line for people, such as `retrying openai/gpt-5.1 in 0.5 s (attempt 2): the connection was closed`.
impl std::fmt::Display for Retry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            failed,
            next,
            reason,
            ..
        } = self;
        if self.is_fallback() {
            return write!(
                formatter,
                "falling back to {next}: {failed} failed: {reason}"
            );
        }
        write!(formatter, "retrying {next}")?;
        if self.pause_ms > 0 {
            let tenths = self.pause_ms.div_ceil(100);
            write!(formatter, " in {}.{} s", tenths / 10, tenths % 10)?;
        }
        write!(formatter, " (attempt {}): {reason}", self.attempts + 1)
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What it said.
    pub message: AssistantMessage,
    /// What it took.
    pub usage: Usage,
    /// What that costs; nothing when the price or the usage is not known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Why it ended.
    pub stop: StopReason,
    /// Who answered, which after a fallback is not who was asked.
    pub model: ModelName,
    /// How many attempts it took, 1 when the first succeeded.
    pub attempts: u32,
}

/// Tokens of one call. Cached and written tokens are part of the input, reasoning of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Everything that was sent.
    pub input_tokens: u64,
    /// Everything that came back.
    pub output_tokens: u64,
    /// The part of the input that the provider had in its cache.
    pub cached_input_tokens: u64,
    /// The part of the input that it put into its cache.
    pub cache_write_tokens: u64,
    /// The part of the output that was thought.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Whether anything was counted: no call takes no tokens at all, so a provider that names none
    /// did not count.
    pub fn is_told(&self) -> bool {
        *self != Self::default()
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It said all it had to say.
    EndTurn,
    /// It waits for the results of tools.
    ToolCalls,
    /// It ran into the limit of tokens; the answer is cut.
    MaxTokens,
    /// The provider withheld the rest.
    ContentFilter,
    /// Another reason, in the provider's word.
    Other(String),
}
