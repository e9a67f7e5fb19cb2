//! [`Stopper`]: what signals do in a chat.
//!
//! While a turn runs, Ctrl-C stops it and the chat goes on; at the prompt Ctrl-C is a key like others. What
//! is to end the program ends it after the turn, or at once when none runs, and leaves the terminal as it
//! was.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::output::CommandError;

/// Stops what runs.
pub(super) struct Stopper {
    shared: Arc<Shared>,
    handle: Handle,
}

struct Shared {
    running: Mutex<Option<(Cancel, CancellationToken)>>,
    is_leaving: AtomicBool,
    /// Whether Ctrl-C stops only the turn.
    is_talk: bool,
    /// The terminal before a line editor changed it.
    terminal: Option<Termios>,
}

/// Something that signals stop until this is dropped.
pub(super) struct Running {
    pub(super) cancel: Cancel,
    pub(super) stop: CancellationToken,
    shared: Arc<Shared>,
}

impl Stopper {
    /// Watches signals; in a talk Ctrl-C stops the turn alone.
    pub(super) fn watch(is_talk: bool) -> Result<Self, CommandError> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
            CommandError::internal("signals cannot be watched").caused_by(&error)
        })?;
        let shared = Arc::new(Shared {
            running: Mutex::default(),
            is_leaving: AtomicBool::new(false),
            is_talk,
            terminal: tcgetattr(std::io::stdin().as_fd()).ok(),
        });
        let handle = signals.handle();
        let watched = Arc::clone(&shared);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                watched.heed(signal);
            }
        });
        Ok(Self { shared, handle })
    }

    /// Something begins that signals are to stop.
    pub(super) fn begin(&self) -> Running {
        let running = Running {
            cancel: Cancel::new(),
            stop: CancellationToken::new(),
            shared: Arc::clone(&self.shared),
        };
        *self.shared.running() = Some((running.cancel.clone(), running.stop.clone()));
        running
    }

    /// Whether a signal asked for the end of the program.
    pub(super) fn is_leaving(&self) -> bool {
        self.shared.is_leaving.load(Ordering::SeqCst)
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.shared.running() = None;
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Option<(Cancel, CancellationToken)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heed(&self, signal: i32) {
        let stops_only = signal == SIGINT && self.is_talk;
        if !stops_only {
            self.is_leaving.store(true, Ordering::SeqCst);
        }
        let running = self.running();
        if let Some((cancel, stop)) = &*running {
            cancel.cancel();
            stop.cancel();
        } else if !stops_only {
            if let Some(terminal) = &self.terminal {
                let stdin = std::io::stdin();
                // A terminal that is gone needs nothing.
                let _gone = tcsetattr(stdin.as_fd(), OptionalActions::Now, terminal);
            }
            // Everything is stored already; when this fails the next signal tries again.
            let _ended = emulate_default_handler(signal);
        }
    }
}
