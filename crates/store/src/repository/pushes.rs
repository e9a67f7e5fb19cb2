//! Where somebody is told of the updates of a task, and how far they were told.
//!
//! Each place has the number of the next update to deliver, which grows by one with each delivery: everything
//! arrives at least once and in order, whatever process delivers it.

use cleveragents_domain::{EventKind, NewEvent, TaskId, Timestamp};
use serde_json::{Value, json};

use super::tasks::{self, Task};
use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// Where somebody is told of the updates of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct PushConfig {
    /// Of which task.
    pub task: TaskId,
    /// Its id, unique for the task.
    pub id: String,
    /// What who asked wants.
    pub config: Value,
    /// The number of the next update to deliver.
    pub next_number: u64,
    /// How often that was tried in vain.
    pub attempts: u64,
    /// When it is tried again.
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
        config: stored_json("where to push", &row.take::<String>()?)?,
        next_number: row.take()?,
        attempts: row.take()?,
        next_at: row.take()?,
    })
}

/// Stores where updates go from now on; in place of what has the same id. `false` when the task has `most` others
/// already.
pub fn set(
    unit: &mut UnitOfWork<'_>,
    task: &Task,
    id: &str,
    config: &Value,
    most: u64,
) -> Result<bool, Error> {
    let now = unit.now();
    // Two that are added at once must not both find room.
    tasks::locked(unit, task.id)?;
    let others: u64 = unit
        .query_first(
            "SELECT COUNT(*) FROM push_configs WHERE task_id = ?1 AND config_id <> ?2",
            params![task.id, id],
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    if others >= most {
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

/// Where updates of a task go, by id.
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

/// Removes where updates go. `false` when it was not there.
pub fn remove(unit: &mut UnitOfWork<'_>, task: TaskId, id: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM push_configs WHERE task_id = ?1 AND config_id = ?2",
        params![task, id],
    )?;
    Ok(touched == 1)
}

/// What has something to deliver, the one that waits longest first, whether or not its time has come.
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

/// Takes the delivery of the next update upon oneself until a moment. `false` when another was faster.
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

/// Notes that updates before a number were delivered, or given up.
pub fn delivered(
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

/// Notes that an update was not delivered and when to try again.
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

/// Leaves a record of what could not be delivered, and why. Where it was to go may hold secrets and is left out.
fn announce(unit: &mut UnitOfWork<'_>, push: &PushConfig, error: &str, is_given_up: bool) {
    unit.emit(NewEvent {
        kind: EventKind::TaskPushFailed,
        subject: push.task.to_string(),
        payload: json!({
            "push": push.id, "update": push.next_number, "attempt": push.attempts + 1,
            "reason": error, "is_given_up": is_given_up,
        }),
    });
}
