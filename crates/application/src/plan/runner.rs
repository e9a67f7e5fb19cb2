//! [`PlanRunner`]: runs a plan from stage to stage until it finishes, waits for the user, fails or is stopped.
//!
//! Each stage is stored before the next one starts, and stored work can be looked up: runs of actors by ids derived
//! from plan and step, the sandbox by its name, finished steps by their paths. If a process dies, the next process
//! therefore resumes the plan where the first one stopped.

use cleveragents_domain::{
    AutomationGate, FailureCategory, GateAction, Hint, Plan, PlanPhase, PlanStage, StageTransition,
    Waiting, hint, suggest,
};
use cleveragents_store::plans::{self, TransitionDetails};

use super::apply::ApplyPhase;
use super::error::PlanError;
use super::execute::ExecutePhase;
use super::failure::PhaseFailure;
use super::gates::{AutomationGates, GateOutcome};
use super::progress::PlanProgress;
use super::requirements::PlanRequirements;
use super::service::already_finished;
use super::strategize::StrategizePhase;
use super::validate::FailedResults;

/// A threshold above every confidence.
const ALWAYS_ASK: f64 = 1.0;

/// Runs one plan, whose lease this process holds.
pub(super) struct PlanRunner<'a> {
    pub(super) requirements: &'a PlanRequirements,
    pub(super) gates: &'a AutomationGates,
    pub(super) strategize: StrategizePhase<'a>,
    pub(super) execute: ExecutePhase<'a>,
    pub(super) apply: ApplyPhase<'a>,
    pub(super) progress: &'a PlanProgress<'a>,
}

impl PlanRunner<'_> {
    /// Runs the plan through the requested phase (`consent`), and through later phases as far as its automation profile
    /// allows.
    pub(super) fn run(
        &self,
        mut plan: Plan,
        consent: Option<PlanPhase>,
    ) -> Result<Plan, PlanError> {
        // An executed plan that needs no approval for its apply continues below: the previous process may have died
        // before the apply.
        if consent == Some(PlanPhase::Execute) && self.waits_for_apply_only(&plan)? {
            return Ok(plan);
        }
        let failed = if failed_validation(&plan) {
            FailedResults::RunAgain
        } else {
            FailedResults::Keep
        };
        if let Some(phase) = consent {
            if plan.waiting.is_some() {
                let id = plan.id;
                self.progress
                    .write(move |unit| plans::clear_waiting(unit, id))?;
                plan = self.progress.store.get(id)?;
            }
            plan = self.prepare(plan, phase)?;
        }
        self.run_stages(plan, consent, failed)
    }

    /// Runs the stages in order. The plan enters the phase `consent` without approval, once.
    fn run_stages(
        &self,
        mut plan: Plan,
        mut consent: Option<PlanPhase>,
        mut failed: FailedResults,
    ) -> Result<Plan, PlanError> {
        loop {
            if self.progress.cancel.is_cancelled() {
                return Err(self.progress.stopped(&plan)?);
            }
            if let Some(phase) = plan.stage.gated_phase() {
                if consent != Some(phase) && !self.may_enter(&plan, phase)? {
                    return self.progress.store.get(plan.id);
                }
                consent = None;
            }
            let details = TransitionDetails::default();
            plan = match plan.stage {
                PlanStage::StrategizeQueued | PlanStage::StrategizeProcessing => {
                    let outcome = self.strategize.run(plan.clone());
                    self.record_error(&plan, StageTransition::FailStrategize, outcome)?
                }
                PlanStage::StrategizeComplete => {
                    self.requirements.check_invariants(&plan)?;
                    let transition = StageTransition::QueueExecute;
                    self.progress.advance(&plan, transition, details)?
                }
                PlanStage::ExecuteQueued | PlanStage::ExecuteProcessing => {
                    consent = consent.filter(|phase| *phase != PlanPhase::Execute);
                    let outcome = self.execute.run(plan.clone(), failed);
                    failed = FailedResults::Keep;
                    self.record_error(&plan, StageTransition::FailExecute, outcome)?
                }
                PlanStage::ExecuteComplete => {
                    let transition = StageTransition::QueueApply;
                    let details = TransitionDetails {
                        report: self.apply.target_report(&plan),
                        ..details
                    };
                    self.progress.advance(&plan, transition, details)?
                }
                PlanStage::ApplyQueued | PlanStage::ApplyProcessing => self.apply.run(plan)?,
                _ => return Ok(plan),
            };
        }
    }

    /// Checks the gates of a phase. If the plan may not enter it, stores the approval that the plan waits for.
    fn may_enter(&self, plan: &Plan, phase: PlanPhase) -> Result<bool, PlanError> {
        if plan.is_subplan() {
            // The approval of its parent's strategy covers it. Its parent merges the result.
            return Ok(phase != PlanPhase::Apply);
        }
        match phase {
            PlanPhase::Strategize => {
                let (gate, opens) = (AutomationGate::Strategize, GateAction::Strategize);
                self.is_open(plan, self.gates.check(plan, gate, opens)?)
            }
            PlanPhase::Execute => {
                let opens = GateAction::Execute;
                let start = AutomationGate::StartExecution;
                let decision = AutomationGate::StrategyDecision;
                Ok(self.is_open(plan, self.gates.check(plan, start, opens)?)?
                    && self.is_open(plan, self.gates.check(plan, decision, opens)?)?)
            }
            PlanPhase::Apply => {
                let (gate, opens) = (AutomationGate::Apply, GateAction::Apply);
                let profile = &plan.inputs.profile.snapshot;
                let guards = profile.guards.as_ref();
                // This guard requires approval regardless of the threshold of the profile.
                let threshold = if guards.is_some_and(|guards| guards.require_approval_for_apply) {
                    ALWAYS_ASK
                } else {
                    profile.thresholds.threshold(gate)
                };
                let outcome = self.gates.check_at(plan, gate, opens, threshold)?;
                self.is_open(plan, outcome)
            }
        }
    }

    fn is_open(&self, plan: &Plan, outcome: GateOutcome) -> Result<bool, PlanError> {
        match outcome {
            GateOutcome::Open => Ok(true),
            GateOutcome::Rejected(_) => Ok(false),
            GateOutcome::NeedsApproval(waiting) => {
                self.progress.wait_for(plan, waiting)?;
                Ok(false)
            }
        }
    }

    /// Stores the error of a phase that could not run, for example because a resource cannot be copied. Without this
    /// record the plan would seem to be still running. Returns the error unchanged.
    fn record_error(
        &self,
        plan: &Plan,
        transition: StageTransition,
        outcome: Result<Plan, PlanError>,
    ) -> Result<Plan, PlanError> {
        let error = match outcome {
            Err(
                error @ (PlanError::Service(_)
                | PlanError::Sandbox(_)
                | PlanError::EmptyProject(_)
                | PlanError::Usage(_)),
            ) => error,
            other => return other,
        };
        let current = self.progress.store.get(plan.id)?;
        let is_running = matches!(
            current.stage,
            PlanStage::StrategizeProcessing | PlanStage::ExecuteProcessing
        );
        if is_running && !self.progress.cancel.is_cancelled() {
            let failure = PhaseFailure::new(FailureCategory::Resource, error.to_string());
            match self.progress.fail::<()>(&current, transition, failure) {
                Ok(()) | Err(PlanError::Failed { .. }) => {}
                Err(store_error) => return Err(store_error),
            }
        }
        Err(error)
    }

    /// True if the plan waits only for the approval of its apply, and nothing is left to execute.
    fn waits_for_apply_only(&self, plan: &Plan) -> Result<bool, PlanError> {
        let waits = matches!(
            &plan.waiting,
            Some(Waiting::Gate {
                opens: GateAction::Apply,
                ..
            })
        );
        let is_complete = plan.stage == PlanStage::ExecuteComplete;
        Ok(waits && is_complete && !self.execute.has_pending_guidance(plan)?)
    }

    /// Moves a plan to a stage from which the requested phase can run.
    fn prepare(&self, plan: Plan, phase: PlanPhase) -> Result<Plan, PlanError> {
        if plan.stage.is_terminal() {
            return Err(already_finished(&plan));
        }
        match phase {
            PlanPhase::Apply => self.prepare_apply(plan),
            PlanPhase::Strategize | PlanPhase::Execute => self.prepare_execute(plan),
        }
    }

    fn prepare_apply(&self, plan: Plan) -> Result<Plan, PlanError> {
        match plan.stage {
            PlanStage::ApplyErrored | PlanStage::ApplyConstrained => {
                let details = TransitionDetails {
                    clears_error: true,
                    report: self.apply.target_report(&plan),
                    ..TransitionDetails::default()
                };
                self.progress
                    .advance(&plan, StageTransition::Retry, details)
            }
            stage if stage == PlanStage::ExecuteComplete || stage.phase() == PlanPhase::Apply => {
                Ok(plan)
            }
            _ => {
                let hint = hint!("execute it first: {}", suggest::plan_execute(plan.id));
                Err(not_ready(
                    &plan,
                    "only an executed plan can be applied",
                    hint,
                ))
            }
        }
    }

    fn prepare_execute(&self, plan: Plan) -> Result<Plan, PlanError> {
        match plan.stage {
            PlanStage::StrategizeErrored => {
                // If the answer of the strategist was rejected, a new attempt asks the strategist again and names the
                // reason.
                let details = TransitionDetails {
                    starts_attempt: self.strategize.has_answered(&plan)?,
                    ..TransitionDetails::default()
                };
                self.progress
                    .advance(&plan, StageTransition::Retry, details)
            }
            PlanStage::ExecuteErrored => {
                self.progress
                    .observer
                    .note("completed steps are kept; the failed step is retried");
                let details = TransitionDetails::default();
                self.progress
                    .advance(&plan, StageTransition::Retry, details)
            }
            PlanStage::ExecuteComplete if !self.execute.has_pending_guidance(&plan)? => Ok(plan),
            PlanStage::ExecuteComplete
            | PlanStage::ApplyConstrained
            | PlanStage::ApplyErrored
            | PlanStage::ApplyQueued => {
                let details = TransitionDetails {
                    clears_error: true,
                    reason: Some("failed checks have to be fixed".to_owned()),
                    ..TransitionDetails::default()
                };
                self.progress
                    .advance(&plan, StageTransition::Rework, details)
            }
            PlanStage::ApplyProcessing => {
                let hint = hint!("finish it with {}", suggest::plan_apply(plan.id));
                Err(not_ready(&plan, "it is being applied", hint))
            }
            _ => Ok(plan),
        }
    }
}

/// True if the execution of a plan failed because of its checks.
fn failed_validation(plan: &Plan) -> bool {
    let category = FailureCategory::Validation.as_str();
    let error = plan.error.as_ref();
    plan.stage == PlanStage::ExecuteErrored
        && error.is_some_and(|error| error.get("error_category").is_some_and(|is| is == category))
}

fn not_ready(plan: &Plan, reason: &str, hint: Hint) -> PlanError {
    PlanError::NotReady {
        plan: plan.id,
        stage: plan.stage,
        reason: reason.to_owned(),
        hint,
    }
}
