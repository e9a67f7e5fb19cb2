//! Start time and duration of a command.

use std::time::{Duration, Instant};

use cleveragents_domain::Timestamp;

/// The clock of one command: started at its beginning, read when its report is printed.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    started: Timestamp,
    elapsed: Clock,
}

#[derive(Debug, Clone, Copy)]
enum Clock {
    Since(Instant),
    Fixed(Duration),
}

impl Timing {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            started: Timestamp::now(),
            elapsed: Clock::Since(Instant::now()),
        }
    }

    /// A fixed clock, for reproducible output.
    pub const fn fixed(started: Timestamp, elapsed: Duration) -> Self {
        Self {
            started,
            elapsed: Clock::Fixed(elapsed),
        }
    }

    /// Start time of the command.
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// Milliseconds since the start.
    pub fn duration_ms(&self) -> u64 {
        let elapsed = match self.elapsed {
            Clock::Since(instant) => instant.elapsed(),
            Clock::Fixed(elapsed) => elapsed,
        };
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}
