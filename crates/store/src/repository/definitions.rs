//! Definitions of every kind, stored as the text of their files.
//!
//! Tools and validations share one namespace and the table `tools`. All other kinds are in the table `definitions`,
//! where a name is unique within its kind.

pub use cleveragents_domain::DefinitionKind;
use cleveragents_domain::{EventKind, NewEvent, Timestamp};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// Whether definitions of a kind are in the table `tools`.
const fn is_tool(kind: DefinitionKind) -> bool {
    matches!(kind, DefinitionKind::Tool | DefinitionKind::Validation)
}

/// A statement on the table of a kind.
macro_rules! on_table {
    ($kind:expr, $before:literal, $after:literal) => {
        if is_tool($kind) {
            concat!($before, " tools ", $after)
        } else {
            concat!($before, " definitions ", $after)
        }
    };
}

/// A registered definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Name, unique within its kind.
    pub name: String,
    /// Text of the file.
    pub definition: String,
    /// Path of the file.
    pub source: String,
    /// Number of times it was registered.
    pub version: u64,
    /// Time of the first registration.
    pub created_at: Timestamp,
    /// Time of the latest registration.
    pub updated_at: Timestamp,
    /// Time at which it was archived; `None` for an active definition.
    pub archived_at: Option<Timestamp>,
}

fn read(mut row: Row) -> Result<StoredDefinition, Error> {
    Ok(StoredDefinition {
        name: row.take()?,
        definition: row.take()?,
        source: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
        archived_at: row.take()?,
    })
}

/// Registers a definition. Returns `false` when the name is taken.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    kind: DefinitionKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let sql = if is_tool(kind) {
        "INSERT INTO tools (kind, name, definition, source, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (name) DO NOTHING"
    } else {
        "INSERT INTO definitions (kind, name, definition, source, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (kind, name) DO NOTHING"
    };
    let touched = unit.execute(sql, params![kind.as_str(), name, definition, source, now])?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionRegistered, kind, name);
    }
    Ok(touched > 0)
}

/// Replaces a definition. Returns `false` when this kind and name do not exist.
pub fn update(
    unit: &mut UnitOfWork<'_>,
    kind: DefinitionKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        on_table!(
            kind,
            "UPDATE",
            "SET definition = ?3, source = ?4, version = version + 1, updated_at = ?5 \
             WHERE kind = ?1 AND name = ?2"
        ),
        params![kind.as_str(), name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionUpdated, kind, name);
    }
    Ok(touched > 0)
}

/// Removes a definition. Returns `false` when this kind and name do not exist.
pub fn remove(unit: &mut UnitOfWork<'_>, kind: DefinitionKind, name: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        on_table!(kind, "DELETE FROM", "WHERE kind = ?1 AND name = ?2"),
        params![kind.as_str(), name],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionRemoved, kind, name);
    }
    Ok(touched > 0)
}

/// Archives an active definition. Returns `false` when no active definition has this name; of two concurrent calls, one
/// succeeds.
pub fn archive(unit: &mut UnitOfWork<'_>, kind: DefinitionKind, name: &str) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE definitions SET archived_at = ?3 \
         WHERE kind = ?1 AND name = ?2 AND archived_at IS NULL",
        params![kind.as_str(), name, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionArchived, kind, name);
    }
    Ok(touched > 0)
}

/// Restores an archived definition. Returns `false` when no archived definition has this name.
pub fn unarchive(
    unit: &mut UnitOfWork<'_>,
    kind: DefinitionKind,
    name: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE definitions SET archived_at = NULL \
         WHERE kind = ?1 AND name = ?2 AND archived_at IS NOT NULL",
        params![kind.as_str(), name],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionUnarchived, kind, name);
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, event: EventKind, kind: DefinitionKind, name: &str) {
    let kind_of_event = match (kind, event) {
        (DefinitionKind::Tool | DefinitionKind::Validation, EventKind::DefinitionRegistered) => {
            EventKind::ToolRegistered
        }
        (DefinitionKind::Tool | DefinitionKind::Validation, EventKind::DefinitionUpdated) => {
            EventKind::ToolUpdated
        }
        (DefinitionKind::Tool | DefinitionKind::Validation, EventKind::DefinitionRemoved) => {
            EventKind::ToolRemoved
        }
        (_, event) => event,
    };
    unit.emit(NewEvent {
        kind: kind_of_event,
        subject: name.to_owned(),
        payload: match kind {
            DefinitionKind::Tool => json!({}),
            kind => json!({"kind": kind.as_str()}),
        },
    });
}

/// Query for the definitions of a kind: one by name, or all. Tools and validations cannot be archived.
const fn select(kind: DefinitionKind, by_name: bool) -> &'static str {
    match (is_tool(kind), by_name) {
        (true, true) => {
            "SELECT name, definition, source, version, created_at, updated_at, CAST(NULL AS BIGINT) \
             FROM tools WHERE kind = ?1 AND name = ?2"
        }
        (true, false) => {
            "SELECT name, definition, source, version, created_at, updated_at, CAST(NULL AS BIGINT) \
             FROM tools WHERE kind = ?1 ORDER BY name"
        }
        (false, true) => {
            "SELECT name, definition, source, version, created_at, updated_at, archived_at \
             FROM definitions WHERE kind = ?1 AND name = ?2"
        }
        (false, false) => {
            "SELECT name, definition, source, version, created_at, updated_at, archived_at \
             FROM definitions WHERE kind = ?1 ORDER BY name"
        }
    }
}

/// Every registered definition of a kind, by name.
pub fn list(reader: &mut dyn Reader, kind: DefinitionKind) -> Result<Vec<StoredDefinition>, Error> {
    let rows = reader.query(select(kind, false), params![kind.as_str()])?;
    rows.into_iter().map(read).collect()
}

/// Returns one registered definition.
pub fn get(
    reader: &mut dyn Reader,
    kind: DefinitionKind,
    name: &str,
) -> Result<Option<StoredDefinition>, Error> {
    let row = reader.query_first(select(kind, true), params![kind.as_str(), name])?;
    row.map(read).transpose()
}

/// Serializes this unit with all other units that call `lock`, until it ends. Called before definitions are added,
/// changed or removed.
pub fn lock(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    crate::repository::resources::lock(unit)
}
