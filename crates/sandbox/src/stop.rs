//! [`Stop`]: when a look at a tree has to end before it is done. Trees may hold files of any size.

use std::io;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;

/// How long a look may take that begins when work was cancelled already: what a command changed before it
/// was stopped is recorded, unless that takes long.
const GRACE: Duration = Duration::from_secs(5);

/// When a look at a tree has to end. The default never ends it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    cancel: Option<Cancel>,
    /// Cancelled before it began, it may go on until then.
    until: Option<Instant>,
}

impl Stop {
    /// For a look that begins now: it ends as soon as `cancel` is cancelled, or after a few seconds when that
    /// is the case already.
    pub fn on(cancel: &Cancel) -> Self {
        Self {
            until: cancel.is_cancelled().then(|| Instant::now() + GRACE),
            cancel: Some(cancel.clone()),
        }
    }

    /// Whether it has to end now.
    pub(crate) fn is_due(&self) -> bool {
        match (&self.cancel, self.until) {
            (None, _) => false,
            (Some(_), Some(until)) => Instant::now() >= until,
            (Some(cancel), None) => cancel.is_cancelled(),
        }
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_due() {
            // Not `Interrupted`, after which readers try again.
            return Err(io::Error::other("interrupted"));
        }
        Ok(())
    }
}
