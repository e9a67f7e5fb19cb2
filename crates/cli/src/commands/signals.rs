//! Ctrl-C and other signals: the first one stops the command; finished work is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::output::CommandError;

/// Installed signal handlers; `end`, `conclude` or a drop removes them.
pub(crate) struct SignalGuard {
    handle: Handle,
    was_received: Arc<AtomicBool>,
}

/// Cancels the running operation on Ctrl-C and other termination signals.
pub(crate) fn stop_on_signals(
    cancel: &Cancel,
    stop: &CancellationToken,
) -> Result<SignalGuard, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
        CommandError::internal("signal handlers cannot be installed").caused_by(&error)
    })?;
    let guard = SignalGuard {
        handle: signals.handle(),
        was_received: Arc::default(),
    };
    let was_received = Arc::clone(&guard.was_received);
    let (cancel, stop) = (cancel.clone(), stop.clone());
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // Set before the cancellation, so that it is already set when the cancelled operation returns.
            was_received.store(true, Ordering::SeqCst);
            cancel.cancel();
            stop.cancel();
        }
    });
    Ok(guard)
}

impl SignalGuard {
    /// Removes the handlers, and returns whether a signal arrived.
    pub(crate) fn end(self) -> bool {
        self.was_received.load(Ordering::SeqCst)
    }

    /// Removes the handlers and returns `outcome`; a failure after a signal becomes an interruption.
    pub(crate) fn conclude<T, E: Into<CommandError>>(
        self,
        outcome: Result<T, E>,
    ) -> Result<T, CommandError> {
        let was_received = self.end();
        outcome.map_err(|error| match error.into() {
            error if was_received => error.interrupted(),
            error => error,
        })
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.handle.close();
    }
}
