//! Custom resource types (those not built into the program): their definitions, and the rows that refer to them.

use cleveragents_domain::{EventKind, NewEvent, ResourceType, TypeName};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// Version of the format in which definitions are stored.
const FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    form: u32,
    resource_type: ResourceType,
}

fn definition_json(declared: &ResourceType) -> Result<String, Error> {
    serde_json::to_string(&Definition {
        form: FORMAT_VERSION,
        resource_type: declared.clone(),
    })
    .map_err(|error| Error::stored("a resource type", format!("cannot be stored: {error}")))
}

fn read(mut row: Row) -> Result<ResourceType, Error> {
    let stored: Definition = stored_json("a resource type", &row.take::<String>()?)?;
    if stored.form != FORMAT_VERSION {
        return Err(Error::stored(
            format!("the resource type {}", stored.resource_type.name),
            format!(
                "is stored in format version {}, this program reads {FORMAT_VERSION}",
                stored.form
            ),
        ));
    }
    Ok(stored.resource_type)
}

/// The custom type that a type inherits from, if any; built-in types have no row.
fn inherits_custom(declared: &ResourceType) -> Option<&str> {
    declared
        .inherits
        .as_ref()
        .filter(|parent| !parent.is_bare())
        .map(TypeName::as_str)
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, name: &TypeName) {
    unit.emit(NewEvent {
        kind,
        subject: name.to_string(),
        payload: json!({}),
    });
}

/// Stores a new type.
pub fn insert(unit: &mut UnitOfWork<'_>, declared: &ResourceType) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO resource_types (name, inherits_custom, definition, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?4)",
        params![
            declared.name.as_str(),
            inherits_custom(declared),
            definition_json(declared)?,
            now
        ],
    )?;
    announce(unit, EventKind::ResourceTypeRegistered, &declared.name);
    Ok(())
}

/// Replaces the definition of a type. Returns `false` when it does not exist.
pub fn update(unit: &mut UnitOfWork<'_>, declared: &ResourceType) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE resource_types SET inherits_custom = ?2, definition = ?3, version = version + 1, \
         updated_at = ?4 WHERE name = ?1",
        params![
            declared.name.as_str(),
            inherits_custom(declared),
            definition_json(declared)?,
            now
        ],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ResourceTypeUpdated, &declared.name);
    }
    Ok(touched > 0)
}

/// All stored types, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<ResourceType>, Error> {
    reader
        .query("SELECT definition FROM resource_types ORDER BY name", &[])?
        .into_iter()
        .map(read)
        .collect()
}

/// References to a type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TypeUsers {
    /// Names of the resources of this type.
    pub resources: Vec<String>,
    /// Names of the types that inherit from it.
    pub subtypes: Vec<String>,
}

impl TypeUsers {
    /// Whether no resource or type refers to the type.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.subtypes.is_empty()
    }
}

/// Finds the resources and types that refer to a stored type.
pub fn users(reader: &mut dyn Reader, name: &TypeName) -> Result<TypeUsers, Error> {
    let mut names = |sql: &str| -> Result<Vec<String>, Error> {
        reader
            .query(sql, params![name.as_str()])?
            .into_iter()
            .map(|mut row| row.take())
            .collect()
    };
    Ok(TypeUsers {
        resources: names("SELECT name FROM resources WHERE custom_type = ?1 ORDER BY name")?,
        subtypes: names(
            "SELECT name FROM resource_types WHERE inherits_custom = ?1 ORDER BY name",
        )?,
    })
}

/// Deletes a type. The database refuses while a resource or type refers to it. Returns `false` when it does
/// not exist.
pub fn delete(unit: &mut UnitOfWork<'_>, name: &TypeName) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM resource_types WHERE name = ?1",
        params![name.as_str()],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ResourceTypeRemoved, name);
    }
    Ok(touched > 0)
}
