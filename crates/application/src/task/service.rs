//! [`TaskService`]: reading tasks, changing their state, and adding artifacts.

use std::sync::Arc;

use cleveragents_a2a::{Artifact, Message, Role, StreamResponse, Task};
use cleveragents_domain::{PlanId, TaskId, TaskKind, TaskState, Timestamp};
use cleveragents_store::tasks::{
    self, ArtifactChange, StateChange, Task as TaskRecord, TaskFilter,
};
use cleveragents_store::{Engine, Error, UnitOfWork};

use super::document::{TaskView, agent_message, artifact_update, document, json, status_update};

/// The subject of a plan's task before the plan exists.
pub(super) const NO_PLAN: &str = "-";

/// States in which a server works on a task.
pub(super) const OPEN: &[TaskState] = &[TaskState::Submitted, TaskState::Working];

const NOT_FINAL: &[TaskState] = &[
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

/// The id of the plan of a task; `None` until the plan exists.
pub fn plan_of_task(task: &TaskRecord) -> Option<&str> {
    (task.kind == TaskKind::Plan && task.subject != NO_PLAN).then_some(task.subject.as_str())
}

/// An artifact, or an addition to one.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactChunk {
    /// The artifact, or the parts to add.
    pub artifact: Artifact,
    /// Whether the parts are appended to the stored ones.
    pub is_appended: bool,
    /// Whether no more parts follow.
    pub is_last: bool,
}

impl ArtifactChunk {
    /// A complete artifact.
    pub const fn whole(artifact: Artifact) -> Self {
        Self {
            artifact,
            is_appended: false,
            is_last: true,
        }
    }

    /// The JSON to store: the artifact of this chunk, or the stored artifact with the parts of this chunk appended.
    fn stored(&self, before: Option<&str>) -> Result<String, Error> {
        let Some(before) = before.filter(|_| self.is_appended) else {
            return json(&self.artifact);
        };
        let mut artifact: Artifact = serde_json::from_str(before)
            .map_err(|error| Error::stored("a result of a task", error.to_string()))?;
        artifact.append(&self.artifact.parts);
        json(&artifact)
    }

    /// Adds the chunk in a unit of work, and changes the state of the task to `then`, if given. `None` if the task is
    /// finished or belongs to another server.
    pub(super) fn add(
        &self,
        unit: &mut UnitOfWork<'_>,
        runner: &str,
        id: TaskId,
        then: Option<TaskState>,
    ) -> Result<Option<TaskRecord>, Error> {
        let change = ArtifactChange {
            runner,
            artifact_id: &self.artifact.artifact_id,
            artifact: &|before| self.stored(before),
            update: &|task| artifact_update(task, self),
        };
        let added = tasks::write_artifact(unit, id, &change)?;
        match (added, then) {
            (Some(_), Some(to)) => {
                let change = StateChange {
                    from: OPEN,
                    runner: Some(runner),
                    to,
                    message: None,
                    update: &status_update,
                };
                tasks::change_state(unit, id, &change)
            }
            (added, _) => Ok(added),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskPage {
    /// The tasks of this page, ordered by the last change of their state, newest first.
    pub tasks: Vec<Task>,
    /// The number of matching tasks on all pages.
    pub total: u64,
    /// The cursor of the next page: the last task of this page; `None` if this is the last page.
    pub next: Option<(Timestamp, TaskId)>,
}

/// Stores tasks. Cheap to clone; the identity of the engine is recorded as the creator.
#[derive(Clone)]
pub struct TaskService {
    pub(super) engine: Arc<Engine>,
}

impl TaskService {
    /// A service on a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The stored row of a task.
    pub fn get(&self, id: TaskId) -> Result<Option<TaskRecord>, Error> {
        self.engine.read(|reader| tasks::get(reader, id))
    }

    /// The stored rows of existing tasks, in the order of the ids.
    pub fn get_all(&self, ids: &[TaskId]) -> Result<Vec<TaskRecord>, Error> {
        self.engine.read(|reader| {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                found.extend(tasks::get(reader, *id)?);
            }
            Ok(found)
        })
    }

    /// A task with its messages and artifacts, read in one transaction.
    pub fn view(&self, id: TaskId, view: TaskView) -> Result<Option<(TaskRecord, Task)>, Error> {
        self.engine.read(|reader| {
            let Some(record) = tasks::get(reader, id)? else {
                return Ok(None);
            };
            let task = document(reader, &record, view)?;
            Ok(Some((record, task)))
        })
    }

    /// Returns a task that is finished or waits for the client. Returns `None` while a server works on the task, unless
    /// `is_last_look` is set.
    pub fn view_settled(
        &self,
        id: TaskId,
        view: TaskView,
        is_last_look: bool,
    ) -> Result<Option<Task>, super::TaskError> {
        self.engine.read(|reader| {
            let record = tasks::get(reader, id)?.ok_or(super::TaskError::NotFound(id))?;
            let is_settled = record.state.is_over() || record.state.is_waiting();
            if !is_settled && !is_last_look {
                return Ok(None);
            }
            Ok(Some(document(reader, &record, view)?))
        })
    }

    /// A page of matching tasks, at most `filter.limit`.
    pub fn list(&self, filter: &TaskFilter, view: TaskView) -> Result<TaskPage, Error> {
        // One row more than the page holds shows whether another page follows.
        let extended_filter = TaskFilter {
            limit: filter.limit + 1,
            ..filter.clone()
        };
        self.engine.read(|reader| {
            let (mut found, total) = tasks::list(reader, &extended_filter)?;
            let has_more = found.len() as u64 > filter.limit;
            found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
            let last = found.last().filter(|_| has_more);
            let next = last.map(|last| (last.status_at, last.id));
            let mut page = Vec::with_capacity(found.len());
            for record in &found {
                page.push(document(reader, record, view)?);
            }
            Ok(TaskPage {
                tasks: page,
                total,
                next,
            })
        })
    }

    /// Changes the state of an open task that `runner` works on, with a message of the agent.
    /// `None` when the task is waiting, finished or belongs to another server.
    pub fn change_state(
        &self,
        id: TaskId,
        runner: &str,
        to: TaskState,
        text: Option<&str>,
    ) -> Result<Option<TaskRecord>, Error> {
        let (runner, text) = (runner.to_owned(), text.map(str::to_owned));
        self.engine
            .write(move |unit| {
                let Some(task) = tasks::get(unit, id)? else {
                    return Ok(None);
                };
                let task_id = task.id.to_string();
                let message = text.as_deref().map(|text| {
                    serde_json::to_value(agent_message(&task.context, Some(&task_id), text))
                        .map_err(|error| Error::Internal(format!("a message: {error}")))
                });
                let message = message.transpose()?;
                let change = StateChange {
                    from: OPEN,
                    runner: Some(&runner),
                    to,
                    message: message.as_ref(),
                    update: &status_update,
                };
                tasks::change_state(unit, id, &change)
            })
            .inspect(|changed| {
                if changed.is_some() {
                    tracing::debug!(task = %id, state = ?to, "task state changed");
                }
            })
    }

    /// Adds a chunk of an artifact to a task that `runner` works on, and changes the state of the task to `then`, if
    /// given. `None` if the task is finished or belongs to another server.
    pub fn add_artifact(
        &self,
        id: TaskId,
        runner: &str,
        chunk: ArtifactChunk,
        then: Option<TaskState>,
    ) -> Result<Option<TaskRecord>, Error> {
        let runner = runner.to_owned();
        self.engine
            .write(move |unit| chunk.add(unit, &runner, id, then))
    }

    /// Cancels a task. `None` if the task is finished or does not exist. Later writes of its server are refused.
    pub fn cancel(&self, id: TaskId) -> Result<Option<Task>, Error> {
        self.engine.write(move |unit| {
            let change = StateChange {
                from: NOT_FINAL,
                runner: None,
                to: TaskState::Canceled,
                message: None,
                update: &status_update,
            };
            let changed = tasks::change_state(unit, id, &change)?;
            changed
                .map(|record| document(unit, &record, TaskView::WHOLE))
                .transpose()
        })
    }

    /// The updates of a task in order, starting with number `from`.
    pub fn updates(&self, id: TaskId, from: u64, limit: u64) -> Result<Vec<StreamResponse>, Error> {
        self.engine
            .read(|reader| tasks::updates(reader, id, from, limit))
    }

    /// The last message of the client.
    pub fn last_request(&self, id: TaskId) -> Result<Option<Message>, Error> {
        let messages: Vec<Message> = self
            .engine
            .read(|reader| tasks::messages(reader, id, None))?;
        let mut newest_first = messages.into_iter().rev();
        Ok(newest_first.find(|message| message.role != Role::Agent))
    }

    /// Stores the plan of a task, if `runner` works on it.
    pub fn assign_plan(&self, task: &TaskRecord, runner: &str, plan: PlanId) -> Result<(), Error> {
        let (id, runner, metadata) = (task.id, runner.to_owned(), task.metadata.clone());
        self.engine.write(move |unit| {
            tasks::set_subject(unit, id, &runner, &plan.to_string(), &metadata)
        })?;
        Ok(())
    }
}
