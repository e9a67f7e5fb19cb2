//! [`Tasks`]: the tasks that this server works on, and who watches which. What is true is in the database; this is
//! who has to be woken when it changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cleveragents_application::HeldLease;
use cleveragents_domain::{SessionId, TaskId, TaskState};
use cleveragents_process::Cancel;
use cleveragents_store::tasks::{Change, Piece, Task};
use cleveragents_store::{Engine, Error, UnitOfWork, tasks};
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::wire;

/// What a server that was not begun calls itself.
const UNNAMED: &str = "no server";

/// The tasks of this server.
#[derive(Default)]
pub(crate) struct Tasks {
    /// What this server is called in the tasks that it works on: what its lease is for.
    name: OnceLock<String>,
    /// The lease that says that this server lives.
    lease: Mutex<Option<HeldLease>>,
    running: Mutex<HashMap<TaskId, Cancel>>,
    watched: Mutex<HashMap<TaskId, watch::Sender<u64>>>,
    /// One turn at a time in a conversation.
    turns: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Wakes who delivers updates.
    pub(super) undelivered: Notify,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        if let Some(lease) = self.take_lease() {
            // To give it back waits for the database, and this may be a thread that must not wait.
            std::thread::spawn(move || drop(lease));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That a task runs here; over when it is dropped.
pub(super) struct Runs<'a> {
    tasks: &'a Tasks,
    id: TaskId,
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        lock(&self.tasks.running).remove(&self.id);
        // Who watches may have waited for it only because it ran.
        self.tasks.wake(self.id);
    }
}

/// Somebody who watches a task.
pub(super) struct Watching {
    changes: watch::Receiver<u64>,
}

impl Watching {
    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Tasks {
    /// What this server is called in the tasks that it works on.
    pub(crate) fn runner(&self) -> &str {
        self.name.get().map_or(UNNAMED, String::as_str)
    }

    /// From now on this server is alive as long as it holds a lease.
    pub(super) fn hold(&self, lease: HeldLease) {
        // A server is begun once.
        let _first = self.name.set(lease.subject().id.clone());
        *lock(&self.lease) = Some(lease);
    }

    /// Takes the lease, for whoever gives it back.
    pub(super) fn take_lease(&self) -> Option<HeldLease> {
        lock(&self.lease).take()
    }

    /// Notes that a task runs here, stopped by `cancel`.
    pub(super) fn runs(&self, id: TaskId, cancel: &Cancel) -> Runs<'_> {
        lock(&self.running).insert(id, cancel.clone());
        Runs { tasks: self, id }
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
    pub(super) fn watch(&self, id: TaskId) -> Watching {
        let mut watched = lock(&self.watched);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        let sender = watched.entry(id).or_insert_with(|| watch::channel(0).0);
        Watching {
            changes: sender.subscribe(),
        }
    }

    /// The tasks that somebody watches.
    pub(super) fn all_watched(&self) -> Vec<TaskId> {
        let mut watched = lock(&self.watched);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.keys().copied().collect()
    }

    /// Wakes who watches a task, and who delivers updates.
    pub(super) fn wake(&self, id: TaskId) {
        if let Some(sender) = lock(&self.watched).get(&id) {
            sender.send_modify(|count| *count += 1);
        }
        self.undelivered.notify_one();
    }

    /// The turn of a conversation: who has it is alone.
    pub(super) async fn turn(&self, session: SessionId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.turns);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(session).or_default())
        };
        turn.lock_owned().await
    }

    /// Changes the state of a task that this server works on, and says something with it. `None` when it is over
    /// or another server's.
    pub(super) fn change(
        &self,
        engine: &Engine,
        id: TaskId,
        from: &'static [TaskState],
        to: TaskState,
        text: Option<&str>,
    ) -> Result<Option<Task>, Error> {
        let (runner, text) = (self.runner().to_owned(), text.map(str::to_owned));
        let changed = engine.write(move |unit| {
            let Some(task) = tasks::get(unit, id)? else {
                return Ok(None);
            };
            let message = text.as_deref().map(|text| wire::say(&task, text));
            let change = Change {
                from,
                runner: Some(&runner),
                to,
                message: message.as_ref(),
                told: &wire::status_update,
            };
            tasks::change(unit, id, &change)
        })?;
        self.wake(id);
        Ok(changed)
    }

    /// Adds a piece to a result, and with the last one may end the task. `None` when it is over or another
    /// server's.
    pub(super) fn add(
        &self,
        engine: &Engine,
        id: TaskId,
        chunk: Chunk,
        then: Option<TaskState>,
    ) -> Result<Option<Task>, Error> {
        let runner = self.runner().to_owned();
        let added = engine.write(move |unit| chunk.add(unit, &runner, id, then))?;
        self.wake(id);
        Ok(added)
    }
}

/// States in which somebody works on a task.
pub(super) const OPEN: &[TaskState] = &[TaskState::Submitted, TaskState::Working];

/// States that are not over.
pub(super) const NOT_OVER: &[TaskState] = &[
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

/// A piece of a result.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) artifact: Value,
    pub(super) is_appended: bool,
    pub(super) is_last: bool,
}

impl Chunk {
    /// A whole result.
    pub(super) const fn whole(artifact: Value) -> Self {
        Self {
            artifact,
            is_appended: false,
            is_last: true,
        }
    }

    /// Adds this piece, and with the last one may end the task, in a unit of work. `None` when the task is over
    /// or another server's.
    pub(super) fn add(
        &self,
        unit: &mut UnitOfWork<'_>,
        runner: &str,
        id: TaskId,
        then: Option<TaskState>,
    ) -> Result<Option<Task>, Error> {
        let artifact_id = self.artifact.get("artifactId").and_then(Value::as_str);
        let piece = Piece {
            runner,
            artifact_id: artifact_id.unwrap_or("result"),
            whole: &|before| self.onto(before),
            told: &|task| {
                wire::artifact_update(task, &self.artifact, self.is_appended, self.is_last)
            },
        };
        let added = tasks::add_piece(unit, id, &piece)?;
        match (added, then) {
            (Some(_), Some(to)) => {
                let change = Change {
                    from: OPEN,
                    runner: Some(runner),
                    to,
                    message: None,
                    told: &wire::status_update,
                };
                tasks::change(unit, id, &change)
            }
            (added, _) => Ok(added),
        }
    }

    /// The whole result with this piece. Text goes on where text ended.
    fn onto(&self, before: Option<Value>) -> Value {
        let Some(mut before) = before.filter(|_| self.is_appended) else {
            return self.artifact.clone();
        };
        let added = self.artifact.get("parts").and_then(Value::as_array);
        let Some(parts) = before.get_mut("parts").and_then(Value::as_array_mut) else {
            return self.artifact.clone();
        };
        for part in added.into_iter().flatten() {
            match (parts.last_mut().and_then(only_text), part.get("text")) {
                (Some(text), Some(Value::String(more))) => text.push_str(more),
                _ => parts.push(part.clone()),
            }
        }
        before
    }
}

/// The text of a part that is nothing but text.
fn only_text(part: &mut Value) -> Option<&mut String> {
    let fields = part.as_object_mut()?;
    if fields.len() != 1 {
        return None;
    }
    match fields.get_mut("text")? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Chunk;
    use serde_json::json;

    #[test]
    fn pieces_make_one_text() {
        let piece = |text: &str, is_appended| Chunk {
            artifact: json!({"artifactId": "a", "parts": [{"text": text}]}),
            is_appended,
            is_last: false,
        };
        let first = piece("a", false).onto(None);
        let second = piece("b", true).onto(Some(first));
        assert_eq!(
            second,
            json!({"artifactId": "a", "parts": [{"text": "ab"}]})
        );
        let anew = piece("c", false).onto(Some(second.clone()));
        assert_eq!(anew, json!({"artifactId": "a", "parts": [{"text": "c"}]}));
        let mut data = piece("", true);
        data.artifact = json!({"artifactId": "a", "parts": [{"data": 1}]});
        assert_eq!(
            data.onto(Some(second))["parts"],
            json!([{"text": "ab"}, {"data": 1}])
        );
    }
}
