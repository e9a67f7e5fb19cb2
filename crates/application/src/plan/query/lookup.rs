//! [`PlanLookup`]: rows of plans, for callers that need neither their sandboxes nor their steps.

use std::sync::Arc;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{Plan, PlanId};
use cleveragents_store::plans::{self, ListedPlan};
use cleveragents_store::{Engine, Error};

/// Looks up plans. Cheap to clone.
#[derive(Clone)]
pub struct PlanLookup {
    engine: Arc<Engine>,
}

impl PlanLookup {
    /// Creates a lookup on a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The plan with this id, if any.
    pub fn get(&self, id: PlanId) -> Result<Option<Plan>, Error> {
        self.engine.read(|reader| plans::get(reader, id))
    }

    pub fn namespace(&self, id: PlanId) -> Result<Option<String>, Error> {
        self.engine.read(|reader| plans::namespace(reader, id))
    }

    /// Plans in `namespaces` older than `before`, newest first.
    pub fn page(
        &self,
        namespaces: &Namespaces,
        before: Option<PlanId>,
        limit: u64,
    ) -> Result<Vec<ListedPlan>, Error> {
        self.engine
            .read(|reader| plans::page(reader, namespaces, before, limit))
    }
}
