//! Tool invocations: the record of one tool call, with its arguments and result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentHash, PlanId, SessionId, Timestamp, ToolInvocationId, TurnId};

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvocationOutcome {
    /// Started, no result stored yet.
    Running,
    /// The tool returned a result.
    Succeeded,
    /// The tool failed.
    Failed,
    /// The call was not allowed to run.
    Refused,
}

impl InvocationOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Running, Self::Succeeded, Self::Failed, Self::Refused];

    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInvocation {
    pub id: ToolInvocationId,
    /// Plan that the call ran for.
    pub plan: Option<PlanId>,
    /// Session that the call ran for.
    pub session: Option<SessionId>,
    /// Turn that the call ran in.
    pub turn: Option<TurnId>,
    /// Id that the model gave the call.
    pub call_id: Option<String>,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Outcome of the call.
    pub outcome: InvocationOutcome,
    /// Result, in the blob store.
    pub output: Option<ContentHash>,
    /// Media type of the result, such as `image/png`, when it is not text.
    pub media_type: Option<String>,
    /// End of the log output, in the blob store.
    pub log: Option<ContentHash>,
    /// Error message, or reason of a refusal.
    pub error: Option<String>,
    /// Machine-readable reason of a refusal.
    pub reason: Option<String>,
    /// Whether the call can safely be repeated when its outcome is unknown.
    pub is_repeatable: bool,
    /// Time of the start.
    pub started_at: Timestamp,
    /// Time of the end.
    pub finished_at: Option<Timestamp>,
}
