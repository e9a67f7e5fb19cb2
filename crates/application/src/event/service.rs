//! [`EventService`]: reading the event log.

use std::sync::Arc;

use cleveragents_domain::{Event, Position};
use cleveragents_store::{Engine, Error, events};

/// Reads the event log. Cheap to clone.
#[derive(Clone)]
pub struct EventService {
    engine: Arc<Engine>,
}

impl EventService {
    /// A service for a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Events after a position, in order.
    pub fn after(&self, position: Position, limit: u64) -> Result<Vec<Event>, Error> {
        self.engine
            .read(|reader| events::after(reader, position, limit))
    }

    /// The position of the newest event. Fails when the database does not respond, so it also serves as a health
    /// check.
    pub fn newest(&self) -> Result<Position, Error> {
        self.engine.read(|reader| events::newest(reader))
    }

    /// Calls `hook` after each unit of work that this process commits. Only the first hook of a database is registered;
    /// returns whether `hook` is the first. Commits of other processes are not reported.
    pub fn on_commit(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.engine.when_written(hook)
    }
}
