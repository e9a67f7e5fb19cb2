//! Output of a model: the events of a streamed answer, and the complete answer at the end.

use cleveragents_domain::MicroUsd;
use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;
use crate::name::ModelName;

/// An event of a streamed answer. The last one is always [`StreamEvent::Finished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent {
    /// Further text.
    Text(String),
    /// Further reasoning text.
    Reasoning(String),
    /// A tool call starts; its arguments follow.
    ToolCallStarted {
        /// Index of the call in the answer, from 0.
        index: usize,
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// Further arguments of a call.
    ToolCallArguments {
        /// Index of the call in the answer.
        index: usize,
        /// Next characters of the arguments.
        fragment: String,
    },
    /// Data to store for a request that a remote agent accepted. A caller needs it to resume the request after a crash.
    Noted(serde_json::Value),
    /// An attempt failed and another attempt follows. Discard everything streamed before this event: it belongs to the
    /// failed attempt, and the answer restarts.
    Retrying(Box<Retry>),
    /// The answer is complete.
    Finished(Box<Completion>),
}

/// Reason and target of a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The model whose attempt failed.
    pub failed: ModelName,
    /// Model that is called next; differs from `failed` after a fallback.
    pub next: ModelName,
    /// Redacted reason why the attempt failed.
    pub reason: String,
    /// Number of failed attempts so far, over all models.
    pub attempts: u32,
    /// Pause before the next attempt, in milliseconds.
    pub pause_ms: u64,
}

impl Retry {
    /// Whether another model is called.
    pub fn is_fallback(&self) -> bool {
        self.failed != self.next
    }
}

/// One line for users, such as `retrying openai/gpt-5.1 in 0.5 s (attempt 2): the connection was closed`.
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

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Text, reasoning and tool calls.
    pub message: AssistantMessage,
    /// Tokens used.
    pub usage: Usage,
    /// Cost; `None` when the price or the usage is unknown.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Reason why the answer ended.
    pub stop: StopReason,
    /// Model that answered; differs from the requested model after a fallback.
    pub model: ModelName,
    /// Number of attempts, 1 when the first succeeded.
    pub attempts: u32,
}

/// Tokens of one call. Cached and cache-written tokens are part of the input, reasoning tokens part of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All input tokens.
    pub input_tokens: u64,
    /// All output tokens.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Whether the provider reported usage: no call uses zero tokens, so all-zero counts mean that none were reported.
    pub fn is_reported(&self) -> bool {
        *self != Self::default()
    }
}

/// Reason why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The output token limit was reached; the answer is truncated.
    MaxTokens,
    /// The provider withheld the rest of the answer.
    ContentFilter,
    /// Another reason, as the provider reports it.
    Other(String),
}
