//! Messages that start a task, or answer a waiting task.

use std::sync::Arc;

use cleveragents_a2a::{Message, PushNotificationConfig, Task};
use cleveragents_domain::{
    DEFAULT_PROFILE, EventKind, SessionId, TaskId, TaskKind, TaskState, TokenUsage,
};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::tasks::{self, StateChange, Task as TaskRecord};
use cleveragents_store::{Error, UnitOfWork, sessions};
use serde_json::{Map, Value};

use super::document::{TaskView, document, status_update};
use super::error::TaskError;
use super::push::store_push_config;
use super::service::{ArtifactChunk, NO_PLAN, TaskService};

/// A message that starts a task.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The id of the task. The caller chooses it, so that it can watch the task before it exists.
    pub id: TaskId,
    pub namespace: String,
    /// A turn of a conversation, or a plan.
    pub kind: TaskKind,
    /// The options for this program in the message.
    pub options: Map<String, Value>,
    /// The server that works on the task.
    pub runner: String,
    /// The message. Without a context id it starts a new context.
    pub message: Message,
    /// Webhooks that receive updates.
    pub push: Option<PushNotificationConfig>,
    /// An artifact that completes the task in the unit of work that creates it.
    pub answer: Option<ArtifactChunk>,
    /// The number of last messages in the returned tasks.
    pub history: Option<u64>,
    /// Condition for returning the task as it was before the answer.
    pub snapshot: Snapshot,
}

/// Condition for returning a task as it was at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Always, for callers that follow every update.
    Created,
    /// Only if the task was not completed in the unit of work that created it.
    Unanswered,
}

#[derive(Debug)]
pub struct CreatedTask {
    /// The row of the task at its creation.
    pub record: TaskRecord,
    /// The task at its creation, if requested.
    pub snapshot: Option<Task>,
    /// The completed task, if it was completed in the unit of work that created it.
    pub completed: Option<Task>,
}

/// A message that answers a waiting task.
#[derive(Debug, Clone)]
pub struct TaskReply {
    /// The server that works on the task from now on.
    pub runner: String,
    pub message: Message,
    /// Additional webhooks that receive updates.
    pub push: Option<PushNotificationConfig>,
    /// The number of last messages in the returned task.
    pub history: Option<u64>,
}

/// A task to be created, with the ids that its message needs.
struct TaskDraft {
    new: NewTask,
    context: String,
    is_new_context: bool,
    /// The id of the session to create if the context has none yet.
    session: SessionId,
}

/// Reason of a refused task.
enum CreateError {
    /// Another process created the same context at the same time.
    ContextRace,
    Task(TaskError),
}

impl From<TaskError> for CreateError {
    fn from(error: TaskError) -> Self {
        Self::Task(error)
    }
}

impl From<Error> for CreateError {
    fn from(error: Error) -> Self {
        Self::Task(error.into())
    }
}

impl TaskService {
    /// Creates a task with its first message. The context gets a session if it has none.
    pub fn create(&self, mut new: NewTask) -> Result<CreatedTask, TaskError> {
        let session = SessionId::generate();
        let (context, is_new_context) = match new.message.context_id.take() {
            Some(context) => (context, false),
            None => (session.to_string(), true),
        };
        let task_id = new.id.to_string();
        new.message = new.message.in_task(Some(&context), Some(&task_id));
        let prepared = Arc::new(TaskDraft {
            new,
            context,
            is_new_context,
            session,
        });
        let create = move |unit: &mut UnitOfWork<'_>| create(unit, &prepared);
        let created = match self.engine.write(create.clone()) {
            // One retry is enough, because the context exists now.
            Err(CreateError::ContextRace) => self.engine.write(create),
            created => created,
        };
        created.map_err(|error| match error {
            CreateError::ContextRace => TaskError::ContextBusy,
            CreateError::Task(error) => error,
        })
    }

    /// Passes a message to a waiting task and reopens the task.
    pub fn reply(&self, id: TaskId, reply: TaskReply) -> Result<(TaskRecord, Task), TaskError> {
        self.engine.write(move |unit| {
            let change = StateChange {
                from: &[TaskState::InputRequired, TaskState::AuthRequired],
                runner: None,
                to: TaskState::Working,
                message: None,
                update: &status_update,
            };
            let Some(mut task) = tasks::change_state(unit, id, &change)? else {
                return Err(match tasks::get(unit, id)? {
                    None => TaskError::NotFound(id),
                    Some(task) if task.state.is_over() => TaskError::Over,
                    Some(_) => TaskError::Busy,
                });
            };
            tasks::add_message(unit, id, &reply.message.message_id, &reply.message)?;
            tasks::take_over(unit, id, &task.runner, &reply.runner)?;
            task.runner.clone_from(&reply.runner);
            if let Some(config) = &reply.push {
                store_push_config(unit, &task, config)?;
            }
            let view = TaskView::with_history(reply.history);
            let document = document(unit, &task, view)?;
            Ok((task, document))
        })
    }
}

fn create(unit: &mut UnitOfWork<'_>, prepared: &TaskDraft) -> Result<CreatedTask, CreateError> {
    let new = &prepared.new;
    let session = session(unit, prepared)?;
    let row = tasks::NewTask {
        id: new.id,
        namespace: new.namespace.clone(),
        context: prepared.context.clone(),
        kind: new.kind,
        subject: match new.kind {
            TaskKind::Turn => session.to_string(),
            TaskKind::Plan => NO_PLAN.to_owned(),
        },
        metadata: Value::Object(new.options.clone()),
        runner: new.runner.clone(),
    };
    let record = tasks::insert(unit, &row, &new.message.message_id, &new.message)?;
    if let Some(config) = &new.push {
        store_push_config(unit, &record, config)?;
    }
    let view = TaskView::with_history(new.history);
    let snapshot = if new.answer.is_none() || new.snapshot == Snapshot::Created {
        Some(document(unit, &record, view)?)
    } else {
        None
    };
    let completed = match &new.answer {
        None => None,
        Some(answer) => answer.add(unit, &new.runner, new.id, Some(TaskState::Completed))?,
    };
    let completed = completed
        .map(|completed| document(unit, &completed, view))
        .transpose()?;
    Ok(CreatedTask {
        record,
        snapshot,
        completed,
    })
}

/// The session of the context of a task, created if it has none.
fn session(unit: &mut UnitOfWork<'_>, prepared: &TaskDraft) -> Result<SessionId, CreateError> {
    let (namespace, context) = (&prepared.new.namespace, &prepared.context);
    let is_known = !prepared.is_new_context;
    if is_known && let Some(session) = tasks::context(unit, namespace, context)? {
        return Ok(session);
    }
    // The context may be the id of an existing session of the namespace.
    if is_known
        && let Ok(id) = context.parse::<SessionId>()
        && let Some(known) = sessions::get(unit, id)?
        && known.namespace == *namespace
    {
        tasks::add_context(unit, namespace, context, id)?;
        return Ok(id);
    }
    let fresh = prepared.session;
    let session = NewSession {
        owner: None,
        name: None,
        actor: None,
        namespace: namespace.clone(),
        automation: DEFAULT_PROFILE.to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    };
    sessions::insert(unit, fresh, &session, EventKind::SessionCreated)?;
    if tasks::add_context(unit, namespace, context, fresh)? {
        return Ok(fresh);
    }
    Err(CreateError::ContextRace)
}
