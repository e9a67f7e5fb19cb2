//! Why an actor cannot be had, registered or removed.

use cleveragents_actors::FileError;
use cleveragents_domain::{Code, Diagnose, PlanId};
use serde_json::{Value, json};

/// Why an actor cannot be had, registered or removed.
#[derive(Debug, thiserror::Error)]
pub enum ActorError {
    /// There is none of this name.
    #[error("there is no actor named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// Names that are much like it.
        nearest: Vec<String>,
    },
    /// There is one of this name.
    #[error("an actor named `{0}` exists already")]
    Exists(String),
    /// It comes with the models.
    #[error("`{0}` comes with the models and cannot be changed")]
    BuiltIn(String),
    /// Something refers to it.
    #[error("`{name}` is in use by {by}")]
    InUse {
        /// The actor.
        name: String,
        /// What refers to it.
        by: String,
    },
    /// Plans that are not over are made with it.
    #[error("`{name}` works on plans that are not over: {}", crate::project::shown(.plans))]
    UsedByPlans {
        /// The actor.
        name: String,
        /// The plans.
        plans: Vec<PlanId>,
    },
    /// Its file is wrong.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ActorError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ActorNotFound,
            Self::Exists(_) => Code::ActorExists,
            Self::BuiltIn(_) => Code::BuiltInActor,
            Self::InUse { .. } | Self::UsedByPlans { .. } => Code::ActorInUse,
            Self::File(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } => Some(match nearest.first() {
                Some(name) => format!("did you mean `{name}`? `agents actor list` shows all"),
                None => "run `agents actor list` to see what there is".to_owned(),
            }),
            Self::Exists(_) => Some(
                "choose another name, or replace it: `agents actor update --config FILE`"
                    .to_owned(),
            ),
            Self::BuiltIn(name) => Some(format!(
                "register an actor of your own with `model: {name}` in its file"
            )),
            Self::InUse { by, .. } => Some(format!("change or remove {by} first")),
            Self::UsedByPlans { plans, .. } => crate::plan::hint_to_end(plans),
            Self::File(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { name, nearest } => json!({"name": name, "nearest": nearest}),
            Self::InUse { name, by } => json!({"name": name, "by": by}),
            Self::UsedByPlans { name, plans } => json!({"name": name, "plans": plans}),
            Self::File(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Exists(_) | Self::BuiltIn(_) => Value::Null,
        }
    }
}
