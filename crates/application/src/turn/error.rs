//! Errors that prevent a turn from starting or continuing.

use cleveragents_domain::{Code, ContentError, Diagnose, Hint, MicroUsd, SessionId, hint, suggest};
use cleveragents_models::ModelError;
use cleveragents_tools::GateError;
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;
use crate::session::SessionError;

/// Errors that prevent a turn from starting or continuing.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The session cannot be used.
    #[error(transparent)]
    Session(Box<SessionError>),
    /// The question or an answer cannot be stored.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The gate failed to run a tool call.
    #[error(transparent)]
    Gate(Box<GateError>),
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(Box<SandboxError>),
    /// The session is busy.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// The store failed.
    #[error(transparent)]
    Store(Box<cleveragents_store::Error>),
    /// The next model call could cost more than the budget has left.
    #[error("budget of {scope} exceeded: {} of {} US dollars are used, and the next call could cost {}",
        .used.as_usd(), .limit.as_usd(), .wanted.as_usd())]
    Budget {
        /// The owner of the budget, such as `session …`.
        scope: String,
        limit: MicroUsd,
        /// Money spent and reserved so far.
        used: MicroUsd,
        /// The highest possible cost of the call.
        wanted: MicroUsd,
    },
    /// The user stopped the turn.
    #[error("the turn was stopped")]
    Cancelled,
    /// The model kept calling tools until the limit of steps was reached.
    #[error("the model has not given a final answer after {0} steps")]
    TooManySteps(u32),
    /// A limit that the turn shares with other turns is reached.
    #[error("the limits leave no more requests or calls for this turn")]
    Exhausted,
    /// The model returned no text for a summary of the conversation.
    #[error("the model returned an empty summary")]
    EmptySummary,
    /// The model repeats the same call.
    #[error("the model made the same call {0} times and got the same result")]
    Stuck(u32),
    /// The turn needs an approval or answer, and no user is present.
    #[error("user input is needed, and no user is present: {reason}")]
    HumanNeeded {
        /// The decision that the user has to make.
        reason: String,
        /// Permission rules that would allow the call without asking.
        rules: Vec<String>,
    },
    /// Another turn still runs after the maximum waiting time.
    #[error("another turn of session {0} is still running")]
    Busy(SessionId),
    /// The session has no interrupted turn.
    #[error("no turn of session {0} was interrupted")]
    NothingToResume(SessionId),
}

impl From<SandboxError> for TurnError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(Box::new(error))
    }
}

impl From<SessionError> for TurnError {
    fn from(error: SessionError) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<GateError> for TurnError {
    fn from(error: GateError) -> Self {
        Self::Gate(Box::new(error))
    }
}

impl From<cleveragents_store::Error> for TurnError {
    fn from(error: cleveragents_store::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

impl From<LeaseError> for TurnError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

impl Diagnose for TurnError {
    fn code(&self) -> Code {
        match self {
            Self::Session(error) => error.code(),
            Self::Content(error) => SessionError::from(error.clone()).code(),
            Self::Model(error) => error.code(),
            Self::Gate(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::Lease(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Budget { .. } => Code::BudgetExceeded,
            Self::Cancelled => Code::TurnStopped,
            Self::TooManySteps(_) | Self::Exhausted | Self::EmptySummary | Self::Stuck(_) => {
                Code::TurnUnfinished
            }
            Self::HumanNeeded { .. } => Code::ApprovalNeeded,
            Self::Busy(_) => Code::LeaseHeld,
            Self::NothingToResume(_) => Code::NothingToResume,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Session(error) => error.hint(),
            Self::Content(error) => SessionError::from(error.clone()).hint(),
            Self::Model(error) => error.hint(),
            Self::Gate(error) => error.hint(),
            Self::Sandbox(error) => error.hint(),
            Self::Lease(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Budget { .. } => Some(
                "raise `--max-cost`, `budget.session-cents` or `budget.day-cents`, or use a cheaper model"
                    .into(),
            ),
            Self::Cancelled => {
                Some("finished steps are stored; ask again to continue".into())
            }
            Self::TooManySteps(_) | Self::Exhausted => {
                Some("ask for less at once, or use another model".into())
            }
            Self::EmptySummary => Some("try again, or use another model".into()),
            Self::Stuck(_) => Some("rephrase the question, or use another model".into()),
            Self::HumanNeeded { rules, .. } => {
                let add = |rule: &str| Hint::from(suggest::permission_add(rule));
                let adds = match rules.as_slice() {
                    [] => add("allow …"),
                    rules => Hint::join(rules.iter().map(|rule| add(rule)), " or "),
                };
                Some(hint!(
                    "run it on a terminal, or allow the call by a rule: {}",
                    adds
                ))
            }
            Self::Busy(_) => Some("wait until it is finished".into()),
            Self::NothingToResume(_) => Some("give a prompt to start a turn".into()),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Session(error) => error.details(),
            Self::Model(error) => error.details(),
            Self::Gate(error) => error.details(),
            Self::Sandbox(error) => error.details(),
            Self::Lease(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Budget {
                scope,
                limit,
                used,
                wanted,
            } => json!({
                "scope": scope, "limit_micro_usd": limit, "used_micro_usd": used, "wanted_micro_usd": wanted,
            }),
            _ => Value::Null,
        }
    }
}
