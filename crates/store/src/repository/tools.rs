//! Custom tools as their files define them, and rules that people said "always" to.

use cleveragents_domain::{EventKind, NewEvent, Timestamp};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A registered tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTool {
    /// Its name.
    pub name: String,
    /// Its YAML, as the file held it.
    pub definition: String,
    /// Where the file was.
    pub source: String,
    /// How often it was registered.
    pub version: u64,
    /// When it was registered first.
    pub created_at: Timestamp,
    /// When it was registered last.
    pub updated_at: Timestamp,
}

fn read(mut row: Row) -> Result<StoredTool, Error> {
    Ok(StoredTool {
        name: row.take()?,
        definition: row.take()?,
        source: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// Registers a tool. `false` when one of that name is there already.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO tools (name, definition, source, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (name) DO NOTHING",
        params![name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ToolRegistered, name);
    }
    Ok(touched > 0)
}

/// Registers a tool again. `false` when there is none of that name.
pub fn update(
    unit: &mut UnitOfWork<'_>,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE tools SET definition = ?2, source = ?3, version = version + 1, updated_at = ?4 \
         WHERE name = ?1",
        params![name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ToolUpdated, name);
    }
    Ok(touched > 0)
}

/// Removes a tool. `false` when there is none of that name.
pub fn remove(unit: &mut UnitOfWork<'_>, name: &str) -> Result<bool, Error> {
    let touched = unit.execute("DELETE FROM tools WHERE name = ?1", params![name])?;
    if touched > 0 {
        announce(unit, EventKind::ToolRemoved, name);
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, name: &str) {
    unit.emit(NewEvent {
        kind,
        subject: name.to_owned(),
        payload: json!({}),
    });
}

/// Every registered tool, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<StoredTool>, Error> {
    reader
        .query(
            "SELECT name, definition, source, version, created_at, updated_at FROM tools ORDER BY name",
            &[],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// One registered tool.
pub fn get(reader: &mut dyn Reader, name: &str) -> Result<Option<StoredTool>, Error> {
    reader
        .query_first(
            "SELECT name, definition, source, version, created_at, updated_at FROM tools WHERE name = ?1",
            params![name],
        )?
        .map(read)
        .transpose()
}

/// Remembers a rule. `false` when it is there already.
pub fn allow_always(unit: &mut UnitOfWork<'_>, rule: &str) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO permission_rules (rule, created_at) VALUES (?1, ?2) \
         ON CONFLICT (rule) DO NOTHING",
        params![rule, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::PermissionGranted, rule);
    }
    Ok(touched > 0)
}

/// Forgets a rule. `false` when it is not there.
pub fn forget_rule(unit: &mut UnitOfWork<'_>, rule: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM permission_rules WHERE rule = ?1",
        params![rule],
    )?;
    if touched > 0 {
        announce(unit, EventKind::PermissionRevoked, rule);
    }
    Ok(touched > 0)
}

/// Every remembered rule, oldest first.
pub fn rules(reader: &mut dyn Reader) -> Result<Vec<String>, Error> {
    reader
        .query(
            "SELECT rule FROM permission_rules ORDER BY created_at, rule",
            &[],
        )?
        .into_iter()
        .map(|mut row| row.take())
        .collect()
}
