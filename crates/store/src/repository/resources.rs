//! Resources and the graph they form.
//!
//! A resource may have several parents, but no cycles are allowed. The unit of work that adds a
//! link checks for a cycle after calling [`lock`], so no other unit can add a link in between.

use cleveragents_domain::{
    EventKind, NewEvent, Resource, ResourceId, ResourceName, TypeName, Version,
};
use serde_json::{Value, json};

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "resources.resource_id, resources.name, resources.type, resources.properties, \
         resources.location, resources.description, resources.read_only, \
         resources.auto_discovered, resources.content_hash, resources.version, \
         resources.created_at, resources.updated_at"
    };
}

fn read(row: &mut Row) -> Result<Resource, Error> {
    Ok(Resource {
        id: row.take()?,
        name: row.take()?,
        type_name: row.take()?,
        properties: stored_json("the properties of a resource", &row.take::<String>()?)?,
        location: row.take()?,
        description: row.take()?,
        read_only: row.take()?,
        auto_discovered: row.take()?,
        content_hash: row.take()?,
        version: Version(row.take()?),
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

fn read_all(rows: Vec<Row>) -> Result<Vec<Resource>, Error> {
    rows.into_iter().map(|mut row| read(&mut row)).collect()
}

/// Takes the lock on resource types, resources, links and projects until this unit ends: no other unit changes them, so
/// rows that this unit reads after the lock stay valid while it writes.
pub fn lock(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    match unit.dialect().lock_registry() {
        Some(sql) => unit.query_first(sql, &[]).map(drop),
        None => Ok(()),
    }
}

/// The type's name when it is a custom type, which has a row of its own.
fn custom_type(type_name: &TypeName) -> Option<&str> {
    (!type_name.is_bare()).then(|| type_name.as_str())
}

fn properties_text(resource: &Resource) -> String {
    json_text(&json!(resource.properties))
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, resource: &Resource) {
    unit.emit(NewEvent {
        kind,
        subject: resource.id.to_string(),
        payload: json!({"name": resource.name, "type": resource.type_name}),
    });
}

/// Stores a new resource; the unit sets version and times.
pub fn insert(unit: &mut UnitOfWork<'_>, resource: &Resource) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO resources (resource_id, name, type, custom_type, properties, location, \
         description, read_only, auto_discovered, content_hash, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)",
        params![
            resource.id,
            resource.name.as_str(),
            resource.type_name.as_str(),
            custom_type(&resource.type_name),
            properties_text(resource),
            resource.location.as_deref(),
            resource.description.as_deref(),
            resource.read_only,
            resource.auto_discovered,
            resource.content_hash,
            now,
        ],
    )?;
    let kind = if resource.auto_discovered {
        EventKind::ResourceDiscovered
    } else {
        EventKind::ResourceRegistered
    };
    announce(unit, kind, resource);
    Ok(())
}

/// Replaces a resource if its stored version is still the given one.
pub fn update(unit: &mut UnitOfWork<'_>, resource: &Resource) -> Result<(), Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE resources SET properties = ?2, location = ?3, description = ?4, read_only = ?5, \
         content_hash = ?6, version = version + 1, updated_at = ?7 \
         WHERE resource_id = ?1 AND version = ?8",
        params![
            resource.id,
            properties_text(resource),
            resource.location.as_deref(),
            resource.description.as_deref(),
            resource.read_only,
            resource.content_hash,
            now,
            resource.version.0,
        ],
    )?;
    if touched == 0 {
        let actual = get(unit, resource.id)?.map_or(Version(0), |stored| stored.version);
        return Err(Error::Conflict {
            what: format!("resource {}", resource.name),
            expected: resource.version,
            actual,
        });
    }
    announce(unit, EventKind::ResourceUpdated, resource);
    Ok(())
}

/// Deletes a resource. The database refuses while a project or a link refers to it.
pub fn delete(unit: &mut UnitOfWork<'_>, resource: &Resource) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM resources WHERE resource_id = ?1",
        params![resource.id],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ResourceRemoved, resource);
    }
    Ok(touched > 0)
}

/// Returns the resource with this id.
pub fn get(reader: &mut dyn Reader, id: ResourceId) -> Result<Option<Resource>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM resources WHERE resource_id = ?1"
            ),
            params![id],
        )?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// Returns the resource with this name.
pub fn with_name(reader: &mut dyn Reader, name: &ResourceName) -> Result<Option<Resource>, Error> {
    reader
        .query_first(
            concat!("SELECT ", columns!(), " FROM resources WHERE name = ?1"),
            params![name.as_str()],
        )?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// Resources whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Resource>, Error> {
    let last = format!("{prefix:Z<26}");
    read_all(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM resources WHERE resource_id >= ?1 AND resource_id <= ?2 \
             ORDER BY resource_id LIMIT ?3"
        ),
        params![prefix, last, limit],
    )?)
}

/// Resources at a location: those registered by users first, then the oldest.
pub fn at_location(reader: &mut dyn Reader, location: &str) -> Result<Vec<Resource>, Error> {
    read_all(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM resources WHERE location = ?1 ORDER BY auto_discovered, resource_id"
        ),
        params![location],
    )?)
}

/// All resources, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<Resource>, Error> {
    read_all(reader.query(
        concat!("SELECT ", columns!(), " FROM resources ORDER BY name"),
        &[],
    )?)
}

/// A linked resource, and whether discovery created the link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkedResource {
    /// Resource at the other end.
    pub resource: Resource,
    /// Whether discovery created the link.
    pub auto_discovered: bool,
}

fn read_linked(rows: Vec<Row>) -> Result<Vec<LinkedResource>, Error> {
    rows.into_iter()
        .map(|mut row| {
            Ok(LinkedResource {
                resource: read(&mut row)?,
                auto_discovered: row.take()?,
            })
        })
        .collect()
}

/// Direct children of a resource, by name.
pub fn children(reader: &mut dyn Reader, id: ResourceId) -> Result<Vec<LinkedResource>, Error> {
    read_linked(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            ", resource_links.auto_discovered FROM resource_links \
             JOIN resources ON resources.resource_id = resource_links.child_id \
             WHERE resource_links.parent_id = ?1 ORDER BY resources.name"
        ),
        params![id],
    )?)
}

/// Direct parents of a resource, discovered links first, then by id.
pub fn parents(reader: &mut dyn Reader, id: ResourceId) -> Result<Vec<LinkedResource>, Error> {
    read_linked(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            ", resource_links.auto_discovered FROM resource_links \
             JOIN resources ON resources.resource_id = resource_links.parent_id \
             WHERE resource_links.child_id = ?1 \
             ORDER BY resource_links.auto_discovered DESC, resources.resource_id"
        ),
        params![id],
    )?)
}

/// A link between two resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Containing resource.
    pub parent: ResourceId,
    /// Contained resource.
    pub child: ResourceId,
    /// Whether discovery created the link.
    pub auto_discovered: bool,
}

pub fn links(reader: &mut dyn Reader) -> Result<Vec<Link>, Error> {
    reader
        .query(
            "SELECT parent_id, child_id, auto_discovered FROM resource_links \
             ORDER BY parent_id, child_id",
            &[],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Link {
                parent: row.take()?,
                child: row.take()?,
                auto_discovered: row.take()?,
            })
        })
        .collect()
}

/// Returns the link between two resources.
pub fn find_link(
    reader: &mut dyn Reader,
    parent: ResourceId,
    child: ResourceId,
) -> Result<Option<Link>, Error> {
    reader
        .query_first(
            "SELECT auto_discovered FROM resource_links WHERE parent_id = ?1 AND child_id = ?2",
            params![parent, child],
        )?
        .map(|mut row| {
            Ok(Link {
                parent,
                child,
                auto_discovered: row.take()?,
            })
        })
        .transpose()
}

/// Outcome of [`link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkResult {
    /// The link was created.
    Made,
    /// The link already existed.
    Present,
    /// The parent is the child or one of its descendants; nothing was written.
    Circle,
}

/// Whether `lower` is `upper` or one of its descendants.
pub fn reaches(
    reader: &mut dyn Reader,
    upper: ResourceId,
    lower: ResourceId,
) -> Result<bool, Error> {
    // UNION, not UNION ALL: a resource is visited once, however many paths lead to it.
    let row = reader.query_first(
        "WITH RECURSIVE below (resource_id) AS ( \
             SELECT resource_id FROM resources WHERE resource_id = ?1 \
             UNION \
             SELECT resource_links.child_id FROM resource_links \
             JOIN below ON resource_links.parent_id = below.resource_id) \
         SELECT COUNT(*) FROM below WHERE resource_id = ?2",
        params![upper, lower],
    )?;
    let count: u64 = row.map_or(Ok(0), |mut row| row.take())?;
    Ok(count > 0)
}

/// Links a child to a parent, unless that would create a cycle. Takes the lock first, so that two
/// units cannot create a cycle together.
pub fn link(unit: &mut UnitOfWork<'_>, link: Link) -> Result<LinkResult, Error> {
    lock(unit)?;
    if find_link(unit, link.parent, link.child)?.is_some() {
        return Ok(LinkResult::Present);
    }
    if reaches(unit, link.child, link.parent)? {
        return Ok(LinkResult::Circle);
    }
    let now = unit.now();
    unit.execute(
        "INSERT INTO resource_links (parent_id, child_id, auto_discovered, created_at) \
         VALUES (?1, ?2, ?3, ?4)",
        params![link.parent, link.child, link.auto_discovered, now],
    )?;
    emit_link_event(unit, EventKind::ResourceLinked, &link);
    Ok(LinkResult::Made)
}

/// Removes a link. Returns `false` when it did not exist.
pub fn unlink(unit: &mut UnitOfWork<'_>, link: Link) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM resource_links WHERE parent_id = ?1 AND child_id = ?2",
        params![link.parent, link.child],
    )?;
    if touched > 0 {
        emit_link_event(unit, EventKind::ResourceUnlinked, &link);
    }
    Ok(touched > 0)
}

fn emit_link_event(unit: &mut UnitOfWork<'_>, kind: EventKind, link: &Link) {
    let payload: Value = json!({"child": link.child, "auto_discovered": link.auto_discovered});
    unit.emit(NewEvent {
        kind,
        subject: link.parent.to_string(),
        payload,
    });
}
