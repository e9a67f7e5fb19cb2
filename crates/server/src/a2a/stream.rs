//! [`Updates`]: the updates of a task as they come, for whoever subscribed. They are read from the database, so it
//! does not matter who makes them, nor whether the server was started again meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{TaskId, TaskState};
use cleveragents_store::tasks::Task;
use cleveragents_store::{Error, tasks};
use serde_json::{Value, json};

use super::tasks::Watching;
use super::{fault::Fault, wire};
use crate::app::App;
use crate::callers::Again;

/// How often is looked for the last update when the server is about to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How many updates are read at a time.
const PAGE: u64 = 64;

/// What is sent: a task and then its updates, or one message.
pub(crate) struct Updates {
    app: Arc<App>,
    id: TaskId,
    namespace: Option<String>,
    /// The number of the next update.
    next: u64,
    ready: VecDeque<Value>,
    /// Whether a task that waits for an answer ends the updates.
    ends_when_waiting: bool,
    is_over: bool,
    watching: Option<Watching>,
}

impl Updates {
    /// The updates of a task after a snapshot of it, which comes first.
    pub(super) fn after(
        app: Arc<App>,
        task: &Task,
        watching: Watching,
        snapshot: &Value,
        ends_when_waiting: bool,
    ) -> Self {
        Self {
            app,
            id: task.id,
            namespace: Some(task.namespace.clone()),
            next: task.update_count,
            ready: VecDeque::from([json!({"task": snapshot})]),
            ends_when_waiting,
            is_over: false,
            watching: Some(watching),
        }
    }

    /// One message and nothing else.
    pub(super) fn only(app: Arc<App>, message: &Value) -> Self {
        Self {
            app,
            id: TaskId::generate(),
            namespace: None,
            next: 0,
            ready: VecDeque::from([json!({"message": message})]),
            ends_when_waiting: true,
            is_over: false,
            watching: None,
        }
    }

    /// How often somebody who listens is asked who they are, and gets a sign of life.
    pub(super) fn pulse(&self) -> Duration {
        self.app.options.keep_alive
    }

    /// Whether somebody who listens still may.
    pub(super) async fn may_be_heard(&self, again: &Again) -> bool {
        let Some(caller) = again.caller(&self.app.callers).await else {
            return false;
        };
        let may = |namespace| caller.may(Scope::Tasks, Permission::Read, namespace);
        self.namespace.as_deref().is_none_or(may)
    }

    fn ends_with(&self, state: TaskState) -> bool {
        state.is_over() || (self.ends_when_waiting && state.is_waiting())
    }

    /// The next one; nothing after the last. May be dropped while it waits, and asked again.
    pub(crate) async fn next(&mut self) -> Option<Result<Value, Fault>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                if wire::told_state(&update).is_some_and(|state| self.ends_with(state)) {
                    self.is_over = true;
                    self.ready.clear();
                }
                return Some(Ok(update));
            }
            if self.is_over || self.watching.is_none() {
                return None;
            }
            // Looked at before the updates are: what still ran then has told them all by now.
            let is_last_look = self.app.ending.is_near() && !self.app.tasks.is_running(self.id);
            match self.read().await {
                Ok(found) => {
                    self.next += found.len() as u64;
                    self.ready.extend(found);
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error.into()));
                }
            }
            if !self.ready.is_empty() {
                continue;
            }
            if is_last_look {
                return None;
            }
            let near = self.app.ending.near();
            let is_ending = self.app.ending.is_near();
            if let Some(watching) = &mut self.watching {
                tokio::select! {
                    () = watching.changed() => {}
                    () = near, if !is_ending => {}
                    // What still runs then may end without a word, and the end may have come near just now.
                    () = tokio::time::sleep(LOOK_AGAIN), if is_ending => {}
                }
            }
        }
    }

    async fn read(&self) -> Result<Vec<Value>, Error> {
        let (engine, id, next) = (Arc::clone(&self.app.engine), self.id, self.next);
        crate::blocking(move || engine.read(|reader| tasks::updates(reader, id, next, PAGE))).await
    }
}
