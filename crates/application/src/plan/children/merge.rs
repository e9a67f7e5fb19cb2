//! Merges the results of a batch of child plans into the sandbox of their parent: all of them or nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use cleveragents_domain::{
    ChildPlan, ChildSettings, ChildState, ConflictResolution, DecisionId, DecisionType,
    MergeStrategy, NewDecision, Plan, PlanId, PlanPhase, StageTransition, StepState,
    StoredConflict, Waiting,
};
use cleveragents_sandbox::Resolutions;
use cleveragents_store::plan_steps::StepEnd;
use cleveragents_store::plans::TransitionDetails;
use cleveragents_store::{UnitOfWork, child_plans, decisions, leases, plan_steps, plans};
use serde_json::json;

use super::{BatchMember, ChildPlans};
use crate::plan::decision::new_decision;
use crate::plan::error::PlanError;
use crate::plan::failure::FailureFacts;
use crate::plan::prompt::shortened;
use crate::plan::validate::path_violation;
use crate::plan::workspace::sandbox_name;
use crate::sandbox::{ComputedMerge, ForkToMerge, SandboxError, SandboxView};
use crate::tool::SandboxWorkspace;

/// Maximum size of the summary of a child plan in the step of its parent, in bytes.
const MAX_SUMMARY_LENGTH: usize = 4_000;

/// A complete child plan whose result is merged.
struct MergedChild {
    plan: PlanId,
    /// Number of the parent's step.
    step: u64,
    /// The changes of the child plan in the history of the parent's sandbox.
    positions: Range<u64>,
    summary: String,
    decision: Option<NewDecision>,
}

impl ChildPlans<'_> {
    /// Merges the complete child plans of a batch. With conflicts, the plan waits for decisions about them.
    pub(super) fn merge(
        &self,
        plan: &Plan,
        batch: &[BatchMember<'_>],
        settings: &ChildSettings,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let complete: Vec<ChildPlan> = self
            .states(plan, batch)?
            .into_iter()
            .filter(|child| child.state == ChildState::Complete)
            .collect();
        if settings.merge == MergeStrategy::SequentialApply {
            for child in complete {
                self.merge_together(plan, batch, &[child], settings, workspace)?;
            }
            return Ok(());
        }
        if complete.is_empty() {
            return Ok(());
        }
        self.merge_together(plan, batch, &complete, settings, workspace)
    }

    fn merge_together(
        &self,
        plan: &Plan,
        batch: &[BatchMember<'_>],
        children: &[ChildPlan],
        settings: &ChildSettings,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let views = children
            .iter()
            .map(|child| {
                let sandboxes = &self.workspaces.sandboxes;
                Ok(sandboxes.find(&sandbox_name(child.plan))?)
            })
            .collect::<Result<Vec<SandboxView>, PlanError>>()?;
        let known = self
            .progress
            .read(|reader| child_plans::conflicts(reader, plan.id))?;
        let forks: Vec<ForkToMerge<'_>> = children
            .iter()
            .zip(&views)
            .map(|(child, view)| ForkToMerge {
                view,
                resolutions: resolutions(&known, child.plan),
            })
            .collect();
        let merge = workspace.compute_merge(&forks, settings.merge)?;
        if !merge.conflicts.is_empty() {
            return self.wait_for_resolutions(plan, children, &merge, known);
        }
        self.check_paths(plan, &merge)?;
        let position = workspace.position();
        let merged = children
            .iter()
            .enumerate()
            .filter_map(|(number, child)| {
                let member = batch.iter().find(|member| member.child == child.plan)?;
                let positions = merge.range_of(number, position);
                Some(self.merged_child(plan, child, member, positions))
            })
            .collect::<Result<Vec<MergedChild>, PlanError>>()?;
        let (id, lease) = (plan.id, self.progress.lease.fencing_token());
        workspace.write_merge(&merge, move |unit| {
            leases::require(unit, &lease.0, lease.1)?;
            store_merge(unit, id, &merged)
        })?;
        for child in children {
            let title = format!("child plan {}, {}", child.number, child.title);
            self.front_end.observer.note(&format!("{title}: merged"));
        }
        Ok(())
    }

    /// Stores the conflicts, and stops the plan until the user has resolved them.
    fn wait_for_resolutions(
        &self,
        plan: &Plan,
        children: &[ChildPlan],
        merge: &ComputedMerge,
        known: Vec<StoredConflict>,
    ) -> Result<(), PlanError> {
        let id = plan.id;
        let mut conflicts: Vec<StoredConflict> = merge
            .conflicts
            .iter()
            .map(|(number, alias, conflict)| StoredConflict {
                parent: id,
                child: children[*number].plan,
                alias: alias.clone(),
                path: conflict.path.clone(),
                reason: conflict.reason,
                base: conflict.base,
                ours: conflict.ours,
                theirs: conflict.theirs,
                resolution: None,
            })
            .collect();
        let paths: Vec<String> = conflicts
            .iter()
            .map(|conflict| format!("{}/{}", conflict.alias, conflict.path))
            .collect();
        // Resolutions that were used in this merge stay, so that the next merge uses them again.
        let is_new = |known: &StoredConflict| {
            !conflicts.iter().any(|conflict| {
                (conflict.child, &conflict.alias, &conflict.path)
                    == (known.child, &known.alias, &known.path)
            })
        };
        let resolved: Vec<StoredConflict> = known
            .into_iter()
            .filter(|known| known.resolution.is_some() && is_new(known))
            .collect();
        conflicts.extend(resolved);
        self.progress
            .write(move |unit| child_plans::set_conflicts(unit, id, &conflicts))?;
        self.progress.wait(plan, Waiting::Conflicts { paths })
    }

    /// Fails the plan if a merged path breaks an invariant about paths.
    fn check_paths(&self, plan: &Plan, merge: &ComputedMerge) -> Result<(), PlanError> {
        let changed: Vec<String> = merge
            .targets
            .iter()
            .flat_map(|(alias, targets)| targets.keys().map(move |path| format!("{alias}/{path}")))
            .collect();
        let Some(violation) = path_violation(&self.requirements.reconciled(plan)?, &changed) else {
            return Ok(());
        };
        let failed = StageTransition::FailExecute;
        let facts = FailureFacts::default();
        self.progress.fail_violation(plan, failed, violation, facts)
    }

    fn merged_child(
        &self,
        plan: &Plan,
        child: &ChildPlan,
        member: &BatchMember<'_>,
        positions: Range<u64>,
    ) -> Result<MergedChild, PlanError> {
        let steps = self
            .progress
            .read(|reader| plan_steps::of_plan(reader, child.plan))?;
        let summary = steps
            .iter()
            .rev()
            .find(|step| step.is_done() && step.path.starts_with("step/"))
            .and_then(|step| step.summary.clone())
            .unwrap_or_default();
        let summary = shortened(&summary, MAX_SUMMARY_LENGTH);
        let parent = child.spawned_by.or(plan.decision_root);
        let decision = parent.map(|parent: DecisionId| NewDecision {
            artifacts: member.step.step.files.clone(),
            ..new_decision(
                parent,
                DecisionType::ImplementationChoice,
                PlanPhase::Execute,
                format!("How was {} executed?", member.step.label()),
                format!("by child plan {}", child.number),
                summary.clone(),
            )
        });
        let decision = decision
            .map(|decision| {
                Ok::<_, PlanError>(NewDecision {
                    snapshot: self.snapshots.take(plan, None)?,
                    ..decision
                })
            })
            .transpose()?;
        Ok(MergedChild {
            plan: child.plan,
            step: member.record.number,
            positions,
            summary,
            decision,
        })
    }
}

/// The resolutions of the conflicts of a child plan, by part.
fn resolutions(conflicts: &[StoredConflict], child: PlanId) -> BTreeMap<String, Resolutions> {
    let mut by_part: BTreeMap<String, Resolutions> = BTreeMap::new();
    for conflict in conflicts.iter().filter(|conflict| conflict.child == child) {
        let state = match &conflict.resolution {
            None => continue,
            Some(ConflictResolution::Ours) => conflict.ours,
            Some(ConflictResolution::Theirs) => conflict.theirs,
            Some(ConflictResolution::Edited { state }) => Some(*state),
        };
        by_part
            .entry(conflict.alias.clone())
            .or_default()
            .insert(conflict.path.clone(), state);
    }
    by_part
}

/// Records merged child plans, in the unit of work that records the merged files.
fn store_merge(
    unit: &mut UnitOfWork<'_>,
    parent: PlanId,
    merged: &[MergedChild],
) -> Result<(), SandboxError> {
    for child in merged {
        let complete = [ChildState::Complete];
        child_plans::set_state(unit, child.plan, &complete, ChildState::Merged, None)?;
        let details = TransitionDetails {
            report: Some(json!({"merged_into": parent})),
            ..TransitionDetails::default()
        };
        for transition in [
            StageTransition::QueueApply,
            StageTransition::StartApply,
            StageTransition::CompleteApply,
        ] {
            plans::advance(unit, child.plan, transition, &details)?;
        }
        if let Some(decision) = &child.decision {
            decisions::insert(unit, parent, decision)?;
        }
        let end = StepEnd {
            state: StepState::Done,
            summary: child.summary.clone(),
            position: child.positions.end,
            decision: child.decision.as_ref().map(|decision| decision.id),
        };
        plan_steps::set_start(unit, parent, child.step, child.positions.start)?;
        plan_steps::finish(unit, parent, child.step, &end)?;
    }
    child_plans::clear_conflicts(unit, parent)?;
    Ok(())
}
