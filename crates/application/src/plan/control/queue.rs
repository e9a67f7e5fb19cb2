//! [`PlanQueue`]: plans that another process has to run: any worker, or the server that accepted a request to run them.
//! A server stores the entry before it confirms the request, so that the plan is not lost if the server dies.

use std::sync::Arc;

use cleveragents_domain::{LeaseSubject, Plan, PlanId};
use cleveragents_store::plans::PlanFilter;
use cleveragents_store::{Engine, Error, plans};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lease::LeaseService;
use crate::plan::error::PlanError;
use crate::plan::service::already_finished;
use crate::run::UnknownOutcome;

/// The subject prefix of the lease that proves that a server is alive.
pub const SERVER_LEASE: &str = "server";

/// The options of a queued plan, and the process that must run it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueEntry {
    /// Retry tool calls with unknown outcome.
    pub redo: bool,
    /// Assume that tool calls with unknown outcome were done.
    pub skip: bool,
    /// The server that accepted the plan, and the caller of that server. While the server is alive, no other process
    /// runs the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<ServerClaim>,
}

/// A plan that a server runs for a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerClaim {
    /// The subject of the server's lease.
    pub server: String,
    /// The identity of the caller.
    pub identity: String,
    /// The id of the request, which is unique.
    pub request: String,
}

impl QueueEntry {
    /// The queue entry of a plan, if it is queued.
    pub fn from_plan(plan: &Plan) -> Option<Self> {
        let document = plan.queued_for.clone()?;
        Some(serde_json::from_value(document).unwrap_or_default())
    }

    /// Treatment of tool calls whose outcome is unknown.
    pub const fn unknown_outcome(&self) -> UnknownOutcome {
        match (self.redo, self.skip) {
            (true, _) => UnknownOutcome::Retry,
            (_, true) => UnknownOutcome::AssumeDone,
            _ => UnknownOutcome::Ask,
        }
    }

    fn document(&self) -> Result<Value, PlanError> {
        serde_json::to_value(self)
            .map_err(|error| Error::Internal(format!("a queue entry: {error}")).into())
    }
}

#[derive(Debug, Clone)]
pub struct PlanQueue {
    engine: Arc<Engine>,
}

impl PlanQueue {
    /// Creates the queue of a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Queues a plan, replacing an earlier entry.
    pub fn enqueue(&self, id: PlanId, entry: &QueueEntry) -> Result<(), PlanError> {
        let entry = entry.document()?;
        self.engine.write(move |unit| {
            // The lock prevents other processes from finishing the plan before this transaction ends.
            let plan = plans::locked(unit, id)?.ok_or(PlanError::NotFound(id))?;
            if plan.stage.is_terminal() {
                return Err(already_finished(&plan));
            }
            plans::clear_waiting(unit, id)?;
            Ok(plans::queue(unit, id, Some(&entry))?)
        })
    }

    /// Replaces or removes the queue entry of a plan if the entry still equals `expected`. Returns true if it did.
    pub fn replace_if_equal(
        &self,
        id: PlanId,
        expected: &QueueEntry,
        new: Option<&QueueEntry>,
    ) -> Result<bool, PlanError> {
        let expected = expected.document()?;
        let new = new.map(QueueEntry::document).transpose()?;
        Ok(self.engine.write(move |unit| {
            let plan = plans::locked(unit, id)?;
            let is_expected = plan.is_some_and(|plan| plan.queued_for.as_ref() == Some(&expected));
            if is_expected {
                plans::queue(unit, id, new.as_ref())?;
            }
            Ok::<_, Error>(is_expected)
        })?)
    }

    /// True if the queue entry of a plan equals `entry`.
    pub fn is_queued_as(&self, id: PlanId, entry: &QueueEntry) -> Result<bool, PlanError> {
        let plan = self.engine.read(|reader| plans::get(reader, id))?;
        Ok(plan.is_some_and(|plan| QueueEntry::from_plan(&plan).as_ref() == Some(entry)))
    }

    /// All queued plans.
    pub fn all(&self) -> Result<Vec<(Plan, QueueEntry)>, PlanError> {
        let filter = PlanFilter {
            is_queued: true,
            ..PlanFilter::default()
        };
        let queued = self.engine.read(|reader| plans::list(reader, &filter))?;
        Ok(queued
            .into_iter()
            .filter_map(|plan| QueueEntry::from_plan(&plan).map(|entry| (plan, entry)))
            .collect())
    }

    /// True if a live server has accepted the plan of an entry.
    pub fn is_served(&self, entry: &QueueEntry) -> Result<bool, PlanError> {
        let Some(served) = &entry.served else {
            return Ok(false);
        };
        let subject = LeaseSubject::new(SERVER_LEASE, &served.server);
        let leases = LeaseService::new(Arc::clone(&self.engine));
        Ok(leases.worker(&subject)?.is_some())
    }
}
