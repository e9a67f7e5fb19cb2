//! Why a turn cannot go on.

use cleveragents_domain::{Code, ContentError, Diagnose, MicroUsd, SessionId};
use cleveragents_models::ModelError;
use cleveragents_tools::GateError;
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;
use crate::session::SessionError;

/// Why a turn cannot begin or go on.
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
    /// Something broke while a tool was called.
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
    /// The next call of the model could cost more than is left.
    #[error("the budget of {scope} does not suffice: {} of {} US dollars are used, and the next call could cost {}",
        .used.as_usd(), .limit.as_usd(), .wanted.as_usd())]
    Budget {
        /// Whose budget.
        scope: String,
        /// What may be spent.
        limit: MicroUsd,
        /// What is spent or reserved.
        used: MicroUsd,
        /// What the call could cost.
        wanted: MicroUsd,
    },
    /// It was stopped.
    #[error("the turn was stopped")]
    Cancelled,
    /// The model calls tools without end.
    #[error("the model has not answered after {0} steps")]
    TooManySteps(u32),
    /// The limits that the turn shares with others leave nothing more for it.
    #[error("the limits leave no more questions or calls for this turn")]
    Exhausted,
    /// The model repeats itself.
    #[error("the model made the same call {0} times and got the same answer")]
    Stuck(u32),
    /// A person is needed and none is there.
    #[error("a person is needed to go on, and none is there: {0}")]
    HumanNeeded(String),
    /// Another turn is still running after all the waiting.
    #[error("another turn of session {0} is still running")]
    Busy(SessionId),
    /// There is nothing to go on with.
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
            Self::TooManySteps(_) | Self::Exhausted | Self::Stuck(_) => Code::TurnWithoutEnd,
            Self::HumanNeeded(_) => Code::ApprovalNeeded,
            Self::Busy(_) => Code::LeaseHeld,
            Self::NothingToResume(_) => Code::NothingToResume,
        }
    }

    fn hint(&self) -> Option<String> {
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
                    .to_owned(),
            ),
            Self::Cancelled => {
                Some("what was done until then is stored; ask again to go on".to_owned())
            }
            Self::TooManySteps(_) | Self::Exhausted => {
                Some("ask for less at a time, or use another model".to_owned())
            }
            Self::Stuck(_) => Some("say it differently, or use another model".to_owned()),
            Self::HumanNeeded(_) => Some(
                "run it on a terminal, or allow the call by a rule: `agents permission add \"allow …\"`"
                    .to_owned(),
            ),
            Self::Busy(_) => Some("wait until it is done".to_owned()),
            Self::NothingToResume(_) => Some("give a prompt to begin a turn".to_owned()),
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
