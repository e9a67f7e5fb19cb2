//! The scheduler: limits how many plans run at the same time, and runs queued plans.
//!
//! [`Scheduler`] hands out slots. Each slot is a lease in the database, so that the limit `plan.concurrency` applies
//! across processes and machines. [`Worker`] runs queued plans. Terminal, worker and server all acquire a slot before
//! they run a plan.

mod worker;

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{LeaseSubject, Plan, PlanPhase, PlanStage, Ttl};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, leases};

use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::plan::{DriveOptions, PlanError, PlanFrontEnd, PlanService};
use crate::runtime::AgentRuntime;

pub use worker::{Worker, WorkerEvent, WorkerOptions, WorkerSummary};

/// Poll interval for free slots and queued plans.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Stages in which `plan execute` can run a plan.
pub const EXECUTABLE_STAGES: [PlanStage; 9] = [
    PlanStage::StrategizeQueued,
    PlanStage::StrategizeProcessing,
    PlanStage::StrategizeComplete,
    PlanStage::StrategizeErrored,
    PlanStage::ExecuteQueued,
    PlanStage::ExecuteProcessing,
    PlanStage::ExecuteErrored,
    PlanStage::ApplyConstrained,
    PlanStage::ApplyErrored,
];

/// Stages in which `plan apply` can apply a plan.
pub const APPLICABLE_STAGES: [PlanStage; 5] = [
    PlanStage::ExecuteComplete,
    PlanStage::ApplyQueued,
    PlanStage::ApplyProcessing,
    PlanStage::ApplyConstrained,
    PlanStage::ApplyErrored,
];

/// The phase to run when a plan is executed: `Strategize` if the plan has no strategy yet.
pub const fn phase_to_execute(plan: &Plan) -> PlanPhase {
    match plan.stage {
        PlanStage::StrategizeQueued
        | PlanStage::StrategizeProcessing
        | PlanStage::StrategizeErrored => PlanPhase::Strategize,
        _ => PlanPhase::Execute,
    }
}

/// The phase to run when a plan is resumed.
pub const fn phase_to_resume(plan: &Plan) -> PlanPhase {
    match plan.stage.phase() {
        PlanPhase::Apply => PlanPhase::Apply,
        PlanPhase::Strategize | PlanPhase::Execute => phase_to_execute(plan),
    }
}

/// Hands out the slots in which plans run.
#[derive(Clone)]
pub struct Scheduler {
    engine: Arc<Engine>,
    leases: LeaseService,
    /// Maximum number of plans that run at the same time.
    concurrency: u64,
}

impl Scheduler {
    /// Creates a scheduler for the slots of a database. `concurrency` is the number of slots.
    pub fn new(engine: Arc<Engine>, concurrency: u64) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
            concurrency,
        }
    }

    /// Waits for a slot and runs a plan in the slot.
    pub fn run(
        &self,
        plans: &PlanService,
        plan: &Plan,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Plan, PlanError> {
        let slot = self.wait_for_slot(plan, front_end)?;
        tracing::debug!(plan = %plan.id, slot = %slot.subject(), "slot taken");
        let outcome = plans.drive(plan.id, options, runtime, front_end);
        tracing::debug!(plan = %plan.id, slot = %slot.subject(), "slot freed");
        drop(slot);
        outcome
    }

    fn wait_for_slot(
        &self,
        plan: &Plan,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<HeldLease, PlanError> {
        let mut is_noted = false;
        loop {
            if let Some(slot) = self.free_slot()? {
                return Ok(slot);
            }
            if front_end.cancel.is_cancelled() {
                return Err(PlanError::Stopped {
                    plan: plan.id,
                    is_over: false,
                });
            }
            if !is_noted {
                is_noted = true;
                tracing::info!(plan = %plan.id, concurrency = self.concurrency, "waiting for a slot");
                front_end.observer.note(&format!(
                    "concurrency limit ({}) reached (plan.concurrency); waiting for a slot",
                    self.concurrency
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Acquires a slot; `None` if all slots are in use.
    fn free_slot(&self) -> Result<Option<HeldLease>, LeaseError> {
        for number in 0..self.concurrency {
            match self
                .leases
                .acquire(LeaseSubject::new("plan-slot", number), Ttl::default())
            {
                Ok(slot) => return Ok(Some(slot)),
                Err(LeaseError::Held { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether a live worker uses this database.
    pub fn has_worker(&self) -> Result<bool, PlanError> {
        let active_leases = self.engine.read(|reader| leases::held(reader))?;
        let stale = self.leases.stale()?;
        Ok(active_leases.iter().any(|lease| {
            lease.subject.kind == "worker"
                && !stale.iter().any(|stale| stale.subject == lease.subject)
        }))
    }
}

/// Sleeps for one poll interval, unless already cancelled.
fn pause(cancel: &Cancel) {
    if !cancel.is_cancelled() {
        std::thread::sleep(POLL_INTERVAL);
    }
}
