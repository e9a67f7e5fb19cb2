//! [`UsageService`]: what plans, actors, tools and sandboxes did, for monitoring.

use std::sync::Arc;

use cleveragents_store::usage_metrics::{self, UsageMetrics};
use cleveragents_store::{Engine, Error};

/// Counts what was done.
#[derive(Clone)]
pub struct UsageService {
    engine: Arc<Engine>,
}

impl UsageService {
    /// A service on a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Counts what was done so far. Takes longer the more there is.
    pub fn metrics(&self) -> Result<UsageMetrics, Error> {
        self.engine.read(|reader| usage_metrics::gather(reader))
    }
}
