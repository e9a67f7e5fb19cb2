//! [`ScanCancel`]: cancellation of a scan of a tree, which may contain files of any size.

use std::io;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;

/// Time limit of a scan that starts after the cancellation, so that the changes of a cancelled command are recorded
/// unless that takes long.
const GRACE: Duration = Duration::from_secs(5);

/// Cancellation of a scan. The default never cancels.
#[derive(Debug, Clone, Default)]
pub struct ScanCancel {
    cancel: Option<Cancel>,
    /// Deadline of a scan that started after the cancellation.
    deadline: Option<Instant>,
}

impl ScanCancel {
    /// Creates the cancellation of a scan that starts now. The scan ends when `cancel` is cancelled; if it is cancelled
    /// already, after 5 seconds.
    pub fn on(cancel: &Cancel) -> Self {
        Self {
            deadline: cancel.is_cancelled().then(|| Instant::now() + GRACE),
            cancel: Some(cancel.clone()),
        }
    }

    /// Whether the scan must end now.
    pub(crate) fn is_due(&self) -> bool {
        match (&self.cancel, self.deadline) {
            (None, _) => false,
            (Some(_), Some(deadline)) => Instant::now() >= deadline,
            (Some(cancel), None) => cancel.is_cancelled(),
        }
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_due() {
            // Not `Interrupted`, because readers retry after that.
            return Err(io::Error::other("interrupted"));
        }
        Ok(())
    }
}
