//! [`Cancel`]: a handle to stop a running command, or to forward a signal to it.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Stops commands, and forwards signals to them. Clones share one state. A handle may serve several concurrent
/// commands; after [`cancel`](Self::cancel) it starts no further commands.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    cancelled: AtomicBool,
    listeners: Mutex<Vec<Arc<Mailbox>>>,
    children: Mutex<Vec<Weak<Self>>>,
    hooks: Mutex<CancelHooks>,
}

/// Functions called when a handle is cancelled.
#[derive(Default)]
struct CancelHooks(Vec<Box<dyn FnOnce() + Send>>);

impl std::fmt::Debug for CancelHooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} hooks", self.0.len())
    }
}

impl CancelState {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        for mailbox in lock(&self.listeners).iter() {
            mailbox.notify();
        }
        for child in self.living() {
            child.cancel();
        }
        let hooks = std::mem::take(&mut lock(&self.hooks).0);
        for hook in hooks {
            hook();
        }
    }

    fn signal(&self, number: i32) {
        for mailbox in lock(&self.listeners).iter() {
            lock(&mailbox.signals).push(number);
            mailbox.notify();
        }
        for child in self.living() {
            child.signal(number);
        }
    }

    fn living(&self) -> Vec<Arc<Self>> {
        lock(&self.children)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

#[derive(Debug)]
struct Mailbox {
    bell: OwnedFd,
    signals: Mutex<Vec<i32>>,
}

impl Mailbox {
    fn notify(&self) {
        // The write fails only if the counter is full; then the listener is woken anyway.
        let _unless_full = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// The part of a [`Cancel`] that a running command watches.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<CancelState>,
    mailbox: Arc<Mailbox>,
}

impl Cancel {
    /// Creates an uncancelled handle.
    pub fn new() -> Self {
        Self::default()
    }

    /// Kills the commands that run with this handle. Commands run with it later return as cancelled without starting.
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    /// Creates a handle that is cancelled when this handle is, and receives its signals, but can also be cancelled
    /// alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        {
            let mut children = lock(&self.shared.children);
            children.retain(|other| other.strong_count() > 0);
            children.push(Arc::downgrade(&child.shared));
        }
        // `cancel` sets the flag before it looks for children, so one of the two sees the other.
        if self.is_cancelled() {
            child.cancel();
        }
        child
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Calls `hook` when this handle is cancelled, or immediately if it already is. The hook must be quick and must not
    /// block.
    pub fn when_cancelled(&self, hook: impl FnOnce() + Send + 'static) {
        lock(&self.shared.hooks).0.push(Box::new(hook));
        // `cancel` sets the flag before it takes the hooks, so one of the two calls the hook.
        if self.is_cancelled() {
            let hooks = std::mem::take(&mut lock(&self.shared.hooks).0);
            for hook in hooks {
                hook();
            }
        }
    }

    /// Forwards a signal to the commands that currently run with this handle: to a command's process group if it has
    /// its own, otherwise to the command. Ignores invalid signal numbers.
    pub fn signal(&self, number: i32) {
        self.shared.signal(number);
    }

    /// Whether at least one command that a signal would reach currently runs with this handle.
    pub fn reaches_command(&self) -> bool {
        !lock(&self.shared.listeners).is_empty()
            || self
                .shared
                .living()
                .iter()
                .any(|child| !lock(&child.listeners).is_empty())
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
    /// Whether the handle was cancelled, so that the command has to be killed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Returns the signals requested since the last call, which are to be forwarded; resets the event counter.
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

#[cfg(test)]
mod tests {
    use super::Cancel;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_child_is_cancelled_with_its_parent_and_never_the_other_way() {
        let parent = Cancel::new();
        let (first, second) = (parent.child(), parent.child());
        let grandchild = first.child();

        second.cancel();
        assert!(second.is_cancelled());
        assert!(!parent.is_cancelled() && !first.is_cancelled());

        parent.cancel();
        assert!(first.is_cancelled() && grandchild.is_cancelled());
        assert!(
            parent.child().is_cancelled(),
            "a child created after the cancel"
        );
    }

    #[test]
    fn signals_reach_commands_of_children() {
        let parent = Cancel::new();
        let child = parent.child();
        let listener = child.listen().expect("an event descriptor");

        parent.signal(15);

        assert_eq!(listener.take_signals(), [15]);
    }

    #[test]
    fn cancel_hooks_are_called_once() {
        let (parent, calls) = (Cancel::new(), Arc::new(AtomicU32::new(0)));
        let count = |calls: &Arc<AtomicU32>| {
            let calls = Arc::clone(calls);
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        let child = parent.child();
        child.when_cancelled(count(&calls));
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        parent.cancel();
        parent.cancel();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        child.when_cancelled(count(&calls));
        assert_eq!(
            calls.load(Ordering::SeqCst),
            2,
            "a hook added after the cancel"
        );
    }

    #[test]
    fn dropped_children_are_forgotten() {
        let parent = Cancel::new();
        for _ in 0..1_000 {
            drop(parent.child());
        }
        assert!(super::lock(&parent.shared.children).len() <= 1);
    }
}
