//! Custom tools and validations as their files define them, and rules that people said "always" to.
//!
//! Tools and validations share one space of names: what has a name is the one or the other.

use cleveragents_domain::{EventKind, NewEvent, Timestamp};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// What the file under a name defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// A tool, which can be called.
    Tool,
    /// A validation, which judges.
    Validation,
}

impl ToolKind {
    /// The kind as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Validation => "validation",
        }
    }
}

/// A registered tool or validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTool {
    /// Which of the two it is.
    pub kind: ToolKind,
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
        kind: if row.take::<String>()? == ToolKind::Validation.as_str() {
            ToolKind::Validation
        } else {
            ToolKind::Tool
        },
        name: row.take()?,
        definition: row.take()?,
        source: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// Registers a tool or a validation. `false` when one of that name is there already.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    kind: ToolKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO tools (kind, name, definition, source, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (name) DO NOTHING",
        params![kind.as_str(), name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ToolRegistered, kind, name);
    }
    Ok(touched > 0)
}

/// Registers a tool or a validation again. `false` when there is none of that kind and name.
pub fn update(
    unit: &mut UnitOfWork<'_>,
    kind: ToolKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE tools SET definition = ?3, source = ?4, version = version + 1, updated_at = ?5 \
         WHERE kind = ?1 AND name = ?2",
        params![kind.as_str(), name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ToolUpdated, kind, name);
    }
    Ok(touched > 0)
}

/// Removes a tool or a validation. `false` when there is none of that kind and name.
pub fn remove(unit: &mut UnitOfWork<'_>, kind: ToolKind, name: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM tools WHERE kind = ?1 AND name = ?2",
        params![kind.as_str(), name],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ToolRemoved, kind, name);
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, event: EventKind, kind: ToolKind, name: &str) {
    let payload = match kind {
        ToolKind::Tool => json!({}),
        ToolKind::Validation => json!({"kind": kind.as_str()}),
    };
    emit(unit, event, name, payload);
}

fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, subject: &str, payload: serde_json::Value) {
    unit.emit(NewEvent {
        kind,
        subject: subject.to_owned(),
        payload,
    });
}

macro_rules! columns {
    () => {
        "kind, name, definition, source, version, created_at, updated_at"
    };
}

/// Every registered tool or validation, by name.
pub fn list(reader: &mut dyn Reader, kind: ToolKind) -> Result<Vec<StoredTool>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tools WHERE kind = ?1 ORDER BY name"
            ),
            params![kind.as_str()],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// What is registered under a name.
pub fn get(reader: &mut dyn Reader, name: &str) -> Result<Option<StoredTool>, Error> {
    reader
        .query_first(
            concat!("SELECT ", columns!(), " FROM tools WHERE name = ?1"),
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
        emit(unit, EventKind::PermissionGranted, rule, json!({}));
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
        emit(unit, EventKind::PermissionRevoked, rule, json!({}));
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
