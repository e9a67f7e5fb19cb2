//! Turns: one question of a person and everything a model does to answer it.
//!
//! A turn is stored step by step as it happens, so that whoever comes after a crash knows how far it
//! got. Its messages join the session together, when it ends.

use serde::{Deserialize, Serialize};

use crate::{SessionId, Timestamp, TurnId};

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// Somebody works on it, or died doing so.
    Running,
    /// It came to its end.
    Complete,
    /// It ended without an answer.
    Failed,
}

impl TurnState {
    /// The state as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Running, Self::Complete, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The model that answers.
    pub model: String,
    /// The sandbox its tools act in.
    pub sandbox: Option<String>,
    /// How far it is.
    pub state: TurnState,
    /// Why it failed.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}
