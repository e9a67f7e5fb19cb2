//! [`TaskRegistry`]: the tasks that this server runs, and which tasks have subscribers. The database stores the tasks;
//! the registry wakes subscribers on changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cleveragents_application::HeldLease;
use cleveragents_domain::{SessionId, TaskId};
use cleveragents_process::Cancel;
use tokio::sync::{Notify, watch};

use super::turn_queue::{TurnPlace, TurnQueue};

/// The name of a server that was not started.
const UNNAMED: &str = "no server";

/// The tasks of this server.
#[derive(Default)]
pub(crate) struct TaskRegistry {
    /// Name of this server as the runner of tasks: the id of its lease.
    name: OnceLock<String>,
    /// The lease that proves that this server is alive.
    lease: Mutex<Option<HeldLease>>,
    running: Mutex<HashMap<TaskId, Cancel>>,
    watched: Mutex<HashMap<TaskId, watch::Sender<u64>>>,
    turns: Arc<TurnQueue>,
    /// Wakes the delivery of push notifications.
    pub(super) updated: Notify,
}

impl Drop for TaskRegistry {
    fn drop(&mut self) {
        if let Some(lease) = self.take_lease() {
            // Releasing the lease blocks on the database, and this may be a thread that must not block.
            std::thread::spawn(move || drop(lease));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a task as running on this server until the guard is dropped.
pub(super) struct RunningTask<'a> {
    registry: &'a TaskRegistry,
    id: TaskId,
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        lock(&self.registry.running).remove(&self.id);
        // Some subscribers wait only for the task to stop running.
        self.registry.wake(self.id);
    }
}

/// A subscriber of a task.
pub(super) struct TaskWatch {
    changes: watch::Receiver<u64>,
}

impl TaskWatch {
    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl TaskRegistry {
    /// Name of this server as the runner of tasks.
    pub(crate) fn runner(&self) -> &str {
        self.name.get().map_or(UNNAMED, String::as_str)
    }

    /// Stores the lease, and names this server after it. The server counts as alive while it holds the lease.
    pub(super) fn hold(&self, lease: HeldLease) {
        // The name is set once, because a server starts only once.
        let _first = self.name.set(lease.subject().id.clone());
        *lock(&self.lease) = Some(lease);
    }

    /// Removes and returns the lease, so that the caller can release it.
    pub(super) fn take_lease(&self) -> Option<HeldLease> {
        lock(&self.lease).take()
    }

    /// Marks a task as running on this server; `cancel` stops it.
    pub(super) fn start(&self, id: TaskId, cancel: &Cancel) -> RunningTask<'_> {
        lock(&self.running).insert(id, cancel.clone());
        RunningTask { registry: self, id }
    }

    /// True if this server runs a task.
    pub(super) fn is_running(&self, id: TaskId) -> bool {
        lock(&self.running).contains_key(&id)
    }

    /// The tasks that this server runs.
    pub(super) fn all_running(&self) -> Vec<TaskId> {
        lock(&self.running).keys().copied().collect()
    }

    /// Stops a task if this server runs it.
    pub(super) fn stop(&self, id: TaskId) {
        if let Some(cancel) = lock(&self.running).get(&id) {
            cancel.cancel();
        }
    }

    /// Subscribes to a task. The subscriber misses no later change.
    pub(super) fn watch(&self, id: TaskId) -> TaskWatch {
        let mut watched = lock(&self.watched);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        let sender = watched.entry(id).or_insert_with(|| watch::channel(0).0);
        TaskWatch {
            changes: sender.subscribe(),
        }
    }

    /// The tasks with subscribers.
    pub(super) fn all_watched(&self) -> Vec<TaskId> {
        let mut watched = lock(&self.watched);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.keys().copied().collect()
    }

    /// Wakes the subscribers of a task, and the delivery of push notifications.
    pub(super) fn wake(&self, id: TaskId) {
        if let Some(sender) = lock(&self.watched).get(&id) {
            sender.send_modify(|count| *count += 1);
        }
        self.updated.notify_one();
    }

    /// Takes the next place in the queue of a conversation's turns.
    pub(super) fn enter_queue(&self, session: SessionId) -> TurnPlace {
        self.turns.enter(session)
    }
}
