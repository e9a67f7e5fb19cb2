//! Tool invocations: the record of one call of a tool, with its arguments and what came back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentHash, PlanId, SessionId, Timestamp, ToolInvocationId, TurnId};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvocationOutcome {
    /// Begun, no result stored yet.
    Running,
    /// The tool answered.
    Succeeded,
    /// The tool failed.
    Failed,
    /// The call was not allowed to run.
    Refused,
}

impl InvocationOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Running, Self::Succeeded, Self::Failed, Self::Refused];

    /// The outcome as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInvocation {
    /// Its id.
    pub id: ToolInvocationId,
    /// The plan it ran for.
    pub plan: Option<PlanId>,
    /// The session it ran for.
    pub session: Option<SessionId>,
    /// The turn it ran in.
    pub turn: Option<TurnId>,
    /// What the model calls it.
    pub call_id: Option<String>,
    /// The tool called.
    pub tool: String,
    /// What it was given.
    pub arguments: Value,
    /// How it ended.
    pub outcome: InvocationOutcome,
    /// What came back, in the blob store.
    pub output: Option<ContentHash>,
    /// What came back, such as `image/png`, when it is not text.
    pub media_type: Option<String>,
    /// The end of what it logged beside it, in the blob store.
    pub log: Option<ContentHash>,
    /// Why it failed or was refused.
    pub error: Option<String>,
    /// Which of the reasons for a refusal it was.
    pub reason: Option<String>,
    /// Whether it may be run again when nobody knows what came of it.
    pub is_repeatable: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}
