//! [`Stopper`]: signal handling of a chat.
//!
//! While a turn runs, Ctrl-C stops it and the chat continues; at the prompt, Ctrl-C is an ordinary
//! key. Other termination signals end the program after the turn, or at once if no turn runs, and
//! restore the terminal.

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

/// Cancels the running turn on signals.
pub(super) struct Stopper {
    shared: Arc<SignalTarget>,
    handle: Handle,
}

struct SignalTarget {
    running: Mutex<Option<(Cancel, CancellationToken)>>,
    is_leaving: AtomicBool,
    /// Whether Ctrl-C stops only the turn, not the chat.
    is_interactive: bool,
    /// Terminal settings from before the line editor changed them.
    terminal: Option<Termios>,
}

/// Guard of a running operation. Signals cancel the operation until the guard is dropped.
pub(super) struct RunningOperation {
    pub(super) cancel: Cancel,
    pub(super) stop: CancellationToken,
    shared: Arc<SignalTarget>,
}

impl Stopper {
    /// Watches signals. If `is_interactive`, Ctrl-C stops only the turn, not the chat.
    pub(super) fn watch(is_interactive: bool) -> Result<Self, CommandError> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
            CommandError::internal("signal handlers cannot be installed").caused_by(&error)
        })?;
        let shared = Arc::new(SignalTarget {
            running: Mutex::default(),
            is_leaving: AtomicBool::new(false),
            is_interactive,
            terminal: tcgetattr(std::io::stdin().as_fd()).ok(),
        });
        let handle = signals.handle();
        let target = Arc::clone(&shared);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                target.handle_signal(signal);
            }
        });
        Ok(Self { shared, handle })
    }

    /// Registers an operation. Signals cancel it until the returned guard is dropped.
    pub(super) fn begin(&self) -> RunningOperation {
        let running = RunningOperation {
            cancel: Cancel::new(),
            stop: CancellationToken::new(),
            shared: Arc::clone(&self.shared),
        };
        *self.shared.running() = Some((running.cancel.clone(), running.stop.clone()));
        running
    }

    /// Whether a signal requested the end of the program.
    pub(super) fn is_leaving(&self) -> bool {
        self.shared.is_leaving.load(Ordering::SeqCst)
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl Drop for RunningOperation {
    fn drop(&mut self) {
        *self.shared.running() = None;
    }
}

impl SignalTarget {
    fn running(&self) -> MutexGuard<'_, Option<(Cancel, CancellationToken)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle_signal(&self, signal: i32) {
        let stops_only = signal == SIGINT && self.is_interactive;
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
                // A closed terminal needs no reset.
                let _gone = tcsetattr(stdin.as_fd(), OptionalActions::Now, terminal);
            }
            // All data is stored already. If this call fails, the next signal repeats it.
            let _ended = emulate_default_handler(signal);
        }
    }
}
