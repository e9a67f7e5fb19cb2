//! [`Scheduler`]: limits how many plans run at the same time.
//!
//! Each slot is a lease in the database, so that the limit `plan.concurrency` applies across processes and machines.
//! Terminal, worker and server all acquire a slot before they run a plan.

use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::{LeaseSubject, Plan, Ttl};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, leases};

use super::POLL_INTERVAL;
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::plan::{DriveOptions, PlanError, PlanFrontEnd, PlanService};
use crate::runtime::AgentRuntime;

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
        let slot = PlanSlot::new(self.clone(), self.wait_for_slot(plan, front_end)?);
        plans.drive_in_slot(plan.id, options, runtime, front_end, Some(&slot))
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
    pub(super) fn free_slot(&self) -> Result<Option<HeldLease>, LeaseError> {
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

/// The slot in which a plan runs. A plan releases its slot while it waits for its child plans, so that plans of
/// any depth run with a concurrency of 1.
pub(crate) struct PlanSlot {
    scheduler: Scheduler,
    held: Mutex<Option<HeldLease>>,
}

impl PlanSlot {
    pub(super) const fn new(scheduler: Scheduler, slot: HeldLease) -> Self {
        Self {
            scheduler,
            held: Mutex::new(Some(slot)),
        }
    }

    /// Waits for a slot for another plan.
    pub(crate) fn another(
        &self,
        plan: &Plan,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Self, PlanError> {
        let slot = self.scheduler.wait_for_slot(plan, front_end)?;
        Ok(Self::new(self.scheduler.clone(), slot))
    }

    pub(crate) fn release(&self) {
        let slot = self.held().take();
        drop(slot);
    }

    /// Waits for a slot again.
    pub(crate) fn acquire(
        &self,
        plan: &Plan,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<(), PlanError> {
        let slot = self.scheduler.wait_for_slot(plan, front_end)?;
        *self.held() = Some(slot);
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<HeldLease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps for one poll interval, unless already cancelled.
pub(super) fn pause(cancel: &Cancel) {
    if !cancel.is_cancelled() {
        std::thread::sleep(POLL_INTERVAL);
    }
}
