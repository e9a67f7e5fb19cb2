//! [`PlanStore`]: reads and writes the rows of plans, and acquires their leases.

use std::sync::Arc;

use cleveragents_domain::{LeaseSubject, Plan, PlanId, Ttl};
use cleveragents_store::{Engine, Error, Reader, UnitOfWork, leases, plans};

use super::error::PlanError;
use crate::lease::{HeldLease, LeaseError, LeaseService};

/// Rows of plans and their leases. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanStore {
    engine: Arc<Engine>,
    leases: LeaseService,
}

impl PlanStore {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
        }
    }

    pub(super) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(super) fn get(&self, id: PlanId) -> Result<Plan, PlanError> {
        self.engine
            .read(|reader| plans::get(reader, id))?
            .ok_or(PlanError::NotFound(id))
    }

    /// Acquires the lease of a plan. If another process holds the lease, [`PlanError::Busy`] names that process.
    pub(super) fn acquire(&self, id: PlanId) -> Result<HeldLease, PlanError> {
        match self.leases.acquire(subject(id), Ttl::default()) {
            Err(LeaseError::Held { owner, .. }) => Err(PlanError::Busy {
                plan: id,
                owner: owner.to_string(),
            }),
            other => Ok(other?),
        }
    }

    /// The process that currently runs a plan.
    pub(super) fn owner(&self, id: PlanId) -> Result<Option<String>, PlanError> {
        let worker = self.leases.worker(&subject(id))?;
        Ok(worker.map(|lease| lease.owner.to_string()))
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&mut dyn Reader) -> Result<T, Error>,
    ) -> Result<T, PlanError> {
        Ok(self.engine.read(work)?)
    }

    /// Writes without the lease: for changes that any process may make at any time.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, PlanError> + Send + 'static,
    ) -> Result<T, PlanError> {
        self.engine.write(work)
    }

    /// Writes under the lease of a plan: the write fails if the process lost the lease.
    pub(super) fn write_leased<T: Send + 'static>(
        &self,
        lease: &HeldLease,
        mut work: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, PlanError> + Send + 'static,
    ) -> Result<T, PlanError> {
        let (subject, token) = (lease.subject().clone(), lease.token());
        self.engine.write(move |unit| {
            leases::require(unit, &subject, token)?;
            work(unit)
        })
    }
}

/// The subject of the lease of a plan.
pub(super) fn subject(plan: PlanId) -> LeaseSubject {
    LeaseSubject::new("plan", plan)
}
