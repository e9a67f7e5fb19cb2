//! [`ChildPlans`]: runs steps of a plan as child plans, each in a fork of the plan's sandbox, and merges their
//! results.
//!
//! Child plans are rows before they run. A process that continues the plan finds those that are done, continues those
//! that were interrupted, and merges only when all of a batch are complete.

mod drive;
mod merge;
mod requests;
mod spawn;

use std::collections::BTreeMap;

use cleveragents_domain::{
    ChildPlan, ChildSettings, Plan, PlanId, PlanStep, PlanStrategy, StepRecord,
};
use cleveragents_store::child_plans;

use super::error::PlanError;
use super::front_end::PlanFrontEnd;
use super::progress::PlanProgress;
use super::requirements::PlanRequirements;
use super::service::PlanService;
use super::snapshot::DecisionSnapshots;
use super::workspace::{PlanWorkspaces, sandbox_name};
use crate::run::UnknownOutcome;
use crate::runtime::AgentRuntime;
use crate::scheduler::PlanSlot;
use crate::tool::SandboxWorkspace;

pub(super) use requests::{PartRequest, is_requested_part, part_requests};

/// Default of the maximum number of plans above a child plan.
pub(crate) const DEFAULT_CHILD_DEPTH: u64 = 5;

/// Runs the child plans of one plan, whose lease this process holds.
pub(super) struct ChildPlans<'a> {
    pub(super) service: &'a PlanService,
    pub(super) requirements: &'a PlanRequirements,
    pub(super) snapshots: &'a DecisionSnapshots,
    pub(super) workspaces: &'a PlanWorkspaces,
    pub(super) progress: &'a PlanProgress<'a>,
    pub(super) runtime: &'a AgentRuntime,
    pub(super) front_end: PlanFrontEnd<'a>,
    /// The slot of the plan, which its child plans may use while the plan waits for them.
    pub(super) slot: Option<&'a PlanSlot>,
    pub(super) unknown_outcome: UnknownOutcome,
    /// Maximum number of plans above a child plan.
    pub(super) max_depth: u64,
}

/// A step that a child plan executes.
pub(super) struct ChildStep<'s> {
    /// Number of the step in the strategy, from 1; `None` for a part that an actor requested.
    pub(super) number: Option<u64>,
    /// Path of the step's record.
    pub(super) path: String,
    pub(super) step: &'s PlanStep,
}

impl ChildStep<'_> {
    /// The step in questions of decisions.
    fn label(&self) -> String {
        match self.number {
            Some(number) => format!("step {number}"),
            None => format!("the requested part \"{}\"", self.step.title),
        }
    }
}

/// A child plan with the record of its step.
struct BatchMember<'s> {
    record: StepRecord,
    step: &'s ChildStep<'s>,
    child: PlanId,
}

impl ChildPlans<'_> {
    /// Runs steps as child plans and merges their results. Returns when all are merged.
    pub(super) fn run(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        steps: &[ChildStep<'_>],
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let settings = strategy.children.clone().unwrap_or_default();
        let batch = self.spawn(plan, strategy, steps, &settings, workspace)?;
        self.drive(plan, &batch, &settings, workspace)?;
        self.merge(plan, &batch, &settings, workspace)?;
        for member in &batch {
            self.workspaces.remove_fork(member.child)?;
        }
        Ok(())
    }

    /// The child plans of a batch, in its order.
    fn states(&self, plan: &Plan, batch: &[BatchMember<'_>]) -> Result<Vec<ChildPlan>, PlanError> {
        let all = self
            .progress
            .read(|reader| child_plans::of_plan(reader, plan.id))?;
        let mut by_id: BTreeMap<PlanId, ChildPlan> =
            all.into_iter().map(|child| (child.plan, child)).collect();
        Ok(batch
            .iter()
            .filter_map(|member| by_id.remove(&member.child))
            .collect())
    }

    /// Copies the sandbox of the plan for a child plan, unless the copy exists.
    fn fork(&self, child: PlanId, workspace: &SandboxWorkspace) -> Result<(), PlanError> {
        let name = sandbox_name(child);
        if !self.workspaces.exists(&name)? {
            workspace.fork(child, &name)?;
        }
        Ok(())
    }
}

/// Number of child plans that may run at the same time.
fn parallelism(settings: &ChildSettings) -> usize {
    use cleveragents_domain::ExecutionMode;
    match settings.mode {
        ExecutionMode::Sequential => 1,
        ExecutionMode::Parallel | ExecutionMode::DependencyOrdered => {
            usize::try_from(settings.max_parallel).unwrap_or(1).max(1)
        }
    }
}
