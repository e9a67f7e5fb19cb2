//! [`TrackerError`].

use std::path::PathBuf;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::{Value, json};

use crate::forge::RestError;

/// Failure of a call of a tracker. No text contains a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// The tracker cannot be reached, or gave no usable answer: a write may have had its effect.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        /// Whether a write may have had its effect.
        is_outcome_unknown: bool,
    },
    /// The tracker accepts no requests for some time. The request had no effect.
    #[error("the tracker limits the rate of requests")]
    Limited { retry_after: Option<Duration> },
    /// The tracker refused the request, which had no effect.
    #[error("{reason}")]
    Refused { status: u16, reason: String },
    #[error("the listing is incomplete: {reason}; nothing was changed")]
    IncompleteListing { reason: String },
    #[error("the tracker has no label `{0}`; nothing was written, and no label was created")]
    UnknownLabel(String),
    #[error("the tracker has no open milestone `{0}`; nothing was written")]
    UnknownMilestone(String),
    #[error("the tracker has no issue `{0}`")]
    NotFound(String),
    #[error("`{0}` is not an id of an issue")]
    InvalidId(String),
    #[error("the idempotency key is not well formed")]
    InvalidKey,
    #[error("{reason}")]
    InvalidSource { reason: String },
    #[error("none of {} is set", .0.join(", "))]
    NoCredential(Vec<String>),
    #[error("`{}` {reason}", .path.display())]
    File { path: PathBuf, reason: String },
    /// The file changed between reading and writing.
    #[error("`{}` was changed meanwhile; the change was not written", .0.display())]
    Conflict(PathBuf),
    #[error("the tracker accepted the write but did not apply it to issue `{id}`: {fields}")]
    NotEffective { id: String, fields: String },
    #[error("the answer of the tracker cannot be read: {0}")]
    Answer(String),
    /// The claim on the write would expire before the request finishes.
    #[error("too little time was left for a write; nothing was written")]
    OutOfTime,
}

impl TrackerError {
    /// Whether the same call may succeed later without a change of configuration.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Limited { .. }
                | Self::IncompleteListing { .. }
                | Self::Conflict(_)
                | Self::Answer(_)
                | Self::OutOfTime
        )
    }

    /// Time that the tracker asks callers to wait.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited { retry_after } => *retry_after,
            _ => None,
        }
    }
}

impl From<RestError> for TrackerError {
    fn from(error: RestError) -> Self {
        let reason = error.to_string();
        match error {
            RestError::NotSent { .. } => Self::Unavailable {
                reason,
                is_outcome_unknown: false,
            },
            RestError::OutcomeUnknown { .. } => Self::Unavailable {
                reason,
                is_outcome_unknown: true,
            },
            RestError::Limited { retry_after, .. } => Self::Limited { retry_after },
            RestError::Refused { status, .. } => Self::Refused { status, reason },
        }
    }
}

impl Diagnose for TrackerError {
    fn code(&self) -> Code {
        match self {
            Self::Unavailable { .. } | Self::Limited { .. } | Self::OutOfTime => {
                Code::TrackerUnavailable
            }
            Self::Refused { .. } => Code::TrackerRefused,
            Self::IncompleteListing { .. } => Code::TrackerListingIncomplete,
            Self::UnknownLabel(_) | Self::UnknownMilestone(_) => Code::TrackerLabelNotFound,
            Self::NotFound(_) => Code::TrackerIssueNotFound,
            Self::InvalidId(_) | Self::InvalidKey | Self::InvalidSource { .. } => {
                Code::InvalidItemSource
            }
            Self::NoCredential(_) => Code::TrackerCredentialMissing,
            Self::File { .. } => Code::TrackerFileInvalid,
            Self::Conflict(_) => Code::TrackerConflict,
            Self::NotEffective { .. } => Code::TrackerWriteIneffective,
            Self::Answer(_) => Code::TrackerAnswerInvalid,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::Unavailable { .. } | Self::OutOfTime | Self::Answer(_) => {
                "check the address and the network, then repeat it"
            }
            Self::Limited { .. } => "repeat it later",
            Self::Refused { status: 401, .. } => "create a new token and store it",
            Self::Refused { status: 403, .. } => {
                "give the token the scopes to read the account and to write issues"
            }
            Self::Refused { .. } => "check the repository and the rights of the account",
            Self::IncompleteListing { .. } => "repeat it when no user changes the tracker",
            Self::UnknownLabel(_) => "create the label at the tracker, or leave it out",
            Self::UnknownMilestone(_) => "create the milestone at the tracker, or leave it out",
            Self::NotFound(_) | Self::InvalidId(_) => "check the id of the issue",
            Self::InvalidKey | Self::InvalidSource { .. } => return None,
            Self::NoCredential(_) => "set the variable, or store the token in the keyring",
            Self::File { .. } => "fix or move the file, then repeat it",
            Self::Conflict(_) => "repeat it",
            Self::NotEffective { .. } => {
                "give the account the right to write issues of the repository"
            }
        };
        Some(text.into())
    }

    fn details(&self) -> Value {
        match self {
            Self::Refused { status, .. } => json!({"status": status}),
            Self::Limited { retry_after } => {
                json!({"retry_after": retry_after.map(|time| time.as_secs())})
            }
            Self::UnknownLabel(label) => json!({"label": label}),
            Self::UnknownMilestone(milestone) => json!({"milestone": milestone}),
            Self::NotFound(id) | Self::NotEffective { id, .. } => json!({"issue": id}),
            Self::NoCredential(names) => json!({"variables": names}),
            Self::File { path, .. } | Self::Conflict(path) => json!({"file": path}),
            _ => Value::Null,
        }
    }
}
