//! [`PlanQueue`]: plans that wait for another process: for any worker, or for a server that
//! accepted a request to run them. A server stores the entry before it confirms the request, so
//! that the plan is not lost when the server dies.

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

/// Process and options of a queued plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueEntry {
    /// Whether tool calls with unknown outcome are retried.
    pub redo: bool,
    /// Whether tool calls with unknown outcome are assumed done.
    pub skip: bool,
    /// The server that accepted the plan, and its caller. No other process runs the plan while that
    /// server is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<ServerClaim>,
}

/// A plan that a server runs for a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerClaim {
    /// The subject of the lease of the server.
    pub server: String,
    /// The caller.
    pub identity: String,
    /// Unique for each request.
    pub request: String,
}

impl QueueEntry {
    /// The queue entry of a plan, if it is queued.
    pub fn from_plan(plan: &Plan) -> Option<Self> {
        let how = plan.queued_for.clone()?;
        Some(serde_json::from_value(how).unwrap_or_default())
    }

    /// Treatment of calls with unknown outcome.
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
    /// The queued plans of a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Queues a plan, replacing an earlier entry.
    pub fn leave(&self, id: PlanId, how: &QueueEntry) -> Result<(), PlanError> {
        let how = how.document()?;
        self.engine.write(move |unit| {
            // No other process can finish the plan before this transaction ends.
            let plan = plans::locked(unit, id)?.ok_or(PlanError::NotFound(id))?;
            if plan.stage.is_terminal() {
                return Err(already_finished(&plan));
            }
            plans::clear_waiting(unit, id)?;
            Ok(plans::queue(unit, id, Some(&how))?)
        })
    }

    /// Replaces or removes the queue entry of a plan if it is still `was`. Returns whether it was.
    pub fn pass_on(
        &self,
        id: PlanId,
        was: &QueueEntry,
        now: Option<&QueueEntry>,
    ) -> Result<bool, PlanError> {
        let was = was.document()?;
        let now = now.map(QueueEntry::document).transpose()?;
        Ok(self.engine.write(move |unit| {
            let plan = plans::locked(unit, id)?;
            let is_so = plan.is_some_and(|plan| plan.queued_for.as_ref() == Some(&was));
            if is_so {
                plans::queue(unit, id, now.as_ref())?;
            }
            Ok::<_, Error>(is_so)
        })?)
    }

    /// Whether the queue entry of a plan is still `how`.
    pub fn is_queued_as(&self, id: PlanId, how: &QueueEntry) -> Result<bool, PlanError> {
        let plan = self.engine.read(|reader| plans::get(reader, id))?;
        Ok(plan.is_some_and(|plan| QueueEntry::from_plan(&plan).as_ref() == Some(how)))
    }

    /// All queued plans.
    pub fn all(&self) -> Result<Vec<(Plan, QueueEntry)>, PlanError> {
        let filter = PlanFilter {
            is_queued: true,
            ..PlanFilter::default()
        };
        let found = self.engine.read(|reader| plans::list(reader, &filter))?;
        Ok(found
            .into_iter()
            .filter_map(|plan| QueueEntry::from_plan(&plan).map(|how| (plan, how)))
            .collect())
    }

    /// Whether a live server has accepted a plan.
    pub fn is_served(&self, how: &QueueEntry) -> Result<bool, PlanError> {
        let Some(served) = &how.served else {
            return Ok(false);
        };
        let subject = LeaseSubject::new(SERVER_LEASE, &served.server);
        let leases = LeaseService::new(Arc::clone(&self.engine));
        Ok(leases.worker(&subject)?.is_some())
    }
}
