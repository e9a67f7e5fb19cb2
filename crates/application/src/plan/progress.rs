//! [`PlanProgress`]: records the stages, pending input, failures and usage of a plan that this process runs.

use cleveragents_domain::{
    EventKind, FailureCategory, NewEvent, Plan, StageTransition, Waiting, hint, suggest,
};
use cleveragents_models::Redactor;
use cleveragents_process::Cancel;
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_store::{Error, Reader, UnitOfWork};
use serde_json::{Map, json};

use super::actor_runner::RunStop;
use super::error::PlanError;
use super::failure::{FailureFacts, PhaseFailure, Recovery};
use super::plan_store::PlanStore;
use crate::lease::HeldLease;
use crate::observer::Observer;

/// Stores the progress of a plan under its lease, and reports it to the observer.
pub(super) struct PlanProgress<'a> {
    pub(super) store: &'a PlanStore,
    pub(super) lease: &'a HeldLease,
    pub(super) observer: &'a dyn Observer,
    pub(super) cancel: &'a Cancel,
    pub(super) redactor: Redactor,
}

impl PlanProgress<'_> {
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&mut dyn Reader) -> Result<T, Error>,
    ) -> Result<T, PlanError> {
        self.store.read(work)
    }

    /// Writes under the lease of the plan: the write fails if the process lost the lease.
    pub(super) fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, PlanError> {
        self.store
            .write_leased(self.lease, move |unit| Ok(work(unit)?))
    }

    /// Changes the stage of the plan.
    pub(super) fn advance(
        &self,
        plan: &Plan,
        transition: StageTransition,
        details: TransitionDetails,
    ) -> Result<Plan, PlanError> {
        let id = plan.id;
        let updated = self.write(move |unit| plans::advance(unit, id, transition, &details))?;
        let updated = updated.ok_or_else(|| PlanError::NotReady {
            plan: id,
            stage: plan.stage,
            reason: "it was changed by another process".to_owned(),
            hint: hint!("{} shows its state", suggest::plan_status(id)),
        })?;
        tracing::info!(stage = %updated.stage, attempt = updated.attempt, "plan stage changed");
        self.observer.stage_changed(&updated);
        Ok(updated)
    }

    /// Stores the input that the plan waits for.
    pub(super) fn wait_for(&self, plan: &Plan, waiting: Waiting) -> Result<(), PlanError> {
        let id = plan.id;
        self.write(move |unit| plans::wait_for(unit, id, &waiting))
    }

    /// Stores the input that the plan waits for, and stops the plan with [`PlanError::Waits`].
    pub(super) fn wait<T>(&self, plan: &Plan, waiting: Waiting) -> Result<T, PlanError> {
        self.wait_for(plan, waiting.clone())?;
        Err(PlanError::Waits {
            plan: plan.id,
            waiting: Box::new(waiting),
        })
    }

    /// Returns the error for an interrupted or cancelled plan. If the user requested the cancellation, first stores the
    /// cancelled stage.
    pub(super) fn stopped(&self, plan: &Plan) -> Result<PlanError, PlanError> {
        self.lease.check()?;
        let current = self.store.get(plan.id)?;
        if current.is_cancelled && !current.stage.is_terminal() {
            let details = TransitionDetails {
                reason: Some("a user requested the cancellation".to_owned()),
                ..TransitionDetails::default()
            };
            self.advance(&current, StageTransition::Cancel, details)?;
        }
        Ok(PlanError::Stopped {
            plan: plan.id,
            is_over: current.is_cancelled,
        })
    }

    /// Stores the failure of the current phase, and returns it as an error.
    pub(super) fn fail<T>(
        &self,
        plan: &Plan,
        transition: StageTransition,
        mut failure: PhaseFailure,
    ) -> Result<T, PlanError> {
        failure.message = self.redactor.text(&failure.message).into_owned();
        let recovery = Recovery::for_failure(plan, &failure);
        let details = TransitionDetails {
            error: Some(failure.document(plan.stage.phase(), &recovery)),
            ..TransitionDetails::default()
        };
        let updated = self.advance(plan, transition, details)?;
        Err(PlanError::Failed {
            plan: plan.id,
            stage: updated.stage,
            message: failure.message,
            hint: recovery.hint,
        })
    }

    /// Stops a phase because the run of its actor stopped, for the same reason.
    pub(super) fn stop_phase(
        &self,
        plan: &Plan,
        transition: StageTransition,
        stop: RunStop,
    ) -> Result<Plan, PlanError> {
        self.record_usage(plan)?;
        match stop {
            RunStop::NeedsInput(waiting) => self.wait(plan, *waiting),
            RunStop::Cancelled => Err(self.stopped(plan)?),
            RunStop::Failed {
                message,
                code,
                is_transient,
            } => {
                let facts = FailureFacts {
                    code: Some(code.as_str()),
                    is_retriable: Some(true),
                    ..FailureFacts::default()
                };
                let failure = PhaseFailure::new(run_category(is_transient), message);
                self.fail(plan, transition, failure.with_facts(facts))
            }
        }
    }

    /// Records that the plan breaks an invariant.
    pub(super) fn record_violation(&self, plan: &Plan, reason: &str) -> Result<(), PlanError> {
        let (id, reason) = (plan.id, reason.to_owned());
        self.write(move |unit| {
            unit.emit(NewEvent {
                kind: EventKind::InvariantViolated,
                subject: id.to_string(),
                payload: json!({"reason": reason}),
            });
            let mut error = Map::new();
            error.insert("message".to_owned(), reason.clone().into());
            let category = FailureCategory::Invariant.as_str();
            error.insert("error_category".to_owned(), category.into());
            plans::merge_error(unit, id, &error)
        })
    }

    /// Records that the plan breaks an invariant, and fails the phase for it.
    pub(super) fn fail_violation<T>(
        &self,
        plan: &Plan,
        transition: StageTransition,
        reason: String,
        facts: FailureFacts,
    ) -> Result<T, PlanError> {
        self.record_violation(plan, &reason)?;
        let failure = PhaseFailure::new(FailureCategory::Invariant, reason);
        self.fail(plan, transition, failure.with_facts(facts))
    }

    /// Stores the usage of the plan so far.
    pub(super) fn record_usage(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let id = plan.id;
        self.write(move |unit| plans::record_usage(unit, id))?;
        let plan = self.store.get(id)?;
        self.observer.usage(&plan);
        Ok(plan)
    }
}

/// The category of a failed run.
pub(super) const fn run_category(is_transient: bool) -> FailureCategory {
    if is_transient {
        FailureCategory::Transient
    } else {
        FailureCategory::Failure
    }
}
