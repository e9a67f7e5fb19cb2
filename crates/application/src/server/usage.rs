//! [`UsageService`]: usage counts of plans, actors, tools and sandboxes, for monitoring.

use std::sync::Arc;

use cleveragents_store::usage_metrics::{self, UsageMetrics};
use cleveragents_store::{Engine, Error};

/// Computes usage counts.
#[derive(Clone)]
pub struct UsageService {
    engine: Arc<Engine>,
}

impl UsageService {
    /// A service for a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Counts everything recorded so far. The cost grows with the number of records.
    pub fn metrics(&self) -> Result<UsageMetrics, Error> {
        self.engine.read(|reader| usage_metrics::gather(reader))
    }
}
