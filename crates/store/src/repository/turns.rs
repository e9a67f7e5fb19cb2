//! Turns. The row of a turn is stored when the turn starts, and each step as it happens.
//!
//! A unique index allows one running turn per session.

use cleveragents_domain::{EventKind, NewEvent, SessionId, Turn, TurnId, TurnState};
use serde_json::{Value, json};

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "turn_id, session_id, model, sandbox, state, error, started_at, ended_at"
    };
}

fn read(mut row: Row) -> Result<Turn, Error> {
    Ok(Turn {
        id: row.take()?,
        session: row.take()?,
        model: row.take()?,
        sandbox: row.take()?,
        state: {
            let state: String = row.take()?;
            TurnState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a turn", format!("is `{state}`")))?
        },
        error: row.take()?,
        started_at: row.take()?,
        ended_at: row.take()?,
    })
}

/// Starts a turn. `first` is its first step, a message as JSON.
pub fn begin(
    unit: &mut UnitOfWork<'_>,
    id: TurnId,
    session: SessionId,
    model: &str,
    first: &str,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO turns (turn_id, session_id, model, state, started_at) \
         VALUES (?1, ?2, ?3, 'running', ?4)",
        params![id, session, model, now],
    )?;
    add_step(unit, id, 0, first)?;
    unit.emit(NewEvent {
        kind: EventKind::TurnStarted,
        subject: session.to_string(),
        payload: json!({"turn": id, "model": model}),
    });
    Ok(())
}

/// Marks that a turn has a response whose cost is unknown.
pub fn mark_unpriced(unit: &mut UnitOfWork<'_>, id: TurnId) -> Result<(), Error> {
    unit.execute(
        "UPDATE turns SET is_cost_partial = 1 WHERE turn_id = ?1 AND is_cost_partial = 0",
        params![id],
    )?;
    Ok(())
}

/// Whether a session has a response whose cost is unknown.
pub fn has_unpriced(reader: &mut dyn Reader, session: SessionId) -> Result<bool, Error> {
    let row = reader.query_first(
        "SELECT turn_id FROM turns WHERE session_id = ?1 AND is_cost_partial = 1 LIMIT 1",
        params![session],
    )?;
    Ok(row.is_some())
}

/// Adds the next step of a running turn. `message` is JSON.
pub fn add_step(
    unit: &mut UnitOfWork<'_>,
    id: TurnId,
    number: u64,
    message: &str,
) -> Result<(), Error> {
    unit.execute(
        "INSERT INTO turn_steps (turn_id, number, message) VALUES (?1, ?2, ?3)",
        params![id, number, message],
    )?;
    Ok(())
}

/// Attaches a note to a step: data about its model request that a retry needs.
pub fn note(unit: &mut UnitOfWork<'_>, id: TurnId, number: u64, note: &Value) -> Result<(), Error> {
    let row = unit.query_first(
        "SELECT message FROM turn_steps WHERE turn_id = ?1 AND number = ?2",
        params![id, number],
    )?;
    let Some(mut row) = row else {
        return Err(Error::stored("a step of a turn", "is missing"));
    };
    let message: String = row.take()?;
    let mut message: Value = stored_json("a step of a turn", &message)?;
    message[NOTE_KEY] = note.clone();
    unit.execute(
        "UPDATE turn_steps SET message = ?3 WHERE turn_id = ?1 AND number = ?2",
        params![id, number, json_text(&message)],
    )?;
    Ok(())
}

/// The note attached to a step.
pub fn noted(step: &Value) -> Option<&Value> {
    step.get(NOTE_KEY)
}

/// JSON key of the note, next to the message of a step.
const NOTE_KEY: &str = "noted";

/// Stores the sandbox that a turn works in.
pub fn set_sandbox(unit: &mut UnitOfWork<'_>, id: TurnId, sandbox: &str) -> Result<(), Error> {
    unit.execute(
        "UPDATE turns SET sandbox = ?2 WHERE turn_id = ?1",
        params![id, sandbox],
    )?;
    Ok(())
}

/// Ends a running turn. Returns `false` when it is not running.
pub fn end(unit: &mut UnitOfWork<'_>, turn: &Turn, error: Option<&str>) -> Result<bool, Error> {
    let now = unit.now();
    let state = match error {
        None => TurnState::Complete,
        Some(_) => TurnState::Failed,
    };
    let touched = unit.execute(
        "UPDATE turns SET state = ?2, error = ?3, ended_at = ?4 \
         WHERE turn_id = ?1 AND state = 'running'",
        params![turn.id, state.as_str(), error, now],
    )?;
    if touched == 0 {
        return Ok(false);
    }
    unit.emit(NewEvent {
        kind: EventKind::TurnEnded,
        subject: turn.session.to_string(),
        payload: json!({"turn": turn.id, "state": state, "error": error}),
    });
    Ok(true)
}

/// The turn of a session that is running, or was running when its process died.
pub fn running(reader: &mut dyn Reader, session: SessionId) -> Result<Option<Turn>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM turns WHERE session_id = ?1 AND state = 'running'"
            ),
            params![session],
        )?
        .map(read)
        .transpose()
}

/// Turns of a session, oldest first.
pub fn of_session(reader: &mut dyn Reader, session: SessionId) -> Result<Vec<Turn>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM turns WHERE session_id = ?1 ORDER BY turn_id"
            ),
            params![session],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Steps of a turn, in order.
pub fn steps(reader: &mut dyn Reader, id: TurnId) -> Result<Vec<Value>, Error> {
    reader
        .query(
            "SELECT message FROM turn_steps WHERE turn_id = ?1 ORDER BY number",
            params![id],
        )?
        .into_iter()
        .map(|mut row| stored_json("a step of a turn", &row.take::<String>()?))
        .collect()
}
