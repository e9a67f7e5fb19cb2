//! Why an invariant cannot be set, found or removed.

use cleveragents_domain::{Code, Diagnose, InvariantId, InvariantTextError, PlanId};
use serde_json::{Value, json};

use crate::{ActionError, ProjectError};

/// Why an invariant cannot be set, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum InvariantError {
    /// None that holds has this id.
    #[error("there is no invariant `{0}`")]
    NotFound(String),
    /// Several ids begin so.
    #[error("`{reference}` matches {} invariants", .candidates.len())]
    Ambiguous {
        /// What was given.
        reference: String,
        /// The invariants it could mean.
        candidates: Vec<(InvariantId, String)>,
    },
    /// The text cannot be one.
    #[error("{0}; nothing was changed")]
    Text(#[from] InvariantTextError),
    /// It is not said where it holds.
    #[error("it is not said where the invariant holds; nothing was changed")]
    Nowhere,
    /// Only a global one can be non-overridable.
    #[error("only a global invariant can be non-overridable; nothing was changed")]
    NotGlobal,
    /// It holds there already.
    #[error("the invariant holds {place} already; nothing was changed")]
    Exists {
        /// Where.
        place: String,
    },
    /// What ids are looked for with is no regular expression.
    #[error("`{0}` is not a regular expression")]
    Pattern(String),
    /// There is no such plan.
    #[error("plan `{0}` does not exist")]
    PlanNotFound(String),
    /// Several plans begin so.
    #[error("`{reference}` matches {} plans", .candidates.len())]
    AmbiguousPlan {
        /// What was given.
        reference: String,
        /// The plans it could mean.
        candidates: Vec<PlanId>,
    },
    /// The project is not there.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The action is not there.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for InvariantError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::InvariantNotFound,
            Self::Ambiguous { .. } | Self::Pattern(_) => Code::Usage,
            Self::Text(_) | Self::Nowhere | Self::NotGlobal => Code::InvalidInvariant,
            Self::Exists { .. } => Code::InvariantExists,
            Self::PlanNotFound(_) => Code::PlanNotFound,
            Self::AmbiguousPlan { .. } => Code::AmbiguousPlan,
            Self::Project(error) => error.code(),
            Self::Action(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound(_) => "run `agents invariant list` to see those that hold".to_owned(),
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, text)| format!("\n{id} {text}"));
                format!(
                    "give more characters of the id; it could mean:{}",
                    lines.collect::<String>()
                )
            }
            Self::Text(InvariantTextError::Empty) => {
                "say it in a sentence: `agents invariant add --global 'Never push to main'`"
                    .to_owned()
            }
            Self::Text(_) => "say it in a sentence of plain text".to_owned(),
            Self::Nowhere => {
                "add --global, --project PROJECT, --action ACTION or --plan PLAN".to_owned()
            }
            Self::NotGlobal => "add --global, or leave --non-overridable out".to_owned(),
            Self::Exists { .. } => "run `agents invariant list` to see it".to_owned(),
            Self::Pattern(_) => "write it in the syntax of https://docs.rs/regex".to_owned(),
            Self::PlanNotFound(_) => {
                "give the id of a plan, or its first 6 or more characters".to_owned()
            }
            Self::AmbiguousPlan { candidates, .. } => {
                let lines = candidates.iter().map(|id| format!("\n{id}"));
                format!(
                    "give more characters of the id; the plans it could mean are:{}",
                    lines.collect::<String>()
                )
            }
            Self::Project(error) => return error.hint(),
            Self::Action(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(reference) | Self::PlanNotFound(reference) => {
                json!({"reference": reference})
            }
            Self::Ambiguous {
                reference,
                candidates,
            } => {
                let ids: Vec<&InvariantId> = candidates.iter().map(|(id, _)| id).collect();
                json!({"reference": reference, "candidates": ids})
            }
            Self::AmbiguousPlan {
                reference,
                candidates,
            } => json!({"reference": reference, "candidates": candidates}),
            Self::Exists { place } => json!({"place": place}),
            Self::Project(error) => error.details(),
            Self::Action(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Text(_) | Self::Nowhere | Self::NotGlobal | Self::Pattern(_) => Value::Null,
        }
    }
}
