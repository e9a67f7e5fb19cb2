//! `plan/list`.

use std::collections::{HashMap, HashSet};

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Plan, PlanId, PlanPhase, PlanState, Timestamp, Waiting, shortest_prefix,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{clock, elapsed, project_names, requires, task_line};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::plan::{PlanListQuery, UndoneApply};

/// Lists plans, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListPlans {
    /// Only plans in this phase.
    #[serde(default)]
    pub phase: Option<PlanPhase>,
    /// Only plans in this state.
    #[serde(default)]
    pub state: Option<PlanState>,
    /// Only plans that work on this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Only plans made from this action.
    #[serde(default)]
    pub action: Option<String>,
    /// Only plans whose name, action or description matches this regular expression.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Also list child plans, each below its parent.
    #[serde(default)]
    pub tree: bool,
}

/// The response of `plan/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanList {
    pub plans: Vec<PlanEntry>,
    pub filters: PlanListFilters,
    pub summary: PlanListSummary,
}

/// A listed plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    /// The shortest prefix of the id that no other listed plan has.
    pub id: String,
    pub plan_id: PlanId,
    pub name: Option<String>,
    pub phase: PlanPhase,
    pub state: PlanState,
    pub action: String,
    /// The first line of the task.
    #[serde(default)]
    pub task: String,
    /// The names of the plan's projects, joined by commas.
    pub project: Option<String>,
    pub parent_plan_id: Option<PlanId>,
    /// Position among the child plans of the parent, from 1; only in a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_number: Option<u64>,
    /// Number of listed plans above a child plan; only in a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// The number of the attempt, from 1; each return to the strategy starts another.
    pub attempt: u64,
    /// A sentence about the input that the plan waits for.
    pub waiting_for: Option<String>,
    /// Time from the start of the plan to its end, or until now, as `HH:MM:SS`.
    pub elapsed: Option<String>,
    /// The elapsed time in seconds.
    pub elapsed_s: Option<f64>,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// The undo of the apply: the plan stays applied, and its changes are reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneApply>,
    /// US dollars; `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

/// The filters of the request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanListFilters {
    pub phase: Option<PlanPhase>,
    pub state: Option<PlanState>,
    pub project: Option<String>,
    pub action: Option<String>,
    pub pattern: Option<String>,
}

/// The number of listed plans in each state.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanListSummary {
    pub total: usize,
    pub processing: usize,
    /// Plans that are applied.
    pub completed: usize,
    pub errored: usize,
    pub awaiting_input: usize,
}

impl Operation for ListPlans {
    const NAME: &'static str = "plan/list";
    const SUMMARY: &'static str = "List plans, newest first";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        if let Some(project) = &mut self.project {
            resolver.read_name(project, NamedKind::Project)?;
        }
        match &mut self.action {
            Some(action) => resolver.read_name(action, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<PlanList, OperationError> {
        let plans = context.plans().list(&PlanListQuery {
            phase: self.phase,
            state: self.state,
            project: self.project.clone(),
            action: self.action.clone(),
            pattern: self.pattern.clone(),
            with_children: self.tree,
            visible: context.visible(Scope::Plans),
        })?;
        let count =
            |matches: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| matches(plan)).count();
        let in_state = |state| count(&|plan| plan.shown_state() == state);
        let summary = PlanListSummary {
            total: plans.len(),
            processing: in_state(PlanState::Processing),
            completed: in_state(PlanState::Applied),
            errored: count(&|plan| plan.stage.is_errored()),
            awaiting_input: in_state(PlanState::AwaitingInput),
        };
        let ids: Vec<String> = plans.iter().map(|plan| plan.id.to_string()).collect();
        let short = |at: usize| {
            // `shortest_prefix` expects ascending ids, but the plans are listed newest first.
            let before = ids.get(at + 1).map(String::as_str);
            let after = at.checked_sub(1).map(|at| ids[at].as_str());
            shortest_prefix(&ids[at], before, after).to_owned()
        };
        let plans = plans.into_iter().enumerate();
        let mut entries: Vec<PlanEntry> = plans.map(|(at, plan)| entry(short(at), plan)).collect();
        if self.tree {
            entries = below_parents(entries, &context.plans().child_numbers()?);
        }
        Ok(PlanList {
            plans: entries,
            filters: PlanListFilters {
                phase: self.phase,
                state: self.state,
                project: self.project,
                action: self.action,
                pattern: self.pattern,
            },
            summary,
        })
    }
}

fn entry(short: String, plan: Plan) -> PlanEntry {
    let seconds = elapsed(&plan);
    let (cost, is_known) = (plan.usage.cost_micro_usd.as_usd(), !plan.is_cost_partial);
    PlanEntry {
        id: short,
        plan_id: plan.id,
        undone: UndoneApply::of_plan(&plan),
        phase: plan.stage.phase(),
        state: plan.shown_state(),
        project: project_names(&plan),
        task: task_line(&plan),
        name: plan.name,
        action: plan.action,
        parent_plan_id: plan.parent,
        child_number: None,
        depth: None,
        attempt: plan.attempt,
        waiting_for: plan.waiting.as_ref().map(Waiting::sentence),
        elapsed: seconds.map(clock),
        elapsed_s: seconds,
        created: plan.created_at,
        updated: plan.updated_at,
        cost_usd: is_known.then_some(cost),
        cost_known: (!is_known).then_some(false),
        cost_known_part: (!is_known).then_some(cost),
    }
}

/// Puts child plans below their parents, in the order of their numbers. A child plan whose parent is not listed stays
/// in its place.
fn below_parents(mut entries: Vec<PlanEntry>, numbers: &[(PlanId, u64)]) -> Vec<PlanEntry> {
    let numbers: HashMap<PlanId, u64> = numbers.iter().copied().collect();
    for entry in &mut entries {
        entry.child_number = numbers.get(&entry.plan_id).copied();
    }
    let listed: HashSet<PlanId> = entries.iter().map(|entry| entry.plan_id).collect();
    let (children, roots): (Vec<PlanEntry>, Vec<PlanEntry>) =
        entries.into_iter().partition(|entry| {
            let parent = entry.parent_plan_id;
            parent.is_some_and(|parent| listed.contains(&parent))
        });
    let mut of_parent: HashMap<PlanId, Vec<PlanEntry>> = HashMap::new();
    for child in children {
        if let Some(parent) = child.parent_plan_id {
            of_parent.entry(parent).or_default().push(child);
        }
    }
    let mut pending: Vec<(usize, PlanEntry)> =
        roots.into_iter().rev().map(|root| (0, root)).collect();
    let mut ordered = Vec::with_capacity(listed.len());
    while let Some((depth, mut entry)) = pending.pop() {
        let mut children = of_parent.remove(&entry.plan_id).unwrap_or_default();
        children.sort_by_key(|child| std::cmp::Reverse(child.child_number));
        pending.extend(children.into_iter().map(|child| (depth + 1, child)));
        entry.depth = Some(depth);
        ordered.push(entry);
    }
    ordered
}
