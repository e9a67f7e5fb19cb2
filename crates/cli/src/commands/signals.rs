//! Ctrl-C and other signals: the first one stops the command; what was done is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::context::Context;
use crate::output::CommandError;

/// Signals that are heeded until this is ended or dropped.
pub(crate) struct Heeded {
    /// Nothing in a server, where nobody's signal is meant for one command.
    handle: Option<Handle>,
    is_come: Arc<AtomicBool>,
}

/// Lets Ctrl-C and its like stop what a command does. In a server its caller or its end does.
pub(crate) fn stop_on_signals(
    context: &Context,
    cancel: &Cancel,
    stop: &CancellationToken,
) -> Result<Heeded, CommandError> {
    let Some(served) = &context.served else {
        return heed_signals(cancel, stop);
    };
    let (cancel, stop) = (cancel.clone(), stop.clone());
    served.cancel.when_cancelled(move || {
        cancel.cancel();
        stop.cancel();
    });
    Ok(Heeded {
        handle: None,
        is_come: Arc::default(),
    })
}

/// Lets Ctrl-C and its like stop what is going on.
pub(crate) fn heed_signals(
    cancel: &Cancel,
    stop: &CancellationToken,
) -> Result<Heeded, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| CommandError::internal("signals cannot be watched").caused_by(&error))?;
    let heeded = Heeded {
        handle: Some(signals.handle()),
        is_come: Arc::default(),
    };
    let is_come = Arc::clone(&heeded.is_come);
    let (cancel, stop) = (cancel.clone(), stop.clone());
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // Before anything ends because of it.
            is_come.store(true, Ordering::SeqCst);
            cancel.cancel();
            stop.cancel();
        }
    });
    Ok(heeded)
}

impl Heeded {
    /// Heeds signals no longer, and says whether one came.
    pub(crate) fn end(self) -> bool {
        self.is_come.load(Ordering::SeqCst)
    }

    /// The same for something that may have failed: what failed behind a signal was interrupted.
    pub(crate) fn conclude<T, E: Into<CommandError>>(
        self,
        outcome: Result<T, E>,
    ) -> Result<T, CommandError> {
        let is_come = self.end();
        outcome.map_err(|error| match error.into() {
            error if is_come => error.interrupted(),
            error => error,
        })
    }
}

impl Drop for Heeded {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}
