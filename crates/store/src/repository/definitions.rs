//! Actors, skills, servers of tools, actions and automation profiles as their files define them.

use cleveragents_domain::{EventKind, NewEvent, Timestamp};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefinitionKind {
    /// An actor.
    Actor,
    /// A skill.
    Skill,
    /// A server that speaks the Model Context Protocol.
    McpServer,
    /// An action: the template of plans.
    Action,
    /// An automation profile.
    AutomationProfile,
}

impl DefinitionKind {
    /// The kind as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Actor => "actor",
            Self::Skill => "skill",
            Self::McpServer => "mcp_server",
            Self::Action => "action",
            Self::AutomationProfile => "automation_profile",
        }
    }
}

/// A registered definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Its name.
    pub name: String,
    /// Its text, as the file held it.
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

fn read(mut row: Row) -> Result<StoredDefinition, Error> {
    Ok(StoredDefinition {
        name: row.take()?,
        definition: row.take()?,
        source: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// Registers a definition. `false` when there is one of that kind and name already.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    kind: DefinitionKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO definitions (kind, name, definition, source, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (kind, name) DO NOTHING",
        params![kind.as_str(), name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionRegistered, kind, name);
    }
    Ok(touched > 0)
}

/// Registers a definition again. `false` when there is none of that kind and name.
pub fn update(
    unit: &mut UnitOfWork<'_>,
    kind: DefinitionKind,
    name: &str,
    definition: &str,
    source: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE definitions SET definition = ?3, source = ?4, version = version + 1, updated_at = ?5 \
         WHERE kind = ?1 AND name = ?2",
        params![kind.as_str(), name, definition, source, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionUpdated, kind, name);
    }
    Ok(touched > 0)
}

/// Removes a definition. `false` when there is none of that kind and name.
pub fn remove(unit: &mut UnitOfWork<'_>, kind: DefinitionKind, name: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM definitions WHERE kind = ?1 AND name = ?2",
        params![kind.as_str(), name],
    )?;
    if touched > 0 {
        announce(unit, EventKind::DefinitionRemoved, kind, name);
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, event: EventKind, kind: DefinitionKind, name: &str) {
    unit.emit(NewEvent {
        kind: event,
        subject: name.to_owned(),
        payload: json!({"kind": kind.as_str()}),
    });
}

/// Every registered definition of a kind, by name.
pub fn list(reader: &mut dyn Reader, kind: DefinitionKind) -> Result<Vec<StoredDefinition>, Error> {
    reader
        .query(
            "SELECT name, definition, source, version, created_at, updated_at FROM definitions \
             WHERE kind = ?1 ORDER BY name",
            params![kind.as_str()],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// One registered definition.
pub fn get(
    reader: &mut dyn Reader,
    kind: DefinitionKind,
    name: &str,
) -> Result<Option<StoredDefinition>, Error> {
    reader
        .query_first(
            "SELECT name, definition, source, version, created_at, updated_at FROM definitions \
             WHERE kind = ?1 AND name = ?2",
            params![kind.as_str(), name],
        )?
        .map(read)
        .transpose()
}

/// Makes the unit the only one that adds, changes or removes definitions until it ends, as long as
/// others ask for the same.
pub fn lock(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    crate::repository::resources::lock(unit)
}
