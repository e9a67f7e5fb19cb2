//! A2A tasks that other agents and programs requested: their messages, their artifacts, and the updates for
//! subscribers.
//!
//! Every change is one conditional statement: a task never leaves a terminal state, and a server changes only the tasks
//! that it runs. Updates are numbered without gaps in the unit that changes the task. Messages, artifacts and updates
//! are JSON that the caller writes and reads; this module does not know their format.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{EventKind, NewEvent, SessionId, TaskId, TaskKind, TaskState, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{json_text, stored_json, visible};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Param, Row, params};

/// A stored task, without its messages and artifacts.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub namespace: String,
    /// Id of the conversation it belongs to, as chosen by the client.
    pub context: String,
    /// Caller that requested it.
    pub identity: String,
    /// Whether the task is a turn or a plan.
    pub kind: TaskKind,
    /// Session of the turn, or the plan.
    pub subject: String,
    /// Current state.
    pub state: TaskState,
    /// Message that accompanied the current state.
    pub status_message: Option<Value>,
    /// Options for executing it.
    pub metadata: Value,
    /// Server that runs it.
    pub runner: String,
    /// Number of updates so far, which is the number of the next one.
    pub update_count: u64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last state change.
    pub status_at: Timestamp,
}

/// Initial data of a task.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub id: TaskId,
    pub namespace: String,
    /// Conversation it belongs to.
    pub context: String,
    /// Whether the task is a turn or a plan.
    pub kind: TaskKind,
    /// Session of the turn, or the plan.
    pub subject: String,
    /// Options for executing it.
    pub metadata: Value,
    /// Server that runs it.
    pub runner: String,
}

macro_rules! columns {
    () => {
        "task_id, namespace, context_id, identity, kind, subject, state, status_message, metadata, \
         runner, update_count, created_at, status_at"
    };
}

fn read(mut row: Row) -> Result<Task, Error> {
    Ok(Task {
        id: row.take()?,
        namespace: row.take()?,
        context: row.take()?,
        identity: row.take()?,
        kind: {
            let kind: String = row.take()?;
            TaskKind::from_stored(&kind)
                .ok_or_else(|| Error::stored("the kind of a task", format!("is `{kind}`")))?
        },
        subject: row.take()?,
        state: {
            let state: String = row.take()?;
            TaskState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a task", format!("is `{state}`")))?
        },
        status_message: row
            .take::<Option<String>>()?
            .map(|text| stored_json("the message of a task", &text))
            .transpose()?,
        metadata: stored_json("the metadata of a task", &row.take::<String>()?)?,
        runner: row.take()?,
        update_count: row.take()?,
        created_at: row.take()?,
        status_at: row.take()?,
    })
}

/// Session of a context.
pub fn context(
    reader: &mut dyn Reader,
    namespace: &str,
    context: &str,
) -> Result<Option<SessionId>, Error> {
    let row = reader.query_first(
        "SELECT session_id FROM task_contexts WHERE namespace = ?1 AND context_id = ?2",
        params![namespace, context],
    )?;
    row.map(|mut row| row.take()).transpose()
}

/// Assigns a session to a context. Returns `false` when the context already has one, or the session belongs to another
/// context.
pub fn add_context(
    unit: &mut UnitOfWork<'_>,
    namespace: &str,
    context: &str,
    session: SessionId,
) -> Result<bool, Error> {
    let now = unit.now();
    let added = unit.execute(
        "INSERT INTO task_contexts (namespace, context_id, session_id, created_at) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![namespace, context, session, now],
    )?;
    Ok(added == 1)
}

/// Stores an accepted task with the message that requested it.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    new: &NewTask,
    message_id: &str,
    message: &impl Serialize,
) -> Result<Task, Error> {
    let now = unit.now();
    let identity = unit.identity().to_owned();
    unit.execute(
        "INSERT INTO tasks (task_id, namespace, context_id, identity, kind, subject, state, \
         metadata, runner, created_at, status_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'submitted', ?7, ?8, ?9, ?9)",
        params![
            new.id,
            &new.namespace,
            &new.context,
            &identity,
            new.kind.as_str(),
            &new.subject,
            json_text(&new.metadata),
            &new.runner,
            now
        ],
    )?;
    add_message(unit, new.id, message_id, message)?;
    unit.emit(NewEvent {
        kind: EventKind::TaskCreated,
        subject: new.id.to_string(),
        payload: json!({
            "namespace": new.namespace, "context": new.context, "kind": new.kind.as_str(),
        }),
    });
    Ok(Task {
        id: new.id,
        namespace: new.namespace.clone(),
        context: new.context.clone(),
        identity,
        kind: new.kind,
        subject: new.subject.clone(),
        state: TaskState::Submitted,
        status_message: None,
        metadata: new.metadata.clone(),
        runner: new.runner.clone(),
        update_count: 0,
        created_at: now,
        status_at: now,
    })
}

/// Returns the task with this id.
pub fn get(reader: &mut dyn Reader, id: TaskId) -> Result<Option<Task>, Error> {
    reader
        .query_first(
            concat!("SELECT ", columns!(), " FROM tasks WHERE task_id = ?1"),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Returns the task with this id and locks it until the unit ends.
pub(super) fn locked(unit: &mut UnitOfWork<'_>, id: TaskId) -> Result<Option<Task>, Error> {
    let sql = format!(
        concat!("SELECT ", columns!(), " FROM tasks WHERE task_id = ?1{}"),
        unit.dialect().for_update()
    );
    unit.query_first(&sql, params![id])?.map(read).transpose()
}

pub fn add_message(
    unit: &mut UnitOfWork<'_>,
    id: TaskId,
    message_id: &str,
    message: &impl Serialize,
) -> Result<(), Error> {
    let message = serde_json::to_string(message)
        .map_err(|error| Error::Internal(format!("a message cannot be written: {error}")))?;
    unit.execute(
        "INSERT INTO task_messages (task_id, number, message_id, message) VALUES (?1, \
         (SELECT COALESCE(MAX(number) + 1, 0) FROM task_messages WHERE task_id = ?1), ?2, ?3)",
        params![id, message_id, message],
    )?;
    Ok(())
}

/// The last `limit` messages of a task, in order; all of them when `None`.
pub fn messages<T: DeserializeOwned>(
    reader: &mut dyn Reader,
    id: TaskId,
    limit: Option<u64>,
) -> Result<Vec<T>, Error> {
    let mut messages = reader
        .query(
            "SELECT message FROM task_messages WHERE task_id = ?1 ORDER BY number DESC LIMIT ?2",
            params![id, limit.unwrap_or(i64::MAX as u64)],
        )?
        .into_iter()
        .map(|mut row| stored_json("a message of a task", &row.take::<String>()?))
        .collect::<Result<Vec<_>, _>>()?;
    messages.reverse();
    Ok(messages)
}

/// A change of a task's state.
pub struct StateChange<'a> {
    /// States from which the change is allowed.
    pub from: &'a [TaskState],
    /// Server that must be running it; any when `None`.
    pub runner: Option<&'a str>,
    /// New state.
    pub to: TaskState,
    /// Message of the agent about the new state.
    pub message: Option<&'a Value>,
    /// Serializes the update for subscribers as JSON, from the changed task.
    pub update: &'a dyn Fn(&Task) -> Result<String, Error>,
}

/// Changes the state of a task and stores the update. `None` when the task does not exist, is in none of the expected
/// states, or runs on another server. The message of the previous state becomes one of the task's messages.
pub fn change_state(
    unit: &mut UnitOfWork<'_>,
    id: TaskId,
    change: &StateChange<'_>,
) -> Result<Option<Task>, Error> {
    let Some(before) = locked(unit, id)? else {
        return Ok(None);
    };
    let is_same_runner = change.runner.is_none_or(|runner| runner == before.runner);
    if before.state.is_over() || !change.from.contains(&before.state) || !is_same_runner {
        return Ok(None);
    }
    let now = unit.now();
    let changed = unit.execute(
        "UPDATE tasks SET state = ?3, status_message = ?4, status_at = ?5 \
         WHERE task_id = ?1 AND state = ?2",
        params![
            id,
            before.state.as_str(),
            change.to.as_str(),
            change.message.map(json_text),
            now
        ],
    )?;
    if changed == 0 {
        return Ok(None);
    }
    if let Some(previous) = &before.status_message {
        let message_id = previous.get("messageId").and_then(Value::as_str);
        add_message(unit, id, message_id.unwrap_or("status"), previous)?;
    }
    let after = Task {
        state: change.to,
        status_message: change.message.cloned(),
        status_at: now,
        ..before
    };
    let after = add_update(unit, after, change.update)?;
    unit.emit(NewEvent {
        kind: EventKind::TaskStateChanged,
        subject: id.to_string(),
        payload: json!({"namespace": after.namespace, "state": after.state.as_str()}),
    });
    Ok(Some(after))
}

/// Numbers an update and stores it.
fn add_update(
    unit: &mut UnitOfWork<'_>,
    mut task: Task,
    update: &dyn Fn(&Task) -> Result<String, Error>,
) -> Result<Task, Error> {
    let number = task.update_count;
    unit.execute(
        "UPDATE tasks SET update_count = ?2 + 1 WHERE task_id = ?1 AND update_count = ?2",
        params![task.id, number],
    )?;
    unit.execute(
        "INSERT INTO task_updates (task_id, number, body) VALUES (?1, ?2, ?3)",
        params![task.id, number, update(&task)?],
    )?;
    task.update_count = number + 1;
    Ok(task)
}

/// A new artifact of a task, or a change of one.
pub struct ArtifactChange<'a> {
    /// Server that must be running the task.
    pub runner: &'a str,
    pub artifact_id: &'a str,
    /// Serializes the artifact as JSON, from its stored version.
    pub artifact: &'a dyn Fn(Option<&str>) -> Result<String, Error>,
    /// Serializes the update for subscribers as JSON.
    pub update: &'a dyn Fn(&Task) -> Result<String, Error>,
}

/// Stores an artifact of a task and the update. `None` when the task has ended or runs on another server.
pub fn write_artifact(
    unit: &mut UnitOfWork<'_>,
    id: TaskId,
    change: &ArtifactChange<'_>,
) -> Result<Option<Task>, Error> {
    let Some(task) = locked(unit, id)? else {
        return Ok(None);
    };
    if task.state.is_over() || task.runner != change.runner {
        return Ok(None);
    }
    let before = unit
        .query_first(
            "SELECT artifact FROM task_artifacts WHERE task_id = ?1 AND artifact_id = ?2",
            params![id, change.artifact_id],
        )?
        .map(|mut row| row.take::<String>())
        .transpose()?;
    let is_new = before.is_none();
    let artifact = (change.artifact)(before.as_deref())?;
    unit.execute(
        "INSERT INTO task_artifacts (task_id, artifact_id, number, artifact) VALUES (?1, ?2, \
         (SELECT COALESCE(MAX(number) + 1, 0) FROM task_artifacts WHERE task_id = ?1), ?3) \
         ON CONFLICT (task_id, artifact_id) DO UPDATE SET artifact = excluded.artifact",
        params![id, change.artifact_id, artifact],
    )?;
    let task = add_update(unit, task, change.update)?;
    if is_new {
        unit.emit(NewEvent {
            kind: EventKind::TaskArtifact,
            subject: id.to_string(),
            payload: json!({"namespace": task.namespace, "artifact": change.artifact_id}),
        });
    }
    Ok(Some(task))
}

/// Artifacts of a task, in the order in which they were first stored.
pub fn artifacts<T: DeserializeOwned>(
    reader: &mut dyn Reader,
    id: TaskId,
) -> Result<Vec<T>, Error> {
    reader
        .query(
            "SELECT artifact FROM task_artifacts WHERE task_id = ?1 ORDER BY number",
            params![id],
        )?
        .into_iter()
        .map(|mut row| stored_json("a result of a task", &row.take::<String>()?))
        .collect()
}

/// Stores the options of a task, and its session or plan when that becomes known only later.
pub fn set_subject(
    unit: &mut UnitOfWork<'_>,
    id: TaskId,
    runner: &str,
    subject: &str,
    metadata: &Value,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE tasks SET subject = ?3, metadata = ?4 WHERE task_id = ?1 AND runner = ?2 \
         AND state IN ('submitted', 'working', 'input_required', 'auth_required')",
        params![id, runner, subject, json_text(metadata)],
    )?;
    Ok(touched == 1)
}

/// Takes over a task from a dead server. Returns `false` when another server took it over first, or when the task has
/// ended.
pub fn take_over(
    unit: &mut UnitOfWork<'_>,
    id: TaskId,
    from: &str,
    runner: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE tasks SET runner = ?3 WHERE task_id = ?1 AND runner = ?2 \
         AND state IN ('submitted', 'working', 'input_required', 'auth_required')",
        params![id, from, runner],
    )?;
    Ok(touched == 1)
}

/// Tasks that a server runs, or was running when it died, oldest first.
pub fn open(reader: &mut dyn Reader) -> Result<Vec<Task>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tasks WHERE state IN ('submitted', 'working') ORDER BY task_id"
            ),
            &[],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Updates from a number on, in order, at most `limit`.
pub fn updates<T: DeserializeOwned>(
    reader: &mut dyn Reader,
    id: TaskId,
    from: u64,
    limit: u64,
) -> Result<Vec<T>, Error> {
    reader
        .query(
            "SELECT body FROM task_updates WHERE task_id = ?1 AND number >= ?2 \
             ORDER BY number LIMIT ?3",
            params![id, from, limit],
        )?
        .into_iter()
        .map(|mut row| stored_json("an update of a task", &row.take::<String>()?))
        .collect()
}

/// Filter for listing tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    pub visible: Namespaces,
    /// Only tasks in this namespace.
    pub namespace: Option<String>,
    /// Only tasks of this context.
    pub context: Option<String>,
    /// Only tasks in this state.
    pub state: Option<TaskState>,
    /// Only tasks whose state changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only tasks after this one, which is the last of the previous page.
    pub after: Option<(Timestamp, String)>,
    /// Maximum number of tasks.
    pub limit: u64,
}

const MATCHES: &str = " FROM tasks WHERE (?1 = '' OR context_id = ?1) AND (?2 = '' OR state = ?2) \
     AND status_at >= ?3 AND (?4 = '*' OR (?4 = '-' AND namespace <> 'local') \
     OR REPLACE(?4, ',' || namespace || ',', '') <> ?4) AND (?5 = '' OR namespace = ?5)";

/// Lists tasks, most recent state change first, with the number of matches on all pages.
pub fn list(reader: &mut dyn Reader, filter: &TaskFilter) -> Result<(Vec<Task>, u64), Error> {
    let mut bound = vec![
        Param::from(filter.context.clone().unwrap_or_default()),
        Param::from(filter.state.map_or("", TaskState::as_str)),
        Param::from(filter.since.map_or(i64::MIN, Timestamp::as_micros)),
        Param::from(visible(&filter.visible)),
        Param::from(filter.namespace.clone().unwrap_or_default()),
    ];
    let total = reader
        .query_first(&format!("SELECT COUNT(*){MATCHES}"), &bound)?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    let (moment, id) = match &filter.after {
        Some((moment, id)) => (moment.as_micros(), id.clone()),
        None => (i64::MAX, String::new()),
    };
    bound.extend([
        Param::from(moment),
        Param::from(id),
        Param::from(filter.limit),
    ]);
    let sql = format!(
        concat!(
            "SELECT ",
            columns!(),
            "{} AND (status_at < ?6 OR (status_at = ?6 AND task_id < ?7)) \
             ORDER BY status_at DESC, task_id DESC LIMIT ?8"
        ),
        MATCHES
    );
    let rows = reader.query(&sql, &bound)?;
    let tasks = rows.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok((tasks, total))
}
