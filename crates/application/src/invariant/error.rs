//! Errors of the invariant service.

use cleveragents_domain::{
    Code, Diagnose, Hint, InvariantId, InvariantTextError, PlanId, hint, suggest,
};
use serde_json::{Value, json};

use crate::{DefinitionError, ProjectError};

/// Failure to add, find or remove an invariant.
#[derive(Debug, thiserror::Error)]
pub enum InvariantError {
    /// No active invariant has this id.
    #[error("there is no invariant `{0}`")]
    NotFound(String),
    /// Several ids have this prefix.
    #[error("`{reference}` matches {} invariants", .candidates.len())]
    Ambiguous {
        /// The given prefix.
        reference: String,
        /// The matching invariants.
        candidates: Vec<(InvariantId, String)>,
    },
    /// The text is not allowed.
    #[error("{0}; nothing was changed")]
    Text(#[from] InvariantTextError),
    /// The request names no scope.
    #[error("the invariant has no scope; nothing was changed")]
    Nowhere,
    /// Only a global invariant can be non-overridable.
    #[error("only a global invariant can be non-overridable; nothing was changed")]
    NotGlobal,
    /// The scope already has this invariant.
    #[error("the invariant applies {place} already; nothing was changed")]
    Exists {
        /// Description of the scope.
        place: String,
    },
    /// The filter is not a regular expression.
    #[error("`{0}` is not a regular expression")]
    Pattern(String),
    /// No plan has this id.
    #[error("plan `{0}` does not exist")]
    PlanNotFound(String),
    /// Several plans have this prefix.
    #[error("`{reference}` matches {} plans", .candidates.len())]
    AmbiguousPlan {
        /// The given prefix.
        reference: String,
        /// The matching plans.
        candidates: Vec<PlanId>,
    },
    /// The project does not exist.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The action does not exist.
    #[error(transparent)]
    Action(#[from] DefinitionError),
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

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => hint!(
                "run {} to list the active invariants",
                suggest::invariant_list()
            ),
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, text)| format!("\n{id} {text}"));
                hint!(
                    "give more characters of the id; it matches:{}",
                    lines.collect::<String>()
                )
            }
            Self::Text(InvariantTextError::Empty) => {
                hint!(
                    "write one sentence: {}",
                    suggest::invariant_add_global("Never push to main")
                )
            }
            Self::Text(_) => "write one sentence of plain text".into(),
            Self::Nowhere => {
                "add --global, --project PROJECT, --action ACTION or --plan PLAN".into()
            }
            Self::NotGlobal => "add --global, or omit --non-overridable".into(),
            Self::Exists { .. } => hint!("run {} to see it", suggest::invariant_list()),
            Self::Pattern(_) => "write it in the syntax of https://docs.rs/regex".into(),
            Self::PlanNotFound(_) => {
                "give the id of a plan, or its first 6 or more characters".into()
            }
            Self::AmbiguousPlan { candidates, .. } => {
                let lines = candidates.iter().map(|id| format!("\n{id}"));
                hint!(
                    "give more characters of the id; it matches these plans:{}",
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
