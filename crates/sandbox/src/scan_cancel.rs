//! [`ScanCancel`]: cancellation of a scan of a tree, which may contain files of any size.

use std::io;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;

/// Time limit of a scan that starts after the cancellation: changes of a command before it was stopped are
/// recorded, unless that takes long.
const GRACE: Duration = Duration::from_secs(5);

/// Cancellation of a scan. The default never cancels.
#[derive(Debug, Clone, Default)]
pub struct ScanCancel {
    cancel: Option<Cancel>,
    /// Deadline of a scan that started after the cancellation.
    until: Option<Instant>,
}

impl ScanCancel {
    /// For a scan that starts now: it ends as soon as `cancel` is cancelled, or after a few seconds if that has
    /// already happened.
    pub fn on(cancel: &Cancel) -> Self {
        Self {
            until: cancel.is_cancelled().then(|| Instant::now() + GRACE),
            cancel: Some(cancel.clone()),
        }
    }

    /// Whether the scan has to end now.
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
