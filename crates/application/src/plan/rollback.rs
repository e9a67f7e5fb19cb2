//! Taking a plan back to a checkpoint, and forward again: files, steps, decisions and calls together.
//!
//! What is to be done is written down first, so that whoever comes after a crash ends it: the way of the
//! files through the history of the sandbox is one that can be gone again.

use cleveragents_domain::{
    Checkpoint, CheckpointReason, DecisionType, Move, NewDecision, Plan, PlanId, PlanPhase,
    PlanStage, StepRecord, Waiting,
};
use cleveragents_store::plan_steps::{Rollback, RollbackState, Undone};
use cleveragents_store::plans::Along;
use cleveragents_store::{decisions, leases, plan_steps, plans};
use serde_json::json;

use super::error::PlanError;
use super::service::{PlanService, over};
use super::strategize::decided;
use crate::lease::HeldLease;
use crate::sandbox::{OpenSandbox, RollbackTarget, SandboxError};

/// What taking a plan back did.
#[derive(Debug)]
pub struct PlanRolledBack {
    /// The plan as it is now.
    pub plan: Plan,
    /// The checkpoint that was reached.
    pub checkpoint: Checkpoint,
    /// Each path that was changed, with its part.
    pub paths: Vec<String>,
    /// What does not hold any more, or holds again.
    pub undone: Undone,
}

/// What taking a plan back would do.
#[derive(Debug)]
pub struct PlanRollbackPreview {
    /// The checkpoint that would be reached.
    pub checkpoint: Checkpoint,
    /// Each path that would be changed, with its part.
    pub paths: Vec<String>,
    /// Steps, decisions and calls after it.
    pub undone: Undone,
}

impl PlanService {
    fn sandbox_of(&self, plan: &Plan, way: &'static str) -> Result<OpenSandbox, PlanError> {
        let refused = |reason: String| PlanError::Rollback {
            plan: plan.id,
            way,
            reason,
        };
        if plan.stage.is_terminal() {
            return Err(refused(format!("it is {}", plan.stage.state())));
        }
        if plan.stage.phase() == PlanPhase::Strategize {
            return Err(refused("nothing was carried out yet".to_owned()));
        }
        let Some(name) = &plan.sandbox else {
            return Err(refused("it has no sandbox".to_owned()));
        };
        self.sandboxes.open(name).map_err(|error| match error {
            SandboxError::NotFound(_) | SandboxError::NotReady { .. } => {
                refused(format!("its sandbox cannot be used: {error}"))
            }
            // Not a state of the plan: it says itself what is wrong, and what to do.
            error => error.into(),
        })
    }

    /// A checkpoint by what people call it: `cp_7`, `7`, or its label.
    fn chosen(&self, open: &OpenSandbox, wanted: &str) -> Result<Checkpoint, PlanError> {
        let name = wanted.strip_prefix("cp_").unwrap_or(wanted);
        Ok(self.sandboxes.checkpoint_named(open, name)?)
    }

    /// What taking a plan back to a checkpoint would do.
    pub fn preview_rollback(
        &self,
        id: PlanId,
        checkpoint: &str,
    ) -> Result<PlanRollbackPreview, PlanError> {
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let plan = self.get(id)?;
        let mut open = self.sandbox_of(&plan, "back")?;
        let chosen = self.chosen(&open, checkpoint)?;
        let target = RollbackTarget::Checkpoint(chosen.number.to_string());
        let preview = self.sandboxes.rollback_preview(&mut open, &target)?;
        let (position, moment) = (chosen.position, chosen.created_at);
        let undone = self
            .engine
            .read(|reader| plan_steps::count_after(reader, id, position, moment))?;
        Ok(PlanRollbackPreview {
            checkpoint: chosen,
            paths: paths(&preview.changes),
            undone,
        })
    }

    /// Takes a plan back to a checkpoint of its sandbox.
    pub fn rollback(&self, id: PlanId, checkpoint: &str) -> Result<PlanRolledBack, PlanError> {
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let plan = self.get(id)?;
        let mut open = self.sandbox_of(&plan, "back")?;
        let chosen = self.chosen(&open, checkpoint)?;
        if let Some(already) = self.is_back(&plan, &mut open, &chosen)? {
            return Ok(already);
        }
        drop(open);
        let before = json!({
            "stage": plan.stage, "position": chosen.position,
            "moment": chosen.created_at.as_micros(), "label": chosen.label,
        });
        let number = chosen.number.0;
        let fence = (lease.subject().clone(), lease.token());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            plan_steps::begin_rollback(unit, id, number, &before)
        })?;
        self.finish_rollback(id, &lease)?.ok_or_else(|| over(&plan))
    }

    /// The last rollback, when it led to this checkpoint and nothing happened since. A second one would have
    /// nothing to take back, and be all that a redo finds.
    fn is_back(
        &self,
        plan: &Plan,
        open: &mut OpenSandbox,
        chosen: &Checkpoint,
    ) -> Result<Option<PlanRolledBack>, PlanError> {
        let (all, steps) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                plan_steps::rollbacks(reader, plan.id)?,
                plan_steps::of_plan(reader, plan.id)?,
            ))
        })?;
        let Some(last) = all
            .last()
            .filter(|last| (last.state, last.checkpoint) == (RollbackState::Done, chosen.number.0))
        else {
            return Ok(None);
        };
        let target = RollbackTarget::Checkpoint(chosen.number.to_string());
        let preview = self.sandboxes.rollback_preview(open, &target)?;
        if !preview.changes.is_empty() || went_on(&steps, last) {
            return Ok(None);
        }
        let report = last.report.clone().unwrap_or_default();
        let paths = serde_json::from_value(report["paths"].clone());
        let undone = serde_json::from_value(report["undone"].clone());
        Ok(Some(PlanRolledBack {
            plan: plan.clone(),
            checkpoint: chosen.clone(),
            paths: paths.unwrap_or_default(),
            undone: undone.unwrap_or_default(),
        }))
    }

    /// Takes the last rollback back.
    pub fn redo(&self, id: PlanId) -> Result<PlanRolledBack, PlanError> {
        let lease = self.take(id)?;
        let cut_off = self.cut_off(id)?;
        let ended = self.finish_rollback(id, &lease)?;
        if let (Some(cut_off), Some(ended)) = (cut_off, ended)
            && cut_off.state == RollbackState::Redoing
        {
            return Ok(ended);
        }
        let plan = self.get(id)?;
        let refused = |reason: &str| PlanError::Rollback {
            plan: id,
            way: "forward again",
            reason: reason.to_owned(),
        };
        drop(self.sandbox_of(&plan, "forward again")?);
        let all = self
            .engine
            .read(|reader| plan_steps::rollbacks(reader, id))?;
        let Some(last) = all
            .iter()
            .rev()
            .find(|one| one.state == RollbackState::Done)
        else {
            return Err(refused("it was not taken back"));
        };
        let steps = self.engine.read(|reader| plan_steps::of_plan(reader, id))?;
        if went_on(&steps, last) {
            return Err(refused("it went another way since it was taken back"));
        }
        let (number, fence) = (last.number, (lease.subject().clone(), lease.token()));
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            plan_steps::set_rollback(unit, id, number, RollbackState::Redoing, None)
        })?;
        self.finish_rollback(id, &lease)?.ok_or_else(|| over(&plan))
    }

    /// The rollback or redo that was begun and not ended.
    fn cut_off(&self, id: PlanId) -> Result<Option<Rollback>, PlanError> {
        let all = self
            .engine
            .read(|reader| plan_steps::rollbacks(reader, id))?;
        Ok(all
            .into_iter()
            .find(|one| matches!(one.state, RollbackState::Begun | RollbackState::Redoing)))
    }

    /// Ends a rollback or redo that was begun, by this process or one that died.
    pub(super) fn finish_rollback(
        &self,
        id: PlanId,
        lease: &HeldLease,
    ) -> Result<Option<PlanRolledBack>, PlanError> {
        let Some(rollback) = self.cut_off(id)? else {
            return Ok(None);
        };
        let plan = self.get(id)?;
        match rollback.state {
            RollbackState::Begun => self.go_back(&plan, &rollback, lease).map(Some),
            _ => self.go_forward(&plan, &rollback, lease).map(Some),
        }
    }

    fn go_back(
        &self,
        plan: &Plan,
        rollback: &Rollback,
        lease: &HeldLease,
    ) -> Result<PlanRolledBack, PlanError> {
        let mut open = self.sandbox_of(plan, "back")?;
        let checkpoint = self
            .sandboxes
            .checkpoint_named(&open, &rollback.checkpoint.to_string())?;
        let changed = if let Some(before) = way_of(&open, rollback) {
            // Whoever was cut off had the files back already. Going again would hide the way forward.
            paths(&self.sandboxes.net_of_all(&open, before.position)?)
        } else {
            let target = RollbackTarget::Checkpoint(rollback.checkpoint.to_string());
            paths(&self.sandboxes.rollback(&mut open, &target)?.changes)
        };
        let (id, number) = (plan.id, rollback.number);
        let position = rollback.before["position"].as_u64().unwrap_or_default();
        let moment = rollback.before["moment"].as_i64().unwrap_or_default();
        let moment = cleveragents_domain::Timestamp::from_micros(moment);
        let label = checkpoint.label.clone();
        let snapshot = self.snapshot(plan, None)?;
        let decision = plan.decision_root.map(|root| NewDecision {
            snapshot,
            ..decided(
                root,
                DecisionType::UserIntervention,
                PlanPhase::Execute,
                "From where does the plan go on?",
                format!("from checkpoint cp_{}", rollback.checkpoint),
                "it was taken back",
            )
        });
        let report = changed.clone();
        let fence = (lease.subject().clone(), lease.token());
        let undone = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            let undone = plan_steps::undo_after(unit, id, number, position, moment)?;
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            let along = Along {
                forgets_error: true,
                reason: Some("it was taken back".to_owned()),
                ..Along::default()
            };
            plans::advance(unit, id, Move::Rework, &along)?;
            plans::wait_for(
                unit,
                id,
                &Waiting::Guidance {
                    reason: "it was taken back".to_owned(),
                },
            )?;
            let report = json!({"paths": report, "undone": undone, "label": label});
            plan_steps::set_rollback(unit, id, number, RollbackState::Done, Some(&report))?;
            Ok::<_, cleveragents_store::Error>(undone)
        })?;
        Ok(PlanRolledBack {
            plan: self.get(id)?,
            checkpoint,
            paths: changed,
            undone,
        })
    }

    fn go_forward(
        &self,
        plan: &Plan,
        rollback: &Rollback,
        lease: &HeldLease,
    ) -> Result<PlanRolledBack, PlanError> {
        let mut open = self.sandbox_of(plan, "forward again")?;
        // One that was cut off after the files were forward again has no way to go any more.
        let forward = match way_of(&open, rollback) {
            Some(_) => Some(self.sandboxes.redo(&mut open)?),
            None => None,
        };
        let stage = rollback.before["stage"]
            .as_str()
            .and_then(PlanStage::from_stored);
        let (id, number) = (plan.id, rollback.number);
        let fence = (lease.subject().clone(), lease.token());
        let undone = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            let undone = plan_steps::redo(unit, id, number)?;
            if let Some(stage) = stage {
                plans::restore_stage(unit, id, stage)?;
            }
            plan_steps::set_rollback(unit, id, number, RollbackState::Redone, None)?;
            Ok::<_, cleveragents_store::Error>(undone)
        })?;
        let checkpoint = match &forward {
            Some(forward) => forward.checkpoint.clone(),
            None => self
                .sandboxes
                .checkpoint_named(&open, &rollback.checkpoint.to_string())?,
        };
        Ok(PlanRolledBack {
            plan: self.get(id)?,
            checkpoint,
            paths: forward
                .map(|forward| paths(&forward.changes))
                .unwrap_or_default(),
            undone,
        })
    }
}

/// Whether steps were done after a rollback.
fn went_on(steps: &[StepRecord], rollback: &Rollback) -> bool {
    let mut holding = steps.iter().filter(|step| step.undone_by.is_none());
    holding.any(|step| step.started_at > rollback.created_at)
}

/// The state before the way that the files went back for a rollback, while they are back.
fn way_of(open: &OpenSandbox, rollback: &Rollback) -> Option<Checkpoint> {
    let mut made = open.view.checkpoints.iter().rev();
    let way = made.find(|checkpoint| {
        checkpoint.reason == CheckpointReason::BeforeRollback
            && checkpoint.target.map(|target| target.0) == Some(rollback.checkpoint)
            && checkpoint.created_at >= rollback.created_at
    });
    way.filter(|checkpoint| !checkpoint.undone).cloned()
}

fn paths(changes: &[(String, cleveragents_sandbox::Change)]) -> Vec<String> {
    changes
        .iter()
        .map(|(alias, change)| format!("{alias}/{}", change.path))
        .collect()
}
