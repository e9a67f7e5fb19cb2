//! [`UpdateStream`]: the updates of a task for a subscriber. The updates come from the database, so that any server can
//! run the task and subscribers can continue after a restart.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_a2a::{Message, StreamResponse, Task};
use cleveragents_application::{StoreError, TaskRecord};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{TaskId, TaskState};

use super::error::RequestError;
use super::registry::TaskWatch;
use crate::app::App;
use crate::callers::Credentials;

/// Poll interval for the last update while the server is stopping.
const SHUTDOWN_POLL: Duration = Duration::from_millis(50);

/// Maximum number of updates per query.
const MAX_BATCH: u64 = 64;

/// A task followed by its updates, or a single message.
pub(crate) struct UpdateStream {
    app: Arc<App>,
    id: TaskId,
    namespace: Option<String>,
    /// The number of the next update.
    next: u64,
    ready: VecDeque<StreamResponse>,
    /// Whether the stream ends when the task waits for an answer.
    ends_when_waiting: bool,
    is_over: bool,
    watch: Option<TaskWatch>,
}

impl UpdateStream {
    /// A snapshot of a task, followed by the updates after it.
    pub(super) fn after(
        app: Arc<App>,
        task: &TaskRecord,
        watch: TaskWatch,
        snapshot: Task,
        ends_when_waiting: bool,
    ) -> Self {
        Self {
            app,
            id: task.id,
            namespace: Some(task.namespace.clone()),
            next: task.update_count,
            ready: VecDeque::from([StreamResponse::Task(snapshot)]),
            ends_when_waiting,
            is_over: false,
            watch: Some(watch),
        }
    }

    /// A stream of a single message.
    pub(super) fn only(app: Arc<App>, message: Message) -> Self {
        Self {
            app,
            id: TaskId::generate(),
            namespace: None,
            next: 0,
            ready: VecDeque::from([StreamResponse::Message(message)]),
            ends_when_waiting: true,
            is_over: false,
            watch: None,
        }
    }

    /// Interval of checks of the subscriber's credentials, and of keep-alive comments.
    pub(super) fn keep_alive(&self) -> Duration {
        self.app.options.keep_alive
    }

    /// True if the subscriber may still see the task.
    pub(super) async fn is_permitted(&self, credentials: &Credentials) -> bool {
        let Some(caller) = credentials.caller(&self.app.callers).await else {
            return false;
        };
        let may = |namespace| caller.may(Scope::Tasks, Permission::Read, namespace);
        self.namespace.as_deref().is_none_or(may)
    }

    fn ends_with(&self, state: TaskState) -> bool {
        state.is_over() || (self.ends_when_waiting && state.is_waiting())
    }

    /// The next update; `None` after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamResponse, RequestError>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                if update.state().is_some_and(|state| self.ends_with(state)) {
                    self.is_over = true;
                    self.ready.clear();
                }
                return Some(Ok(update));
            }
            if self.is_over || self.watch.is_none() {
                return None;
            }
            // Checked before the updates are read: a task that has stopped running has stored all its updates.
            let is_last_read =
                self.app.shutdown.has_started() && !self.app.tasks.is_running(self.id);
            match self.read().await {
                Ok(updates) => {
                    self.next += updates.len() as u64;
                    self.ready.extend(updates);
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error.into()));
                }
            }
            if !self.ready.is_empty() {
                continue;
            }
            if is_last_read {
                return None;
            }
            let shutdown_started = self.app.shutdown.started();
            let is_ending = self.app.shutdown.has_started();
            if let Some(watch) = &mut self.watch {
                tokio::select! {
                    () = watch.changed() => {}
                    () = shutdown_started, if !is_ending => {}
                    // A running task may finish without an update, or the shutdown may have started just now.
                    () = tokio::time::sleep(SHUTDOWN_POLL), if is_ending => {}
                }
            }
        }
    }

    async fn read(&self) -> Result<Vec<StreamResponse>, StoreError> {
        let (tasks, id, next) = (self.app.services.tasks(), self.id, self.next);
        crate::blocking(move || tasks.updates(id, next, MAX_BATCH)).await
    }
}
