//! Runs: one actor at work, from its input to its result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RunId, Timestamp, TokenUsage};

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Somebody works on it, or died doing so.
    Running,
    /// It cannot go on without a person.
    Waiting,
    /// It came to its end.
    Complete,
    /// It ended without a result.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Waiting,
        Self::Complete,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One run of an actor.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The namespace of the plan, project or caller that started it; decides who sees it.
    pub namespace: String,
    /// The actor.
    pub actor: String,
    /// The hash of the actor's file.
    pub actor_hash: String,
    /// What it began with.
    pub input: Value,
    /// How it was asked to run.
    pub options: Value,
    /// How far it is.
    pub state: RunState,
    /// Whether somebody asked for its end.
    pub is_cancelled: bool,
    /// The state it ended with.
    pub result: Option<Value>,
    /// Why it failed or waits.
    pub error: Option<String>,
    /// The code of that.
    pub error_code: Option<String>,
    /// Tokens and money, up to the last stop.
    pub usage: TokenUsage,
    /// Questions to models.
    pub model_calls: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// How many times it was begun or gone on with.
    pub attempts: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}
