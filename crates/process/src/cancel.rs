//! [`Cancel`]: how others stop a running command, or pass a signal on to it.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stops commands, and passes signals on to them. Clones are the same handle. One handle may serve
/// several commands at a time; after [`cancel`](Self::cancel) later ones are not begun.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    listeners: Mutex<Vec<Arc<Mailbox>>>,
}

#[derive(Debug)]
struct Mailbox {
    bell: OwnedFd,
    signals: Mutex<Vec<i32>>,
}

impl Mailbox {
    fn ring(&self) {
        // A full counter has rung already, so the error says nothing new.
        let _unless_full = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// One running command's end of a [`Cancel`].
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
}

impl Cancel {
    /// A handle that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Kills the commands that run with this handle; later ones end before they begin.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        for mailbox in lock(&self.shared.listeners).iter() {
            mailbox.ring();
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Passes a signal on to the commands that run with this handle now: to their process group
    /// where they have one of their own. A number that names no signal does nothing.
    pub fn signal(&self, number: i32) {
        for mailbox in lock(&self.shared.listeners).iter() {
            lock(&mailbox.signals).push(number);
            mailbox.ring();
        }
    }

    pub(crate) fn listen(&self) -> io::Result<Listener> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox {
            bell,
            signals: Mutex::default(),
        });
        lock(&self.shared.listeners).push(Arc::clone(&mailbox));
        Ok(Listener {
            shared: Arc::clone(&self.shared),
            mailbox,
        })
    }
}

impl Listener {
    /// Whether the command is to be killed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// The signals to pass on since the last call; silences the bell.
    pub(crate) fn take_signals(&self) -> Vec<i32> {
        let _unless_silent = rustix::io::read(&self.mailbox.bell, &mut [0_u8; 8]);
        std::mem::take(&mut *lock(&self.mailbox.signals))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.bell.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.shared.listeners).retain(|other| !Arc::ptr_eq(other, &self.mailbox));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
