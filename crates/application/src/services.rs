//! [`Services`]: the services of a database, for a front end that acts for many callers.

use std::sync::Arc;

use cleveragents_store::Engine;

use crate::event::{EventScope, EventService};
use crate::lease::LeaseService;
use crate::plan::{PlanLookup, PlanQueue};
use crate::server::{AuditService, RequestKeyService, TokenService, UsageService};
use crate::session::{AppendResponder, BatchAppender, SessionService};
use crate::task::TaskService;

/// The services of a database, acting as one identity. Cheap to clone.
///
/// A front end holds this instead of the engine, so that it cannot open units of work.
#[derive(Clone)]
pub struct Services {
    engine: Arc<Engine>,
}

impl Services {
    /// The services of a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// These services with another identity.
    #[must_use]
    pub fn acting_as(&self, identity: &str) -> Self {
        Self::new(self.engine.acting_as(identity))
    }

    /// The identity that is recorded with all changes.
    pub fn identity(&self) -> &str {
        self.engine.identity()
    }

    /// Conversations, with a maximum message size of `max_content_bytes`.
    pub fn sessions(&self, max_content_bytes: usize) -> SessionService {
        SessionService::new(self.engine(), max_content_bytes)
    }

    /// Appends messages to conversations in batches.
    pub fn appender(&self, responder: AppendResponder) -> BatchAppender {
        BatchAppender::new(self.engine(), responder)
    }

    /// Tasks of other agents.
    pub fn tasks(&self) -> TaskService {
        TaskService::new(self.engine())
    }

    /// Rows of plans.
    pub fn plans(&self) -> PlanLookup {
        PlanLookup::new(self.engine())
    }

    /// Plans that wait for servers and workers.
    pub fn plan_queue(&self) -> PlanQueue {
        PlanQueue::new(self.engine())
    }

    /// The event log.
    pub fn events(&self) -> EventService {
        EventService::new(self.engine())
    }

    /// Finds the namespaces of events.
    pub fn event_scope(&self) -> EventScope {
        EventScope::new(self.engine())
    }

    pub fn leases(&self) -> LeaseService {
        LeaseService::new(self.engine())
    }

    /// Tokens of callers.
    pub fn tokens(&self) -> TokenService {
        TokenService::new(self.engine())
    }

    /// The audit log.
    pub fn audit(&self) -> AuditService {
        AuditService::new(self.engine())
    }

    /// Idempotency keys.
    pub fn request_keys(&self) -> RequestKeyService {
        RequestKeyService::new(self.engine())
    }

    /// Usage metrics.
    pub fn usage(&self) -> UsageService {
        UsageService::new(self.engine())
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }
}
