//! `plan/spawn`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{DecisionId, PlanId, PlanStage, Suggestion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, next_steps, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::AddedPart;

/// Adds a part to the strategy of a plan. A child plan executes it when the plan continues; finished steps are not
/// repeated.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnChildPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// The task of the part. Its first line becomes the title.
    pub task: String,
    /// Paths that the part changes.
    #[serde(default)]
    pub files: Vec<String>,
    /// Numbers of the steps that must be done before, from 1.
    #[serde(default)]
    pub after: Vec<usize>,
}

/// The response of `plan/spawn`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SpawnedPart {
    pub plan_id: PlanId,
    /// Number of the new step of the strategy, from 1.
    pub step: usize,
    pub title: String,
    /// The decision that records the step.
    pub decision_id: DecisionId,
    /// Phase and state of the plan.
    pub stage: PlanStage,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

impl Operation for SpawnChildPlan {
    const NAME: &'static str = "plan/spawn";
    const SUMMARY: &'static str = "Add a part to a plan, which a child plan executes";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = SpawnedPart;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<SpawnedPart, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let part = AddedPart {
            task: self.task,
            files: self.files,
            after: self.after,
        };
        let added = context.plan_control().add_part(plan.id, &part)?;
        let strategy = added.plan.strategy.as_ref();
        let step = strategy.and_then(|strategy| strategy.steps.get(added.number - 1));
        Ok(SpawnedPart {
            plan_id: plan.id,
            step: added.number,
            title: step.map_or_else(String::new, |step| step.title.clone()),
            decision_id: added.decision,
            stage: added.plan.stage,
            next_steps: next_steps(&added.plan),
        })
    }
}
