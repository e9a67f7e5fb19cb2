//! When a command began and how long it took.

use std::time::{Duration, Instant};

use cleveragents_domain::Timestamp;

/// The clock of one command: started at its beginning, read when its report is printed.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    started: Timestamp,
    elapsed: Elapsed,
}

#[derive(Debug, Clone, Copy)]
enum Elapsed {
    Since(Instant),
    Fixed(Duration),
}

impl Timing {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            started: Timestamp::now(),
            elapsed: Elapsed::Since(Instant::now()),
        }
    }

    /// A clock that stands still, for output that must be the same each time.
    pub const fn fixed(started: Timestamp, elapsed: Duration) -> Self {
        Self {
            started,
            elapsed: Elapsed::Fixed(elapsed),
        }
    }

    /// When the command began.
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// Whole milliseconds from the beginning until now.
    pub fn duration_ms(&self) -> u64 {
        let elapsed = match self.elapsed {
            Elapsed::Since(instant) => instant.elapsed(),
            Elapsed::Fixed(elapsed) => elapsed,
        };
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}
