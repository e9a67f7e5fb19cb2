//! [`TaskState`]: the state of a task that another agent or program requested.

/// State of a task. Terminal states are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// The task was accepted.
    Submitted,
    /// A server works on the task, or died while it did.
    Working,
    /// The task waits for input from the client.
    InputRequired,
    /// The task waits for the client to authenticate.
    AuthRequired,
    /// The task finished with a result.
    Completed,
    /// The task ended without a result.
    Failed,
    /// The task was cancelled.
    Canceled,
    /// The task was not accepted.
    Rejected,
}

impl TaskState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::AuthRequired => "auth_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether the state is terminal.
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether the task waits for the client.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// A turn of a conversation.
    Turn,
    Plan,
}

impl TaskKind {
    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Plan => "plan",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Turn, Self::Plan]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}
