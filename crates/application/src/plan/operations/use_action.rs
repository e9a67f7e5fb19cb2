//! `plan/use`: creates a plan from an action, and starts it as far as its automation profile allows.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    MicroUsd, Plan, PlanActors, PlanId, PlanPhase, PlanStage, PlanState, Suggestion, Waiting, hint,
    suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{AppliedPlan, PlanAutomation, StrategyOutline, next_steps, requires, run_plan};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::plan::{DefaultActors, DriveOptions, PlanDefaults, UseAction};
use crate::runtime::parse_usd;

/// Creates a plan from an action, and starts it as far as its automation profile allows. If the start fails, the plan
/// still exists, and the details of the error contain its `plan_id`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsePlan {
    pub action: String,
    /// The projects that the plan works on, at least one.
    pub projects: Vec<String>,
    /// The arguments of the action, each as `NAME=VALUE`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// By default the profile of the action, a project or the configuration.
    #[serde(default)]
    pub automation_profile: Option<String>,
    /// The actor of the strategy, the execution, the review and the invariants, where none is named.
    #[serde(default)]
    pub model: Option<String>,
    /// By default the actors of the action or the configuration.
    #[serde(default)]
    pub strategy_actor: Option<String>,
    #[serde(default)]
    pub execution_actor: Option<String>,
    #[serde(default)]
    pub estimation_actor: Option<String>,
    /// `none` for no review.
    #[serde(default)]
    pub review_actor: Option<String>,
    /// `none` for no check of invariants by an actor.
    #[serde(default)]
    pub invariant_actor: Option<String>,
    /// Invariants of this plan only.
    #[serde(default)]
    pub invariant: Vec<String>,
    /// The cost limit in US dollars, such as `2.50`.
    #[serde(default)]
    pub max_cost: Option<String>,
    /// The plan is read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Only create the plan.
    #[serde(default)]
    pub no_start: bool,
}

/// The response of `plan/use`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPlan {
    pub plan_id: PlanId,
    pub name: Option<String>,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Phase and state, ignoring pending input, such as `strategize/complete`.
    pub stage: PlanStage,
    pub action: String,
    /// The names of the plan's projects, joined by commas.
    pub project: String,
    pub projects: Vec<String>,
    pub automation_profile: String,
    /// The number of the attempt, from 1.
    pub attempt: u64,
    /// The values of the action's arguments, and `automation_profile`.
    pub inputs: Map<String, Value>,
    pub actors: PlanActors,
    pub automation: PlanAutomation,
    pub context: PlanContextInfo,
    /// Missing until the plan has a strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyOutline>,
    pub waiting: Option<Waiting>,
    /// Missing unless the automation profile let the plan run until it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Box<AppliedPlan>>,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The projects and resources of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanContextInfo {
    /// Number of resources of the projects.
    pub resources: usize,
}

impl CreatedPlan {
    fn new(context: &OperationContext, plan: Plan) -> Result<Self, OperationError> {
        let next_steps = next_steps(&plan);
        let applied = AppliedPlan::find(context, &plan)?;
        let state = plan.shown_state();
        let inputs = plan.inputs;
        let projects: Vec<String> = inputs
            .projects
            .into_iter()
            .map(|project| project.name)
            .collect();
        let mut resources = 0;
        for project in &projects {
            resources += context.projects().targets(project)?.len();
        }
        let mut reported_inputs = inputs.arguments;
        reported_inputs.insert("automation_profile".to_owned(), json!(inputs.profile.name));
        Ok(Self {
            plan_id: plan.id,
            name: plan.name,
            phase: plan.stage.phase(),
            state,
            stage: plan.stage,
            action: plan.action,
            project: projects.join(", "),
            projects,
            automation_profile: inputs.profile.name.clone(),
            attempt: plan.attempt,
            inputs: reported_inputs,
            actors: inputs.actors,
            automation: PlanAutomation {
                profile: inputs.profile.name,
                source: inputs.profile.source,
                read_only: inputs.read_only,
            },
            context: PlanContextInfo { resources },
            strategy: plan.strategy.as_ref().map(StrategyOutline::from),
            waiting: plan.waiting,
            applied,
            next_steps,
        })
    }
}

impl Operation for UsePlan {
    const NAME: &'static str = "plan/use";
    const SUMMARY: &'static str =
        "Create a plan from an action, and start it as far as its automation profile allows";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = CreatedPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        for project in &mut self.projects {
            resolver.name(project, NamedKind::Project)?;
        }
        resolver.read_name(&mut self.action, NamedKind::Definition)?;
        let named = [
            &mut self.automation_profile,
            &mut self.model,
            &mut self.strategy_actor,
            &mut self.execution_actor,
            &mut self.estimation_actor,
            &mut self.review_actor,
            &mut self.invariant_actor,
        ];
        for name in named.into_iter().flatten().filter(|name| *name != NO_ACTOR) {
            resolver.read_name(name, NamedKind::Definition)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<CreatedPlan, OperationError> {
        let starts = !self.no_start;
        let settings = context.settings();
        let defaults = PlanDefaults {
            profile: settings.automation_profile.clone(),
            actors: settings.plans.actors.clone(),
        };
        let request = self.into_request()?;
        let service = context.plan_service();
        let plan = service.create(&request, &defaults, context.variables())?;
        let plan = if starts {
            run_plan(context, &plan, &DriveOptions::default())?
        } else {
            plan
        };
        CreatedPlan::new(context, plan)
    }
}

/// The actor name that disables an optional actor.
const NO_ACTOR: &str = "none";

impl UsePlan {
    fn into_request(self) -> Result<UseAction, OperationError> {
        if self.projects.is_empty() {
            return Err(
                OperationError::usage("a plan needs a project to work on").with_hint(hint!(
                    "name at least one; {} lists the projects",
                    suggest::project_list()
                )),
            );
        }
        let arguments = self
            .arguments
            .iter()
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
                _ => {
                    let error = OperationError::usage(format!("`{pair}` is not NAME=VALUE"));
                    Err(error.with_hint("write it like issue=17"))
                }
            });
        let max_cost: Option<MicroUsd> = self.max_cost.as_deref().map(parse_usd).transpose()?;
        Ok(UseAction {
            arguments: arguments.collect::<Result<_, _>>()?,
            action: self.action,
            projects: self.projects,
            profile: self.automation_profile,
            actors: DefaultActors {
                strategy: self.strategy_actor.or_else(|| self.model.clone()),
                execution: self.execution_actor.or_else(|| self.model.clone()),
                estimation: self.estimation_actor,
                invariant: self.invariant_actor.or_else(|| self.model.clone()),
                review: self.review_actor.or(self.model),
            },
            invariants: self.invariant,
            max_cost,
            read_only: self.read_only,
            report: None,
        })
    }
}
