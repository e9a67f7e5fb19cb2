//! `plan/children`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    ChildState, DecisionId, Plan, PlanId, PlanPhase, PlanStage, PlanState, Timestamp, Waiting,
    shortest_prefix,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{clock, elapsed, find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};

/// Lists the child plans of a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListChildPlans {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/children`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChildPlanList {
    pub plan_id: PlanId,
    /// The child plans in the order of their numbers.
    pub children: Vec<ChildPlanInfo>,
    pub summary: ChildPlanSummary,
}

/// A child plan and its place in its parent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChildPlanInfo {
    /// The shortest prefix of the id that no other child plan of the plan has.
    pub id: String,
    pub plan_id: PlanId,
    /// Position among the child plans, from 1. Results are merged in this order.
    pub number: u64,
    pub title: String,
    /// State from the view of the parent.
    pub state: ChildState,
    /// Phase and state of the child plan, such as `execute/processing`.
    pub stage: PlanStage,
    /// A sentence about the input that the child plan waits for.
    pub waiting_for: Option<String>,
    /// Number of files that it changed; `null` if the changes were deleted with its sandbox.
    pub files_changed: Option<usize>,
    /// Number of failed tries.
    pub failed_tries: u64,
    /// US dollars; `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
    /// Time from the start to the end, or until now, as `HH:MM:SS`.
    pub elapsed: Option<String>,
    /// The elapsed time in seconds.
    pub elapsed_s: Option<f64>,
    /// The process that runs it.
    pub owner: Option<String>,
    /// Reason of the failure or cancellation.
    pub reason: Option<String>,
    /// The decision that created it.
    pub spawned_by: Option<DecisionId>,
    pub created: Timestamp,
    pub finished: Option<Timestamp>,
}

/// The number of child plans in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChildPlanSummary {
    pub total: usize,
    pub open: usize,
    /// Executed, but not merged yet.
    pub complete: usize,
    pub merged: usize,
    pub failed: usize,
    pub cancelled: usize,
}

impl Operation for ListChildPlans {
    const NAME: &'static str = "plan/children";
    const SUMMARY: &'static str = "List the child plans of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ChildPlanList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<ChildPlanList, OperationError> {
        let parent = find_chosen(context, self.reference.as_deref())?;
        let plans = context.plans();
        let places = plans.child_places(parent.id)?;
        let stored = plans.children(parent.id)?;
        let mut ids: Vec<String> = stored.iter().map(|plan| plan.id.to_string()).collect();
        ids.sort_unstable();
        let mut children = Vec::with_capacity(places.len());
        let mut summary = ChildPlanSummary::default();
        for place in places {
            let Some(plan) = stored.iter().find(|plan| plan.id == place.plan) else {
                continue;
            };
            summary.total += 1;
            *match place.state {
                ChildState::Open => &mut summary.open,
                ChildState::Complete => &mut summary.complete,
                ChildState::Merged => &mut summary.merged,
                ChildState::Failed => &mut summary.failed,
                ChildState::Cancelled => &mut summary.cancelled,
            } += 1;
            let seconds = elapsed(plan);
            let changes = plans.recorded_changes(plan)?;
            let (cost, is_known) = (plan.usage.cost_micro_usd.as_usd(), !plan.is_cost_partial);
            children.push(ChildPlanInfo {
                id: short_id(&ids, plan.id),
                plan_id: plan.id,
                number: place.number,
                title: place.title,
                state: place.state,
                stage: plan.stage,
                waiting_for: plan.waiting.as_ref().map(Waiting::sentence),
                files_changed: changes.has_sandbox.then(|| changes.file_count()),
                failed_tries: place.tries,
                cost_usd: is_known.then_some(cost),
                cost_known_part: (!is_known).then_some(cost),
                elapsed: seconds.map(clock),
                elapsed_s: seconds,
                owner: plans.owner(plan.id)?.map(|lease| lease.owner.to_string()),
                reason: place.reason,
                spawned_by: place.spawned_by,
                created: place.created_at,
                finished: place.finished_at,
            });
        }
        Ok(ChildPlanList {
            plan_id: parent.id,
            children,
            summary,
        })
    }
}

/// The shortest prefix of an id that no other of the sorted `ids` has.
fn short_id(ids: &[String], id: PlanId) -> String {
    let id = id.to_string();
    let Ok(at) = ids.binary_search(&id) else {
        return id;
    };
    let before = at.checked_sub(1).map(|at| ids[at].as_str());
    let after = ids.get(at + 1).map(String::as_str);
    shortest_prefix(&id, before, after).to_owned()
}

/// The parent of a child plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ParentPlan {
    pub plan_id: PlanId,
    pub name: Option<String>,
    /// First line of the parent's task.
    pub task: String,
    /// Position of the child plan among the child plans of the parent, from 1.
    pub number: u64,
    /// Title of the child plan.
    pub title: String,
    /// State of the child plan from the view of the parent.
    pub child_state: ChildState,
}

impl ParentPlan {
    /// The parent of a plan; `None` if it is not a child plan.
    pub(super) fn of_plan(
        context: &OperationContext,
        plan: &Plan,
    ) -> Result<Option<Self>, OperationError> {
        let plans = context.plans();
        let Some(place) = plans.place_in_parent(plan.id)? else {
            return Ok(None);
        };
        let parent = plans.get(place.parent)?;
        let mut lines = parent.description.lines().map(str::trim);
        Ok(Some(Self {
            plan_id: parent.id,
            task: lines
                .find(|line| !line.is_empty())
                .unwrap_or_default()
                .to_owned(),
            name: parent.name,
            number: place.number,
            title: place.title,
            child_state: place.state,
        }))
    }
}

/// A child plan in the tree of its parent's decisions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TreeChildPlan {
    pub id: PlanId,
    /// Position among the child plans, from 1.
    #[serde(default)]
    pub number: u64,
    #[serde(default)]
    pub title: String,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// US dollars, of the calls whose price is known.
    #[serde(default)]
    pub cost_usd: f64,
    /// Seconds from the start to the end, or until now; `null` before the start.
    #[serde(default)]
    pub elapsed_s: Option<f64>,
    /// The process that runs it.
    #[serde(default)]
    pub owner: Option<String>,
    /// The decision that created it.
    #[serde(default)]
    pub spawned_by: Option<DecisionId>,
}

impl TreeChildPlan {
    /// The child plans of a plan in the order of their numbers.
    pub(super) fn of_plan(
        context: &OperationContext,
        parent: PlanId,
    ) -> Result<Vec<Self>, OperationError> {
        let plans = context.plans();
        let stored = plans.children(parent)?;
        let places = plans.child_places(parent)?.into_iter();
        let mut children = Vec::with_capacity(stored.len());
        for place in places {
            let Some(plan) = stored.iter().find(|plan| plan.id == place.plan) else {
                continue;
            };
            children.push(Self {
                id: plan.id,
                number: place.number,
                title: place.title,
                phase: plan.stage.phase(),
                state: plan.shown_state(),
                cost_usd: plan.usage.cost_micro_usd.as_usd(),
                elapsed_s: elapsed(plan),
                owner: plans.owner(plan.id)?.map(|lease| lease.owner.to_string()),
                spawned_by: place.spawned_by,
            });
        }
        Ok(children)
    }
}
