//! `plan/show`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    PlanActors, PlanId, PlanPhase, PlanProject, PlanState, PlanStrategy, Timestamp, Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ParentPlan, find_chosen, no_strategy, project_names, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{FailedCheck, UndoneApply};

/// Shows the strategy of a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// The form of the strategy in `document`. Without it, the response has no `document`.
    #[serde(default)]
    pub document: Option<StrategyFormat>,
}

/// The form of a strategy as one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StrategyFormat {
    /// For reading and editing.
    #[serde(alias = "md")]
    Markdown,
    /// For programs.
    Json,
}

/// The response of `plan/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanDetails {
    pub plan_id: PlanId,
    pub name: Option<String>,
    pub phase: PlanPhase,
    pub state: PlanState,
    pub action: String,
    /// The names of the plan's projects, joined by commas.
    pub project: Option<String>,
    pub projects: Vec<PlanProject>,
    pub description: String,
    pub definition_of_done: String,
    /// The values of the action's arguments, in the order in which the action defines them.
    pub arguments: Map<String, Value>,
    pub actors: PlanActors,
    pub automation: PlanAutomation,
    /// The number of the attempt, from 1; each return to the strategy starts another.
    pub attempt: u64,
    pub strategy: Option<PlanStrategy>,
    pub estimate: Option<Value>,
    /// The parent of a child plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentPlan>,
    /// The undo of the apply: the plan stays applied, and its changes are reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneApply>,
    /// The validations whose last result did not pass.
    pub failed_checks: Vec<FailedCheck>,
    /// The strategy as Markdown.
    pub markdown: Option<String>,
    pub version: Version,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// The strategy in the requested form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

/// The automation profile of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanAutomation {
    pub profile: String,
    /// Origin of the profile: `CLI flag`, `action`, `project` or `global`.
    pub source: String,
    pub read_only: bool,
}

impl Operation for ShowPlan {
    const NAME: &'static str = "plan/show";
    const SUMMARY: &'static str = "Show the strategy of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanDetails, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let document = match (self.document, &plan.strategy) {
            (None, _) => None,
            (Some(_), None) => return Err(no_strategy(&plan)),
            (Some(StrategyFormat::Markdown), Some(strategy)) => Some(strategy.to_markdown()),
            (Some(StrategyFormat::Json), Some(strategy)) => {
                let json = serde_json::to_string_pretty(strategy).map_err(|error| {
                    OperationError::internal("the strategy cannot be written as JSON")
                        .caused_by(error)
                })?;
                Some(json + "\n")
            }
        };
        let project = project_names(&plan);
        let parent = ParentPlan::of_plan(context, &plan)?;
        let state = plan.shown_state();
        let undone = UndoneApply::of_plan(&plan);
        let mut inputs = plan.inputs;
        let mut arguments = Map::new();
        for name in &inputs.arguments_order {
            if let Some(value) = inputs.arguments.remove(name) {
                arguments.insert(name.clone(), value);
            }
        }
        arguments.extend(inputs.arguments);
        Ok(PlanDetails {
            plan_id: plan.id,
            name: plan.name,
            phase: plan.stage.phase(),
            state,
            action: plan.action,
            project,
            projects: inputs.projects,
            description: plan.description,
            definition_of_done: plan.definition_of_done,
            arguments,
            actors: inputs.actors,
            automation: PlanAutomation {
                profile: inputs.profile.name,
                source: inputs.profile.source,
                read_only: inputs.read_only,
            },
            attempt: plan.attempt,
            markdown: plan.strategy.as_ref().map(PlanStrategy::to_markdown),
            strategy: plan.strategy,
            estimate: plan.estimate,
            parent,
            undone,
            failed_checks: context.plans().failed_checks(plan.id)?,
            version: plan.version,
            created: plan.created_at,
            updated: plan.updated_at,
            document,
        })
    }
}
