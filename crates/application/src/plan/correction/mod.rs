//! [`PlanCorrection`]: corrects one decision of a plan and discards only what follows from it.
//!
//! A correction restores the files that the discarded steps changed, and marks their records, in one unit of work. If
//! the process dies before, nothing is corrected.

mod attempts;
mod scope;

use cleveragents_domain::{
    DecisionId, DecisionType, NewDecision, Plan, PlanId, PlanPhase, PlanStage, StageTransition,
    hint, suggest,
};
use cleveragents_store::plan_steps::{
    CorrectionScope, Rollback, RollbackCounts, RollbackOrigin, RollbackReport, RollbackState,
};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_store::{UnitOfWork, decisions, leases, plan_steps};

use super::control::{AddedPart, added_step, store_strategy, with_part};
use super::decision::new_decision;
use super::error::PlanError;
use super::plan_store::PlanStore;
use super::rollback::{PlanRollback, PlanRolledBack, has_continued};
use super::service::already_finished;
use super::snapshot::DecisionSnapshots;
use crate::lease::HeldLease;
use crate::sandbox::{OpenSandbox, SandboxError, SandboxService};

pub use attempts::CorrectionAttempt;
pub(super) use attempts::of_plan as correction_attempts;
pub use scope::{AffectedCall, AffectedChild, AffectedDecision, AffectedStep, CorrectionPreview};

/// Kind of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorrectionMode {
    /// Discards the decision and everything that follows from it, and repeats the discarded work with the guidance.
    Revert,
    /// Keeps everything, and adds a child plan whose task is the guidance.
    Append,
}

impl CorrectionMode {
    /// The name in requests and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revert => "revert",
            Self::Append => "append",
        }
    }
}

/// A correction that was made.
#[derive(Debug)]
pub struct PlanCorrected {
    /// The plan afterwards.
    pub plan: Plan,
    /// The decision that records the correction.
    pub decision: DecisionId,
    /// The discarded decisions, steps and files.
    pub discarded: CorrectionPreview,
    pub undone: RollbackCounts,
}

/// Corrects decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanCorrection {
    pub(super) store: PlanStore,
    pub(super) sandboxes: SandboxService,
    pub(super) snapshots: DecisionSnapshots,
    pub(super) rollback: PlanRollback,
}

impl PlanCorrection {
    /// The effects that a correction would have.
    pub(super) fn preview(
        &self,
        id: PlanId,
        decision: DecisionId,
        mode: CorrectionMode,
    ) -> Result<CorrectionPreview, PlanError> {
        let lease = self.store.acquire(id)?;
        self.rollback.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        match mode {
            CorrectionMode::Revert => {
                self.check_correctable(&plan, decision)?;
                let mut open = self.open_sandbox(&plan)?;
                Ok(self.scope(&plan, decision, open.as_mut())?.preview)
            }
            CorrectionMode::Append => {
                self.check_correctable(&plan, decision)?;
                Ok(CorrectionPreview::default())
            }
        }
    }

    /// Corrects a decision with the guidance of the user.
    pub(super) fn correct(
        &self,
        id: PlanId,
        decision: DecisionId,
        mode: CorrectionMode,
        guidance: &str,
    ) -> Result<PlanCorrected, PlanError> {
        let guidance = guidance.trim();
        if guidance.is_empty() {
            return Err(PlanError::Usage("the guidance is empty".to_owned()));
        }
        let lease = self.store.acquire(id)?;
        self.rollback.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        match mode {
            CorrectionMode::Revert => self.revert(&plan, decision, guidance, &lease),
            CorrectionMode::Append => self.append(&plan, decision, guidance, &lease),
        }
    }

    fn revert(
        &self,
        plan: &Plan,
        target: DecisionId,
        guidance: &str,
        lease: &HeldLease,
    ) -> Result<PlanCorrected, PlanError> {
        self.check_correctable(plan, target)?;
        let mut open = self.open_sandbox(plan)?;
        let found = self.scope(plan, target, open.as_mut())?;
        let decision = self.correction_decision(plan, target, CorrectionMode::Revert, guidance)?;
        let scope = CorrectionScope {
            target,
            correction: decision.id,
            guidance: guidance.to_owned(),
            decisions: found.decisions,
            steps: found.steps,
        };
        let origin = RollbackOrigin {
            stage: plan.stage,
            position: open.as_ref().map_or(0, |open| open.view.position),
            moment_micros: plan.updated_at.as_micros(),
            label: None,
            correction: Some(scope.clone()),
        };
        let report = RollbackReport {
            paths: found.preview.paths.clone(),
            ..RollbackReport::default()
        };
        let (id, is_strategized, fence) =
            (plan.id, found.is_strategized_again, lease.fencing_token());
        let new = decision.clone();
        let store = move |unit: &mut UnitOfWork<'_>| -> Result<RollbackCounts, SandboxError> {
            leases::require(unit, &fence.0, fence.1)?;
            decisions::insert(unit, id, &new)?;
            decisions::set_corrected(unit, new.id, scope.target, &scope.guidance)?;
            let (_, undone) = plan_steps::correct(unit, id, &origin, &scope, &report)?;
            plan_steps::guide(unit, id, &scope.guidance, new.id)?;
            let details = TransitionDetails {
                clears_error: true,
                reason: Some("a decision was corrected".to_owned()),
                starts_attempt: is_strategized,
                ..TransitionDetails::default()
            };
            let transition = if is_strategized {
                StageTransition::Revert
            } else {
                StageTransition::Rework
            };
            plans::advance(unit, id, transition, &details)?;
            plans::clear_waiting(unit, id)?;
            Ok(undone)
        };
        let undone = match &mut open {
            Some(open) => {
                let merge = &found.targets;
                let (_, undone) = self.sandboxes.write_merge(open, merge, store)?;
                undone
            }
            None => self
                .store
                .write(move |unit| store(unit).map_err(PlanError::from))?,
        };
        Ok(PlanCorrected {
            plan: self.store.get(id)?,
            decision: decision.id,
            discarded: found.preview,
            undone,
        })
    }

    /// Adds a step to the strategy, which a child plan executes; the guidance is its task.
    fn append(
        &self,
        plan: &Plan,
        target: DecisionId,
        guidance: &str,
        lease: &HeldLease,
    ) -> Result<PlanCorrected, PlanError> {
        self.check_correctable(plan, target)?;
        let (Some(strategy), Some(root)) = (&plan.strategy, plan.decision_root) else {
            return Err(refusal(plan, "it has no strategy yet"));
        };
        let part = AddedPart {
            task: guidance.to_owned(),
            ..AddedPart::default()
        };
        let (strategy, number) = with_part(strategy, part.step())?;
        let decision = self.correction_decision(plan, target, CorrectionMode::Append, guidance)?;
        let step = NewDecision {
            snapshot: decision.snapshot.clone(),
            influenced_by: vec![target, decision.id],
            ..added_step(root, &strategy, number)
        };
        let (id, new) = (plan.id, decision.clone());
        let guidance = guidance.to_owned();
        self.store.write_leased(lease, move |unit| {
            decisions::insert(unit, id, &new)?;
            decisions::set_corrected(unit, new.id, target, &guidance)?;
            decisions::insert(unit, id, &step)?;
            Ok(store_strategy(
                unit,
                id,
                &strategy,
                "a decision was corrected",
            )?)
        })?;
        Ok(PlanCorrected {
            plan: self.store.get(id)?,
            decision: decision.id,
            discarded: CorrectionPreview::default(),
            undone: RollbackCounts::default(),
        })
    }

    fn correction_decision(
        &self,
        plan: &Plan,
        target: DecisionId,
        mode: CorrectionMode,
        guidance: &str,
    ) -> Result<NewDecision, PlanError> {
        let Some(root) = plan.decision_root else {
            return Err(PlanError::NotFound(plan.id));
        };
        Ok(NewDecision {
            snapshot: self.snapshots.take(plan, None)?,
            ..new_decision(
                root,
                DecisionType::UserIntervention,
                plan.stage.phase(),
                format!("What is decided instead of {target}?"),
                guidance,
                format!("the user corrected it ({})", mode.as_str()),
            )
        })
    }

    /// Undoes the last rollback of a plan if it is a correction: files, steps and decisions are as before it. `None` if
    /// the last rollback is not a correction.
    pub(super) fn undo_last(&self, id: PlanId) -> Result<Option<PlanRolledBack>, PlanError> {
        let lease = self.store.acquire(id)?;
        let plan = self.store.get(id)?;
        let (rollbacks, steps) = self.store.read(|reader| {
            Ok((
                plan_steps::rollbacks(reader, id)?,
                plan_steps::of_plan(reader, id)?,
            ))
        })?;
        // An interrupted rollback or redo is finished first, by the redo itself.
        let last = rollbacks
            .iter()
            .rev()
            .find(|rollback| rollback.state != RollbackState::Redone)
            .filter(|rollback| rollback.state == RollbackState::Done);
        let Some((last, scope)) = last.and_then(|last| {
            let scope = last.origin.correction.as_ref()?;
            Some((last, scope))
        }) else {
            return Ok(None);
        };
        if has_continued(&steps, last) {
            return Err(PlanError::Rollback {
                plan: id,
                participle: "redone",
                reason: "it was continued after the correction".to_owned(),
            });
        }
        let (paths, undone) = self.undo(&plan, last, scope, &lease)?;
        Ok(Some(PlanRolledBack {
            plan: self.store.get(id)?,
            checkpoint: None,
            paths,
            undone,
        }))
    }

    fn undo(
        &self,
        plan: &Plan,
        correction: &Rollback,
        scope: &CorrectionScope,
        lease: &HeldLease,
    ) -> Result<(Vec<String>, RollbackCounts), PlanError> {
        let (id, number, stage) = (plan.id, correction.number, correction.origin.stage);
        let (scope, fence) = (scope.clone(), lease.fencing_token());
        let store = move |unit: &mut UnitOfWork<'_>| -> Result<RollbackCounts, SandboxError> {
            leases::require(unit, &fence.0, fence.1)?;
            let undone = plan_steps::undo_correction(unit, id, number, &scope)?;
            plans::restore_stage(unit, id, stage)?;
            Ok(undone)
        };
        match self.open_sandbox(plan)? {
            Some(mut open) => {
                let position = correction.origin.position;
                let back = self.sandboxes.states_at(&mut open, position)?;
                let (changes, undone) = self.sandboxes.write_merge(&mut open, &back, store)?;
                let paths = changes
                    .iter()
                    .map(|(alias, change)| format!("{alias}/{}", change.path));
                Ok((paths.collect(), undone))
            }
            None => Ok((
                Vec::new(),
                self.store
                    .write(move |unit| store(unit).map_err(PlanError::from))?,
            )),
        }
    }

    /// The sandbox of the plan; `None` if it has none yet.
    fn open_sandbox(&self, plan: &Plan) -> Result<Option<OpenSandbox>, PlanError> {
        let Some(name) = &plan.sandbox else {
            return Ok(None);
        };
        match self.sandboxes.open(name) {
            Ok(open) => Ok(Some(open)),
            Err(SandboxError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a finished plan, and a decision that is not in effect or that cannot be corrected.
    fn check_correctable(&self, plan: &Plan, target: DecisionId) -> Result<(), PlanError> {
        if plan.stage.is_terminal() {
            return Err(already_finished(plan));
        }
        if plan.stage == PlanStage::StrategizeProcessing || plan.stage == PlanStage::ApplyProcessing
        {
            let reason = "it is being strategized or applied";
            return Err(refusal(plan, reason));
        }
        let all = self
            .store
            .read(|reader| decisions::of_plan(reader, plan.id))?;
        let Some(decision) = all.iter().find(|decision| decision.content.id == target) else {
            return Err(refusal(plan, format!("it has no decision {target}")));
        };
        if let Some(by) = decision.superseded_by {
            return Err(refusal(
                plan,
                format!("the decision {target} was replaced by {by}"),
            ));
        }
        if decision.undone_by.is_some() {
            return Err(refusal(
                plan,
                format!("the decision {target} was rolled back"),
            ));
        }
        match decision.content.kind {
            DecisionType::PromptDefinition => Err(PlanError::NotReady {
                plan: plan.id,
                stage: plan.stage,
                reason: "the task itself cannot be corrected".to_owned(),
                hint: hint!("make a new strategy with {}", suggest::plan_revert(plan.id)),
            }),
            DecisionType::InvariantEnforced => Err(PlanError::NotReady {
                plan: plan.id,
                stage: plan.stage,
                reason: "an invariant cannot be corrected".to_owned(),
                hint: hint!("{} shows the invariants", suggest::invariant_list()),
            }),
            _ => Ok(()),
        }
    }
}

fn refusal(plan: &Plan, reason: impl Into<String>) -> PlanError {
    PlanError::NotReady {
        plan: plan.id,
        stage: plan.stage,
        reason: reason.into(),
        hint: hint!(
            "{} lists the decisions of the plan",
            suggest::plan_tree(plan.id)
        ),
    }
}

/// Phases in which a correction of a decision needs a new strategy.
const STRATEGY: PlanPhase = PlanPhase::Strategize;
