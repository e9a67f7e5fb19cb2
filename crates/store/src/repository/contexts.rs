//! Actor contexts: named conversations that runs of actors continue.

use cleveragents_domain::{SessionId, Timestamp};

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A named conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Unique name.
    pub name: String,
    /// Session that holds its messages.
    pub session: SessionId,
    /// Number of messages.
    pub messages: u64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

fn read(mut row: Row) -> Result<Context, Error> {
    Ok(Context {
        name: row.take()?,
        session: row.take()?,
        messages: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// Owner recorded on the session of a context.
pub fn owner(name: &str) -> String {
    format!("context {name}")
}

/// Stores a context with its session. Returns `false` when the name is taken.
pub fn insert(unit: &mut UnitOfWork<'_>, name: &str, session: SessionId) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO actor_contexts (name, session_id, created_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (name) DO NOTHING",
        params![name, session, now],
    )?;
    Ok(touched > 0)
}

macro_rules! select {
    ($end:literal) => {
        concat!(
            "SELECT context.name, context.session_id, session.next_sequence, context.created_at, \
             session.updated_at FROM actor_contexts context \
             JOIN sessions session ON session.session_id = context.session_id ",
            $end
        )
    };
}

/// Returns the context with this name.
pub fn get(reader: &mut dyn Reader, name: &str) -> Result<Option<Context>, Error> {
    reader
        .query_first(select!("WHERE context.name = ?1"), params![name])?
        .map(read)
        .transpose()
}

/// All contexts, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<Context>, Error> {
    reader
        .query(select!("ORDER BY context.name"), &[])?
        .into_iter()
        .map(read)
        .collect()
}
