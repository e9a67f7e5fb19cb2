//! Why something about a plan cannot be looked up.

use cleveragents_domain::{Code, Diagnose, Owner, Plan, PlanId, PlanStage};
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;

/// A plan that may be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCandidate {
    /// Its id.
    pub id: PlanId,
    /// What people call it.
    pub name: Option<String>,
    /// Where it is.
    pub stage: PlanStage,
}

impl From<&Plan> for PlanCandidate {
    fn from(plan: &Plan) -> Self {
        Self {
            id: plan.id,
            name: plan.name.clone(),
            stage: plan.stage,
        }
    }
}

impl std::fmt::Display for PlanCandidate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.id)?;
        if let Some(name) = &self.name {
            write!(formatter, " {name}")?;
        }
        write!(formatter, " ({})", self.stage)
    }
}

/// A failure of the book of plans.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// No plan has this id or name.
    #[error("plan `{reference}` does not exist")]
    NotFound {
        /// What was asked for.
        reference: String,
        /// Names that are like it.
        nearest: Vec<String>,
    },
    /// Several plans are meant.
    #[error("several plans {meant}")]
    Ambiguous {
        /// What they have in common.
        meant: String,
        /// Some of them.
        candidates: Vec<PlanCandidate>,
    },
    /// No plan is in a state for this.
    #[error("there is no plan {purpose}")]
    NoPlan {
        /// What it would be for.
        purpose: String,
    },
    /// No decision has this id, or several begin so.
    #[error("{}", decision_message(.reference, .candidates))]
    DecisionNotFound {
        /// What was asked for.
        reference: String,
        /// Those that begin so.
        candidates: Vec<String>,
    },
    /// The plan is not in a state for this.
    #[error("plan {id} is {stage}: {why}")]
    NotReady {
        /// The plan.
        id: PlanId,
        /// Where it is.
        stage: PlanStage,
        /// Why that does not do.
        why: String,
    },
    /// Somebody works on it.
    #[error("plan {id} is worked on by {owner}")]
    Busy {
        /// The plan.
        id: PlanId,
        /// Who.
        owner: Owner,
    },
    /// There is no such checkpoint.
    #[error("plan {id} has no checkpoint `{checkpoint}`")]
    CheckpointNotFound {
        /// The plan.
        id: PlanId,
        /// What was asked for.
        checkpoint: String,
    },
    /// The pattern is not a regular expression.
    #[error("`{pattern}` is not a regular expression: {why}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// Its sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Who works on it.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn decision_message(reference: &str, candidates: &[String]) -> String {
    if candidates.is_empty() {
        format!("decision `{reference}` does not exist")
    } else {
        format!("the ids of several decisions begin with `{reference}`")
    }
}

impl From<LeaseError> for BookError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

fn listed(candidates: &[PlanCandidate]) -> String {
    let all: Vec<String> = candidates.iter().map(ToString::to_string).collect();
    all.join(", ")
}

impl Diagnose for BookError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::PlanNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousPlan,
            Self::NoPlan { .. } => Code::NoPlan,
            Self::DecisionNotFound { .. } => Code::DecisionNotFound,
            Self::NotReady { .. } => Code::PlanNotReady,
            Self::Busy { .. } => Code::PlanBusy,
            Self::CheckpointNotFound { .. } => Code::CheckpointNotFound,
            Self::Pattern { .. } => Code::Usage,
            Self::Sandbox(error) => error.code(),
            Self::Lease(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } => Some(match nearest.first() {
                Some(name) => format!("did you mean `{name}`? See `agents plan list`"),
                None => "run `agents plan list` to see what there is".to_owned(),
            }),
            Self::Ambiguous { candidates, .. } => Some(format!("name one: {}", listed(candidates))),
            Self::NoPlan { .. } => Some("run `agents plan list` to see what there is".to_owned()),
            Self::DecisionNotFound { candidates, .. } if !candidates.is_empty() => {
                Some(format!("name one: {}", candidates.join(", ")))
            }
            Self::DecisionNotFound { .. } => {
                Some("run `agents plan tree PLAN` to see the decisions".to_owned())
            }
            Self::NotReady { id, .. } => Some(format!("look at it: `agents plan status {id}`")),
            Self::Busy { id, .. } => Some(format!("wait for it: `agents plan wait {id}`")),
            Self::CheckpointNotFound { id, .. } => {
                Some(format!("see them: `agents plan checkpoint list {id}`"))
            }
            Self::Pattern { .. } => {
                Some("put `\\` before a character that is meant as it is".to_owned())
            }
            Self::Sandbox(error) => error.hint(),
            Self::Lease(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { reference, nearest } => json!({"plan": reference, "nearest": nearest}),
            Self::Ambiguous { candidates, .. } => json!({
                "candidates": candidates.iter().map(|plan| json!({
                    "plan_id": plan.id, "name": plan.name, "stage": plan.stage,
                })).collect::<Vec<_>>(),
            }),
            Self::DecisionNotFound {
                reference,
                candidates,
            } => json!({"decision": reference, "candidates": candidates}),
            Self::NotReady { id, stage, .. } => json!({"plan_id": id, "stage": stage}),
            Self::Busy { id, owner } => json!({"plan_id": id, "owner": owner}),
            Self::CheckpointNotFound { id, checkpoint } => {
                json!({"plan_id": id, "checkpoint": checkpoint})
            }
            Self::Sandbox(error) => error.details(),
            Self::Lease(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::NoPlan { .. } | Self::Pattern { .. } => Value::Null,
        }
    }
}
