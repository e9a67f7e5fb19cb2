//! Turns: one user message and everything a model does to answer it.
//!
//! A turn is stored step by step, so that its progress is known after a crash. Its messages are added to the session
//! together, when it ends.

use serde::{Deserialize, Serialize};

use crate::{SessionId, Timestamp, TurnId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// A process is running the turn, or died while running it.
    Running,
    /// The turn finished with an answer.
    Complete,
    /// The turn ended without an answer.
    Failed,
}

impl TurnState {
    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Running, Self::Complete, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub id: TurnId,
    /// Session that the turn belongs to.
    pub session: SessionId,
    /// Model that answers.
    pub model: String,
    /// Sandbox in which the tools of the turn work.
    pub sandbox: Option<String>,
    pub state: TurnState,
    /// Error message of a failed turn.
    pub error: Option<String>,
    /// Time of the start.
    pub started_at: Timestamp,
    /// Time of the end.
    pub ended_at: Option<Timestamp>,
}
