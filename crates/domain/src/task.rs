//! [`TaskState`]: how far what another agent or program asked for is.

/// How far a task is. Nothing leaves a state that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// It was taken on.
    Submitted,
    /// Somebody works on it, or died doing so.
    Working,
    /// It waits for an answer of who asked.
    InputRequired,
    /// It waits for who asked to prove who they are.
    AuthRequired,
    /// It came to its end.
    Completed,
    /// It ended without a result.
    Failed,
    /// Somebody stopped it.
    Canceled,
    /// It was not taken on.
    Rejected,
}

impl TaskState {
    /// Every state.
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

    /// The state as stored.
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

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it is over.
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether it waits for who asked.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// What a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// A turn of a conversation.
    Turn,
    /// A plan.
    Plan,
}

impl TaskKind {
    /// The kind as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Plan => "plan",
        }
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Turn, Self::Plan]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}
