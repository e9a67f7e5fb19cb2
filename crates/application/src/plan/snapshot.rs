//! [`DecisionSnapshots`]: the context of a decision. It is stored with the decision, so that the plan can continue from
//! that decision.

use cleveragents_domain::{ContentHash, ContextSnapshot, Plan, RunId};
use serde_json::json;

use super::error::PlanError;
use super::prompt::plan_instructions;
use super::requirements::PlanRequirements;
use crate::run::{RunService, RunServiceError};

/// Takes snapshots for decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct DecisionSnapshots {
    pub(super) runs: RunService,
    pub(super) requirements: PlanRequirements,
}

impl DecisionSnapshots {
    /// Takes a snapshot of the current context: of the actor and the conversation of a run, or of the plan if there is
    /// no run.
    pub(super) fn take(
        &self,
        plan: &Plan,
        run: Option<RunId>,
    ) -> Result<ContextSnapshot, PlanError> {
        let instructions = [plan_instructions(
            plan,
            &self.requirements.reconciled(plan)?,
        )];
        let run = match run.map(|id| self.runs.get(id)) {
            Some(Ok(run)) => Some(run),
            None | Some(Err(RunServiceError::NotFound { .. })) => None,
            Some(Err(error)) => return Err(PlanError::from_service(error)),
        };
        let (context, origin) = match run {
            Some(run) => {
                let messages = self
                    .runs
                    .conversation(run.id)
                    .map_err(PlanError::from_service)?;
                let context = json!([instructions, run.actor_hash, run.input, messages]);
                (context, format!("run {}", run.id))
            }
            None => (
                json!([instructions, plan.inputs, plan.strategy]),
                format!("plan {}", plan.id),
            ),
        };
        Ok(ContextSnapshot {
            hot_context_hash: Some(ContentHash::of_bytes(context.to_string().as_bytes())),
            hot_context_ref: Some(origin.clone()),
            relevant_resources: self.requirements.resource_names(plan),
            actor_state_ref: Some(origin),
        })
    }
}

/// Adds resources, such as files, to the snapshot of a decision.
pub(super) fn with_resources(snapshot: &ContextSnapshot, resources: &[String]) -> ContextSnapshot {
    let mut snapshot = snapshot.clone();
    for name in resources {
        if !snapshot.relevant_resources.contains(name) {
            snapshot.relevant_resources.push(name.clone());
        }
    }
    snapshot
}
