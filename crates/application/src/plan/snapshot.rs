//! What was known when something was decided for a plan. It is kept with the decision, so that the plan can be
//! gone on with from there.

use cleveragents_domain::{ContentHash, ContextSnapshot, Plan, RunId};
use serde_json::json;

use super::error::PlanError;
use super::service::PlanService;
use crate::run::RunServiceError;

impl PlanService {
    /// What is known at this moment: to the actor of a run, with all that was said in it, or to the program
    /// and the person, whose state is the plan itself.
    pub(super) fn snapshot(
        &self,
        plan: &Plan,
        run: Option<RunId>,
    ) -> Result<ContextSnapshot, PlanError> {
        let told = self.instructions(plan)?;
        let run = match run.map(|id| self.runs.get(id)) {
            Some(Ok(run)) => Some(run),
            None | Some(Err(RunServiceError::NotFound { .. })) => None,
            Some(Err(error)) => return Err(PlanError::of(error)),
        };
        let (context, place) = match run {
            Some(run) => {
                let said = self.runs.conversation(run.id).map_err(PlanError::of)?;
                let context = json!([told, run.actor_hash, run.input, said]);
                (context, format!("run {}", run.id))
            }
            None => (
                json!([told, plan.made_with, plan.strategy]),
                format!("plan {}", plan.id),
            ),
        };
        Ok(ContextSnapshot {
            hot_context_hash: Some(ContentHash::of(context.to_string().as_bytes())),
            hot_context_ref: Some(place.clone()),
            relevant_resources: self.resources_of(plan),
            actor_state_ref: Some(place),
        })
    }

    /// The names of the resources that a plan works on. A project that is gone is named itself.
    fn resources_of(&self, plan: &Plan) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for project in &plan.made_with.projects {
            let found = match self.projects.view(&project.name) {
                Ok((_, targets)) => targets
                    .into_iter()
                    .map(|target| target.resource.name.to_string())
                    .collect(),
                Err(_) => vec![project.name.clone()],
            };
            for name in found {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

/// The snapshot of a decision for which these mattered too, such as files.
pub(super) fn minding(snapshot: &ContextSnapshot, named: &[String]) -> ContextSnapshot {
    let mut snapshot = snapshot.clone();
    for name in named {
        if !snapshot.relevant_resources.contains(name) {
            snapshot.relevant_resources.push(name.clone());
        }
    }
    snapshot
}
