//! The A2A form of stored tasks and their updates.

use cleveragents_a2a::{
    Artifact, ArtifactUpdate, Message, Part, Role, StatusUpdate, StreamResponse, Task, TaskStatus,
};
use cleveragents_domain::MessageId;
use cleveragents_store::tasks::{self, Task as TaskRecord};
use cleveragents_store::{Error, Reader};
use serde::Serialize;
use serde_json::{Map, Value};

use super::service::{ArtifactChunk, plan_of_task};

/// Parts of a task to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskView {
    /// The number of last messages; `None` for all.
    pub history: Option<u64>,
    /// Whether the artifacts are read.
    pub artifacts: bool,
}

impl TaskView {
    /// A view with all messages and artifacts.
    pub const WHOLE: Self = Self::with_history(None);

    /// A view with all artifacts and the last `history` messages.
    pub const fn with_history(history: Option<u64>) -> Self {
        Self {
            history,
            artifacts: true,
        }
    }
}

/// A message of the agent, with or without a task.
pub fn agent_message(context: &str, task: Option<&str>, text: &str) -> Message {
    let id = MessageId::generate().to_string();
    Message::new(id, Role::Agent, vec![Part::text(text)]).in_task(Some(context), task)
}

pub(super) fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::Internal(format!("a part of a task cannot be written: {error}")))
}

fn status(task: &TaskRecord) -> Result<TaskStatus, Error> {
    let message = task.status_message.clone();
    Ok(TaskStatus {
        state: task.state,
        timestamp: Some(task.status_at),
        message: message
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| Error::stored("the message of a task", error.to_string()))?,
    })
}

/// The update that reports the state of a task.
pub(super) fn status_update(task: &TaskRecord) -> Result<String, Error> {
    json(&StreamResponse::StatusUpdate(StatusUpdate {
        task_id: task.id.to_string(),
        context_id: task.context.clone(),
        status: status(task)?,
    }))
}

/// The update that reports a piece of an artifact.
pub(super) fn artifact_update(task: &TaskRecord, chunk: &ArtifactChunk) -> Result<String, Error> {
    json(&StreamResponse::ArtifactUpdate(ArtifactUpdate {
        task_id: task.id.to_string(),
        context_id: task.context.clone(),
        artifact: chunk.artifact.clone(),
        append: chunk.is_appended,
        last_chunk: chunk.is_last,
    }))
}

/// A task in its A2A form.
pub(super) fn document(
    reader: &mut dyn Reader,
    task: &TaskRecord,
    view: TaskView,
) -> Result<Task, Error> {
    let artifacts: Vec<Artifact> = if view.artifacts {
        tasks::artifacts(reader, task.id)?
    } else {
        Vec::new()
    };
    let history = if view.history == Some(0) {
        Vec::new()
    } else {
        tasks::messages(reader, task.id, view.history)?
    };
    let plan = plan_of_task(task);
    Ok(Task {
        id: task.id.to_string(),
        context_id: task.context.clone(),
        status: status(task)?,
        artifacts: (!artifacts.is_empty()).then_some(artifacts),
        history,
        metadata: plan.map(|plan| Map::from_iter([("planId".to_owned(), Value::from(plan))])),
    })
}
