//! [`PlanRollback`]: rolls a plan back to a checkpoint, and undoes a rollback (redo). Both affect files, steps,
//! decisions and tool calls together.
//!
//! The request is stored before anything changes, so that another process can finish an interrupted rollback.

use cleveragents_domain::{
    Checkpoint, CheckpointNumber, CheckpointReason, DecisionType, NewDecision, Plan, PlanId,
    PlanPhase, StageTransition, StepRecord, Waiting,
};
use cleveragents_sandbox::Change;
use cleveragents_store::plan_steps::{
    Rollback, RollbackCounts, RollbackOrigin, RollbackReport, RollbackState,
};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_store::{decisions, plan_steps};

use super::decision::new_decision;
use super::error::PlanError;
use super::plan_store::PlanStore;
use super::query::checkpoint_name;
use super::service::already_finished;
use super::snapshot::DecisionSnapshots;
use crate::lease::HeldLease;
use crate::sandbox::{OpenSandbox, RollbackTarget, SandboxError, SandboxService};

/// The result of a rollback or redo.
#[derive(Debug)]
pub struct PlanRolledBack {
    /// The plan afterwards.
    pub plan: Plan,
    /// The checkpoint that was restored; `None` if a correction was undone.
    pub checkpoint: Option<Checkpoint>,
    /// Changed paths, as `part/path`.
    pub paths: Vec<String>,
    /// Number of records that the rollback undid, or that the redo made valid again.
    pub undone: RollbackCounts,
}

#[derive(Debug)]
pub struct PlanRollbackPreview {
    /// The checkpoint that would be restored.
    pub checkpoint: Checkpoint,
    /// Paths that would change, as `part/path`.
    pub paths: Vec<String>,
    /// Number of steps, decisions and tool calls after the checkpoint.
    pub undone: RollbackCounts,
}

/// Rollback or redo, for error messages.
#[derive(Clone, Copy)]
enum Direction {
    Back,
    Forward,
}

impl Direction {
    const fn participle(self) -> &'static str {
        match self {
            Self::Back => "rolled back",
            Self::Forward => "redone",
        }
    }
}

/// Rolls plans back and undoes rollbacks (redo). Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanRollback {
    pub(super) store: PlanStore,
    pub(super) sandboxes: SandboxService,
    pub(super) snapshots: DecisionSnapshots,
}

impl PlanRollback {
    /// Previews a rollback to a checkpoint.
    pub(super) fn preview(
        &self,
        id: PlanId,
        checkpoint: &str,
    ) -> Result<PlanRollbackPreview, PlanError> {
        let lease = self.store.acquire(id)?;
        self.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        let mut open = self.open_sandbox(&plan, Direction::Back)?;
        let chosen = self.find_checkpoint(&open, checkpoint)?;
        let target = RollbackTarget::Checkpoint(chosen.number.to_string());
        let preview = self.sandboxes.rollback_preview(&mut open, &target)?;
        let (position, moment) = (chosen.position, chosen.created_at);
        let undone = self
            .store
            .read(|reader| plan_steps::count_after(reader, id, position, moment))?;
        Ok(PlanRollbackPreview {
            checkpoint: chosen,
            paths: paths(&preview.changes),
            undone,
        })
    }

    /// Rolls a plan back to a checkpoint of its sandbox.
    pub(super) fn roll_back(
        &self,
        id: PlanId,
        checkpoint: &str,
    ) -> Result<PlanRolledBack, PlanError> {
        let lease = self.store.acquire(id)?;
        self.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        let mut open = self.open_sandbox(&plan, Direction::Back)?;
        let chosen = self.find_checkpoint(&open, checkpoint)?;
        if let Some(report) = self.repeated_rollback(&plan, &mut open, &chosen)? {
            return Ok(report);
        }
        drop(open);
        let origin = RollbackOrigin {
            stage: plan.stage,
            position: chosen.position,
            moment_micros: chosen.created_at.as_micros(),
            label: chosen.label,
            correction: None,
        };
        let number = chosen.number.0;
        self.store.write_leased(&lease, move |unit| {
            Ok(plan_steps::begin_rollback(unit, id, number, &origin)?)
        })?;
        self.finish_interrupted(id, &lease)?
            .ok_or_else(|| already_finished(&plan))
    }

    /// Undoes the last rollback.
    pub(super) fn redo(&self, id: PlanId) -> Result<PlanRolledBack, PlanError> {
        let lease = self.store.acquire(id)?;
        let interrupted = self.interrupted(id)?;
        let finished = self.finish_interrupted(id, &lease)?;
        if let (Some(interrupted), Some(finished)) = (interrupted, finished)
            && interrupted.state == RollbackState::Redoing
        {
            return Ok(finished);
        }
        let plan = self.store.get(id)?;
        let refusal = |reason: &str| PlanError::Rollback {
            plan: id,
            participle: Direction::Forward.participle(),
            reason: reason.to_owned(),
        };
        drop(self.open_sandbox(&plan, Direction::Forward)?);
        let (rollbacks, steps) = self.history(id)?;
        let Some(last) = rollbacks
            .iter()
            .rev()
            .find(|rollback| rollback.state == RollbackState::Done)
        else {
            return Err(refusal("it was not rolled back"));
        };
        if has_continued(&steps, last) {
            return Err(refusal("it was continued after the rollback"));
        }
        let number = last.number;
        self.store.write_leased(&lease, move |unit| {
            let state = RollbackState::Redoing;
            Ok(plan_steps::set_rollback(unit, id, number, state, None)?)
        })?;
        self.finish_interrupted(id, &lease)?
            .ok_or_else(|| already_finished(&plan))
    }

    /// Finishes a pending rollback or redo that this process, or another process that died, has started.
    pub(super) fn finish_interrupted(
        &self,
        id: PlanId,
        lease: &HeldLease,
    ) -> Result<Option<PlanRolledBack>, PlanError> {
        let Some(rollback) = self.interrupted(id)? else {
            return Ok(None);
        };
        let plan = self.store.get(id)?;
        match rollback.state {
            RollbackState::Begun => self.finish_rollback(&plan, &rollback, lease).map(Some),
            _ => self.finish_redo(&plan, &rollback, lease).map(Some),
        }
    }

    /// The unfinished rollback or redo, if any.
    fn interrupted(&self, id: PlanId) -> Result<Option<Rollback>, PlanError> {
        let all = self
            .store
            .read(|reader| plan_steps::rollbacks(reader, id))?;
        Ok(all
            .into_iter()
            .find(|entry| matches!(entry.state, RollbackState::Begun | RollbackState::Redoing)))
    }

    fn history(&self, id: PlanId) -> Result<(Vec<Rollback>, Vec<StepRecord>), PlanError> {
        self.store.read(|reader| {
            Ok((
                plan_steps::rollbacks(reader, id)?,
                plan_steps::of_plan(reader, id)?,
            ))
        })
    }

    fn open_sandbox(&self, plan: &Plan, direction: Direction) -> Result<OpenSandbox, PlanError> {
        let refusal = |reason: String| PlanError::Rollback {
            plan: plan.id,
            participle: direction.participle(),
            reason,
        };
        if plan.stage.is_terminal() {
            return Err(refusal(format!("it is {}", plan.stage.state())));
        }
        if plan.stage.phase() == PlanPhase::Strategize {
            return Err(refusal("nothing was executed yet".to_owned()));
        }
        let Some(name) = &plan.sandbox else {
            return Err(refusal("it has no sandbox".to_owned()));
        };
        self.sandboxes.open(name).map_err(|error| match error {
            SandboxError::NotFound(_) | SandboxError::NotReady { .. } => {
                refusal(format!("its sandbox cannot be used: {error}"))
            }
            // Other errors have their own hints.
            error => error.into(),
        })
    }

    /// Finds a checkpoint by `cp_7`, `7`, or its label.
    fn find_checkpoint(&self, open: &OpenSandbox, name: &str) -> Result<Checkpoint, PlanError> {
        let name = name.strip_prefix("cp_").unwrap_or(name);
        Ok(self.sandboxes.checkpoint_named(open, name)?)
    }

    /// The report of the last rollback, if it restored the same checkpoint and the plan has not changed since. A second
    /// rollback would undo nothing, and a redo would no longer undo the first one.
    fn repeated_rollback(
        &self,
        plan: &Plan,
        open: &mut OpenSandbox,
        chosen: &Checkpoint,
    ) -> Result<Option<PlanRolledBack>, PlanError> {
        let (rollbacks, steps) = self.history(plan.id)?;
        let same = (RollbackState::Done, chosen.number.0);
        let last = rollbacks.last();
        let Some(last) = last.filter(|last| (last.state, last.checkpoint) == same) else {
            return Ok(None);
        };
        let target = RollbackTarget::Checkpoint(chosen.number.to_string());
        let preview = self.sandboxes.rollback_preview(open, &target)?;
        if !preview.changes.is_empty() || has_continued(&steps, last) {
            return Ok(None);
        }
        let report = last.report.clone().unwrap_or_default();
        Ok(Some(PlanRolledBack {
            plan: plan.clone(),
            checkpoint: Some(chosen.clone()),
            paths: report.paths,
            undone: report.undone,
        }))
    }

    fn finish_rollback(
        &self,
        plan: &Plan,
        rollback: &Rollback,
        lease: &HeldLease,
    ) -> Result<PlanRolledBack, PlanError> {
        let mut open = self.open_sandbox(plan, Direction::Back)?;
        let checkpoint = self
            .sandboxes
            .checkpoint_named(&open, &rollback.checkpoint.to_string())?;
        let changed = if let Some(before) = checkpoint_before_rollback(&open, rollback) {
            // The interrupted process already rolled the files back. A second rollback would break redo.
            paths(
                &self
                    .sandboxes
                    .all_net_changes_since(&open, before.position)?,
            )
        } else {
            let target = RollbackTarget::Checkpoint(rollback.checkpoint.to_string());
            paths(&self.sandboxes.rollback(&mut open, &target)?.changes)
        };
        let (id, number, origin) = (plan.id, rollback.number, rollback.origin.clone());
        let decision = self.rollback_decision(plan, rollback)?;
        let (label, report_paths) = (checkpoint.label.clone(), changed.clone());
        let undone = self.store.write_leased(lease, move |unit| {
            let (position, moment) = (origin.position, origin.moment());
            let undone = plan_steps::undo_after(unit, id, number, position, moment)?;
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            let reason = "it was rolled back";
            let details = TransitionDetails {
                clears_error: true,
                reason: Some(reason.to_owned()),
                ..TransitionDetails::default()
            };
            plans::advance(unit, id, StageTransition::Rework, &details)?;
            let waiting = Waiting::Guidance {
                reason: reason.to_owned(),
            };
            plans::wait_for(unit, id, &waiting)?;
            let report = RollbackReport {
                paths: report_paths.clone(),
                undone,
                label: label.clone(),
            };
            let state = RollbackState::Done;
            plan_steps::set_rollback(unit, id, number, state, Some(&report))?;
            Ok(undone)
        })?;
        Ok(PlanRolledBack {
            plan: self.store.get(id)?,
            checkpoint: Some(checkpoint),
            paths: changed,
            undone,
        })
    }

    fn rollback_decision(
        &self,
        plan: &Plan,
        rollback: &Rollback,
    ) -> Result<Option<NewDecision>, PlanError> {
        let Some(root) = plan.decision_root else {
            return Ok(None);
        };
        Ok(Some(NewDecision {
            snapshot: self.snapshots.take(plan, None)?,
            ..new_decision(
                root,
                DecisionType::UserIntervention,
                PlanPhase::Execute,
                "Where does the plan continue?",
                format!(
                    "from checkpoint {}",
                    checkpoint_name(CheckpointNumber(rollback.checkpoint))
                ),
                "it was rolled back",
            )
        }))
    }

    fn finish_redo(
        &self,
        plan: &Plan,
        rollback: &Rollback,
        lease: &HeldLease,
    ) -> Result<PlanRolledBack, PlanError> {
        let mut open = self.open_sandbox(plan, Direction::Forward)?;
        // The interrupted process may have redone the files already.
        let redone = match checkpoint_before_rollback(&open, rollback) {
            Some(_) => Some(self.sandboxes.redo(&mut open)?),
            None => None,
        };
        let (id, number, stage) = (plan.id, rollback.number, rollback.origin.stage);
        let undone = self.store.write_leased(lease, move |unit| {
            let undone = plan_steps::redo(unit, id, number)?;
            plans::restore_stage(unit, id, stage)?;
            plan_steps::set_rollback(unit, id, number, RollbackState::Redone, None)?;
            Ok(undone)
        })?;
        let checkpoint = match &redone {
            Some(redone) => redone.checkpoint.clone(),
            None => self
                .sandboxes
                .checkpoint_named(&open, &rollback.checkpoint.to_string())?,
        };
        Ok(PlanRolledBack {
            plan: self.store.get(id)?,
            checkpoint: Some(checkpoint),
            paths: redone
                .map(|redone| paths(&redone.changes))
                .unwrap_or_default(),
            undone,
        })
    }
}

/// True if steps ran after a rollback.
pub(super) fn has_continued(steps: &[StepRecord], rollback: &Rollback) -> bool {
    let mut valid_steps = steps.iter().filter(|step| step.undone_by.is_none());
    valid_steps.any(|step| step.started_at > rollback.created_at)
}

/// The checkpoint taken before the rollback; `None` if the files of the sandbox are not rolled back.
fn checkpoint_before_rollback(open: &OpenSandbox, rollback: &Rollback) -> Option<Checkpoint> {
    let mut newest_first = open.view.checkpoints.iter().rev();
    let before = newest_first.find(|checkpoint| {
        checkpoint.reason == CheckpointReason::BeforeRollback
            && checkpoint.target.map(|target| target.0) == Some(rollback.checkpoint)
            && checkpoint.created_at >= rollback.created_at
    });
    before.filter(|checkpoint| !checkpoint.undone).cloned()
}

fn paths(changes: &[(String, Change)]) -> Vec<String> {
    changes
        .iter()
        .map(|(alias, change)| format!("{alias}/{}", change.path))
        .collect()
}
