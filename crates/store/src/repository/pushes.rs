//! Push notification configurations of tasks and their delivery state.
//!
//! Each configuration stores the number of the next update to deliver and advances it with each delivery. Updates are
//! delivered in order and at least once, whichever process delivers them, unless delivery is given up.

use cleveragents_domain::{EventKind, NewEvent, TaskId, Timestamp};
use serde_json::{Value, json};

use super::tasks::{self, Task};
use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A subscriber to the updates of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct PushConfig {
    /// Task whose updates are delivered.
    pub task: TaskId,
    /// Id, unique within the task.
    pub id: String,
    /// Configuration as the client sent it.
    pub config: Value,
    /// Number of the next update to deliver.
    pub next_number: u64,
    /// Number of attempts to deliver that update, each counted when it starts.
    pub attempts: u64,
    /// Time of the next attempt.
    pub next_at: Timestamp,
}

macro_rules! columns {
    () => {
        "push_configs.task_id, config_id, config, next_number, attempts, next_at"
    };
}

fn read(mut row: Row) -> Result<PushConfig, Error> {
    Ok(PushConfig {
        task: row.take()?,
        id: row.take()?,
        config: stored_json("a push configuration", &row.take::<String>()?)?,
        next_number: row.take()?,
        attempts: row.take()?,
        next_at: row.take()?,
    })
}

/// Stores a configuration, replacing one with the same id. Returns `false` when the task already has `limit` others.
pub fn set(
    unit: &mut UnitOfWork<'_>,
    task: &Task,
    id: &str,
    config: &Value,
    limit: u64,
) -> Result<bool, Error> {
    let now = unit.now();
    // The lock keeps two concurrent inserts from both passing the limit.
    tasks::locked(unit, task.id)?;
    let others: u64 = unit
        .query_first(
            "SELECT COUNT(*) FROM push_configs WHERE task_id = ?1 AND config_id <> ?2",
            params![task.id, id],
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    if others >= limit {
        return Ok(false);
    }
    unit.execute(
        "INSERT INTO push_configs (task_id, config_id, config, next_number, next_at, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (task_id, config_id) DO UPDATE SET \
         config = excluded.config, attempts = 0, next_at = excluded.next_at, last_error = NULL",
        params![task.id, id, json_text(config), task.update_count, now],
    )?;
    Ok(true)
}

/// Configurations of a task, by id.
pub fn of_task(reader: &mut dyn Reader, task: TaskId) -> Result<Vec<PushConfig>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM push_configs WHERE task_id = ?1 ORDER BY config_id"
            ),
            params![task],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Removes a configuration. Returns `false` when it did not exist.
pub fn remove(unit: &mut UnitOfWork<'_>, task: TaskId, id: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM push_configs WHERE task_id = ?1 AND config_id = ?2",
        params![task, id],
    )?;
    Ok(touched == 1)
}

/// Configurations with undelivered updates, earliest due time first, including those that are not yet due.
pub fn undelivered(reader: &mut dyn Reader, limit: u64) -> Result<Vec<PushConfig>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM push_configs JOIN tasks ON tasks.task_id = push_configs.task_id \
                 WHERE next_number < update_count ORDER BY next_at, push_configs.task_id LIMIT ?1"
            ),
            params![limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Claims the delivery of the next update until a point in time. Returns `false` when another process claimed it first.
pub fn claim(
    unit: &mut UnitOfWork<'_>,
    push: &PushConfig,
    until: Timestamp,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE push_configs SET next_at = ?5, attempts = attempts + 1 \
         WHERE task_id = ?1 AND config_id = ?2 AND next_number = ?3 AND next_at = ?4",
        params![push.task, &push.id, push.next_number, push.next_at, until],
    )?;
    Ok(touched == 1)
}

/// Advances past all updates before `next_number`: delivered, or abandoned because of `error`. Returns `false` when
/// another process advanced first.
pub fn advance(
    unit: &mut UnitOfWork<'_>,
    push: &PushConfig,
    next_number: u64,
    error: Option<&str>,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE push_configs SET next_number = ?4, attempts = 0, next_at = ?5, last_error = ?6 \
         WHERE task_id = ?1 AND config_id = ?2 AND next_number = ?3",
        params![
            push.task,
            &push.id,
            push.next_number,
            next_number,
            now,
            error
        ],
    )?;
    if let Some(error) = error
        && touched == 1
    {
        announce(unit, push, error, true);
    }
    Ok(touched == 1)
}

/// Stores a failed delivery and the time of the next attempt.
pub fn failed(
    unit: &mut UnitOfWork<'_>,
    push: &PushConfig,
    next_at: Timestamp,
    error: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE push_configs SET next_at = ?4, last_error = ?5 \
         WHERE task_id = ?1 AND config_id = ?2 AND next_number = ?3",
        params![push.task, &push.id, push.next_number, next_at, error],
    )?;
    if touched == 1 {
        announce(unit, push, error, false);
    }
    Ok(touched == 1)
}

/// Emits an event for a failed delivery with its reason. The target may contain secrets and is left out.
fn announce(unit: &mut UnitOfWork<'_>, push: &PushConfig, error: &str, gave_up: bool) {
    unit.emit(NewEvent {
        kind: EventKind::TaskPushFailed,
        subject: push.task.to_string(),
        payload: json!({
            "push": push.id, "update": push.next_number, "attempt": push.attempts + 1,
            "reason": error, "is_given_up": gave_up,
        }),
    });
}
