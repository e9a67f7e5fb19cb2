//! Runs: one execution of an actor, from its input to its result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RunId, Timestamp, TokenUsage};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// A process executes the run, or died while it did.
    Running,
    /// The run waits for the user.
    Waiting,
    /// The run finished with a result.
    Complete,
    /// The run ended without a result.
    Failed,
    Cancelled,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Waiting,
        Self::Complete,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One run of an actor.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    /// Namespace of the plan, project or caller that started the run; decides who can see the run.
    pub namespace: String,
    /// Name of the actor.
    pub actor: String,
    /// Hash of the actor's file.
    pub actor_hash: String,
    /// Input of the graph.
    pub input: Value,
    /// Options of the request that started the run.
    pub options: Value,
    pub state: RunState,
    /// Whether cancellation was requested.
    pub is_cancelled: bool,
    /// Final state of the graph.
    pub result: Option<Value>,
    /// Error message, or reason of the wait.
    pub error: Option<String>,
    pub error_code: Option<String>,
    /// Tokens and cost, up to the last stop.
    pub usage: TokenUsage,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of times the run was started or resumed.
    pub attempts: u64,
    /// Time of the start.
    pub started_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time of the end.
    pub ended_at: Option<Timestamp>,
}
