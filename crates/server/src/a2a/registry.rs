//! [`TaskRegistry`]: the tasks that this server runs, and which tasks have subscribers. The database stores the tasks;
//! the registry wakes subscribers on changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cleveragents_application::HeldLease;
use cleveragents_domain::{SessionId, TaskId};
use cleveragents_process::Cancel;
use tokio::sync::{Notify, watch};

/// The name of a server that was not started.
const UNNAMED: &str = "no server";

/// The tasks of this server.
#[derive(Default)]
pub(crate) struct TaskRegistry {
    /// The name of this server in the tasks that it works on: the id of its lease.
    name: OnceLock<String>,
    /// The lease that shows that this server is alive.
    lease: Mutex<Option<HeldLease>>,
    running: Mutex<HashMap<TaskId, Cancel>>,
    watched: Mutex<HashMap<TaskId, watch::Sender<u64>>>,
    /// One turn at a time in a conversation.
    turns: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Wakes the delivery of push notifications.
    pub(super) updated: Notify,
}

impl Drop for TaskRegistry {
    fn drop(&mut self) {
        if let Some(lease) = self.take_lease() {
            // Releasing it waits for the database, and this may be a thread that must not wait.
            std::thread::spawn(move || drop(lease));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a task as running here until it is dropped.
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
    /// The name of this server in the tasks that it works on.
    pub(crate) fn runner(&self) -> &str {
        self.name.get().map_or(UNNAMED, String::as_str)
    }

    /// Names this server after its lease. It is alive as long as it holds the lease.
    pub(super) fn hold(&self, lease: HeldLease) {
        // A server is started once.
        let _first = self.name.set(lease.subject().id.clone());
        *lock(&self.lease) = Some(lease);
    }

    /// Takes the lease, to release it.
    pub(super) fn take_lease(&self) -> Option<HeldLease> {
        lock(&self.lease).take()
    }

    /// Marks a task as running here; `cancel` stops it.
    pub(super) fn start(&self, id: TaskId, cancel: &Cancel) -> RunningTask<'_> {
        lock(&self.running).insert(id, cancel.clone());
        RunningTask { registry: self, id }
    }

    /// Whether a task runs here.
    pub(super) fn is_running(&self, id: TaskId) -> bool {
        lock(&self.running).contains_key(&id)
    }

    /// The tasks that run here.
    pub(super) fn all_running(&self) -> Vec<TaskId> {
        lock(&self.running).keys().copied().collect()
    }

    /// Stops a task if it runs here.
    pub(super) fn stop(&self, id: TaskId) {
        if let Some(cancel) = lock(&self.running).get(&id) {
            cancel.cancel();
        }
    }

    /// Watches a task. Every change after this is noticed.
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

    /// Waits until no other turn of a conversation runs here, and keeps others waiting until the guard is dropped.
    pub(super) async fn turn(&self, session: SessionId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.turns);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(session).or_default())
        };
        turn.lock_owned().await
    }
}
