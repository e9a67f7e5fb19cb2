//! Errors of [`super::PlanQueries`].

use cleveragents_domain::{
    Code, Diagnose, Hint, Owner, Placeholder, Plan, PlanId, PlanStage, hint, suggest,
};
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;

/// A plan that matches an ambiguous reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCandidate {
    pub id: PlanId,
    pub name: Option<String>,
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

#[derive(Debug, thiserror::Error)]
pub enum PlanQueryError {
    /// No plan has this id or name.
    #[error("plan `{reference}` does not exist")]
    NotFound {
        /// The reference as given.
        reference: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// Several plans match.
    #[error("several plans {property}")]
    Ambiguous {
        /// The property that the plans share, such as `are in progress`.
        property: String,
        /// Some of the matching plans.
        candidates: Vec<PlanCandidate>,
    },
    /// No plan is in a suitable state.
    #[error("there is no plan {purpose}{}", current_plan(.current.as_ref()))]
    NoPlan {
        /// The purpose, such as `to be executed`.
        purpose: String,
        /// The current plan of the caller's folder, which does not suit the purpose.
        current: Option<(PlanId, PlanStage)>,
    },
    /// No decision has this id, or several ids have this prefix.
    #[error("{}", decision_message(.reference, .candidates))]
    DecisionNotFound {
        /// The reference as given.
        reference: String,
        /// The matching decisions.
        candidates: Vec<String>,
    },
    /// The operation is not possible in the state of the plan.
    #[error("plan {id} is {stage}: {why}")]
    NotReady {
        id: PlanId,
        stage: PlanStage,
        /// Reason why the stage does not allow the operation.
        why: String,
    },
    /// A process works on the plan.
    #[error("plan {id} is in use by {owner}")]
    Busy { id: PlanId, owner: Owner },
    /// The checkpoint does not exist.
    #[error("plan {id} has no checkpoint `{checkpoint}`")]
    CheckpointNotFound {
        id: PlanId,
        /// The reference as given.
        checkpoint: String,
    },
    /// The pattern is not a regular expression.
    #[error("`{pattern}` is not a regular expression: {why}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// The error of the regular expression parser.
        why: String,
    },
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The lease failed.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn current_plan(current: Option<&(PlanId, PlanStage)>) -> String {
    current.map_or_else(String::new, |(id, stage)| {
        format!("; the current plan {id} is {stage}")
    })
}

fn decision_message(reference: &str, candidates: &[String]) -> String {
    if candidates.is_empty() {
        format!("decision `{reference}` does not exist")
    } else {
        format!("the ids of several decisions begin with `{reference}`")
    }
}

impl From<LeaseError> for PlanQueryError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

impl Diagnose for PlanQueryError {
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { nearest, .. } => Some(match nearest.first() {
                Some(name) => hint!("did you mean `{}`? See {}", name, suggest::plan_list()),
                None => hint!("run {} to list the plans", suggest::plan_list()),
            }),
            Self::Ambiguous { candidates, .. } => candidates.first().map(|plan| {
                hint!(
                    "name one, such as {}; {} lists them",
                    suggest::plan_status(plan.id),
                    suggest::plan_list()
                )
            }),
            Self::NoPlan {
                current: Some((id, _)),
                ..
            } => Some(hint!(
                "run {} to see what it waits for",
                suggest::plan_status(id)
            )),
            Self::NoPlan { .. } => Some(hint!(
                "start one with {}; {} lists the plans",
                suggest::do_task(Placeholder("TASK")),
                suggest::plan_list()
            )),
            Self::DecisionNotFound { candidates, .. } if !candidates.is_empty() => {
                Some(hint!("name one: {}", candidates.join(", ")))
            }
            Self::DecisionNotFound { .. } => Some(hint!(
                "run {} to see the decisions",
                suggest::plan_tree(Placeholder("PLAN"))
            )),
            Self::NotReady { id, .. } => {
                Some(hint!("show its status: {}", suggest::plan_status(id)))
            }
            Self::Busy { id, .. } => Some(hint!("wait for it: {}", suggest::plan_wait(id))),
            Self::CheckpointNotFound { id, .. } => {
                Some(hint!("list them: {}", suggest::plan_checkpoint_list(id)))
            }
            Self::Pattern { .. } => {
                Some("put `\\` before a character that has a special meaning".into())
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
