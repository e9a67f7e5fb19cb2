//! Resources and the tree they form.
//!
//! A resource may lie below several others, never below itself. Whether a link would close a circle
//! is asked by the unit of work that makes it, after [`lock`]: nobody else can link in between.

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

fn many(rows: Vec<Row>) -> Result<Vec<Resource>, Error> {
    rows.into_iter().map(|mut row| read(&mut row)).collect()
}

/// Makes the unit the only one that changes resource types, resources, links and projects until it
/// ends. What is then read stays true while the unit writes.
pub fn lock(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    match unit.dialect().lock_registry() {
        Some(sql) => unit.query_first(sql, &[]).map(drop),
        None => Ok(()),
    }
}

/// The type when it has a row of its own.
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

/// Stores a new resource; version and times are set by the unit.
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

/// Replaces what is known of a resource that is still at the version given with it.
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
        let actual = get(unit, resource.id)?.map_or(Version(0), |found| found.version);
        return Err(Error::Conflict {
            what: format!("resource {}", resource.name),
            expected: resource.version,
            actual,
        });
    }
    announce(unit, EventKind::ResourceUpdated, resource);
    Ok(())
}

/// Removes a resource. The database refuses it while a project or a link refers to it.
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

/// The resource with an id.
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

/// The resource with a name.
pub fn with_name(reader: &mut dyn Reader, name: &ResourceName) -> Result<Option<Resource>, Error> {
    reader
        .query_first(
            concat!("SELECT ", columns!(), " FROM resources WHERE name = ?1"),
            params![name.as_str()],
        )?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// Resources whose id begins with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Resource>, Error> {
    let last = format!("{prefix:Z<26}");
    many(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM resources WHERE resource_id >= ?1 AND resource_id <= ?2 \
             ORDER BY resource_id LIMIT ?3"
        ),
        params![prefix, last, limit],
    )?)
}

/// Resources at a place, those that people registered first, then the oldest.
pub fn at_location(reader: &mut dyn Reader, location: &str) -> Result<Vec<Resource>, Error> {
    many(reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM resources WHERE location = ?1 ORDER BY auto_discovered, resource_id"
        ),
        params![location],
    )?)
}

/// Every resource, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<Resource>, Error> {
    many(reader.query(
        concat!("SELECT ", columns!(), " FROM resources ORDER BY name"),
        &[],
    )?)
}

/// One end of a link: the resource there, and whether discovery made the link.
#[derive(Debug, Clone, PartialEq)]
pub struct Linked {
    /// The resource at the other end.
    pub resource: Resource,
    /// Whether discovery made the link.
    pub auto_discovered: bool,
}

fn linked(rows: Vec<Row>) -> Result<Vec<Linked>, Error> {
    rows.into_iter()
        .map(|mut row| {
            Ok(Linked {
                resource: read(&mut row)?,
                auto_discovered: row.take()?,
            })
        })
        .collect()
}

/// What lies directly below a resource, by name.
pub fn children(reader: &mut dyn Reader, id: ResourceId) -> Result<Vec<Linked>, Error> {
    linked(reader.query(
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

/// What a resource lies directly below, discovered links first, then by id.
pub fn parents(reader: &mut dyn Reader, id: ResourceId) -> Result<Vec<Linked>, Error> {
    linked(reader.query(
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
    /// What contains.
    pub parent: ResourceId,
    /// What is contained.
    pub child: ResourceId,
    /// Whether discovery made it.
    pub auto_discovered: bool,
}

/// Every link.
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

/// The link between two resources.
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

/// How making a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// It is there now.
    Made,
    /// It was there before.
    Present,
    /// The parent already lies below the child, or is the child: nothing was written.
    Circle,
}

/// Whether walking down from `upper` comes to `lower`.
pub fn reaches(
    reader: &mut dyn Reader,
    upper: ResourceId,
    lower: ResourceId,
) -> Result<bool, Error> {
    // UNION, not UNION ALL: a resource is visited once however many ways lead to it.
    let found = reader.query_first(
        "WITH RECURSIVE below (resource_id) AS ( \
             SELECT resource_id FROM resources WHERE resource_id = ?1 \
             UNION \
             SELECT resource_links.child_id FROM resource_links \
             JOIN below ON resource_links.parent_id = below.resource_id) \
         SELECT COUNT(*) FROM below WHERE resource_id = ?2",
        params![upper, lower],
    )?;
    let count: u64 = found.map_or(Ok(0), |mut row| row.take())?;
    Ok(count > 0)
}

/// Puts a resource below another, unless that would close a circle. Locks first, so that two units
/// cannot close one together.
pub fn link(unit: &mut UnitOfWork<'_>, link: Link) -> Result<Linking, Error> {
    lock(unit)?;
    if find_link(unit, link.parent, link.child)?.is_some() {
        return Ok(Linking::Present);
    }
    if reaches(unit, link.child, link.parent)? {
        return Ok(Linking::Circle);
    }
    let now = unit.now();
    unit.execute(
        "INSERT INTO resource_links (parent_id, child_id, auto_discovered, created_at) \
         VALUES (?1, ?2, ?3, ?4)",
        params![link.parent, link.child, link.auto_discovered, now],
    )?;
    tell_link(unit, EventKind::ResourceLinked, &link);
    Ok(Linking::Made)
}

/// Takes a resource away from below another. `false` when it was not there.
pub fn unlink(unit: &mut UnitOfWork<'_>, link: Link) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM resource_links WHERE parent_id = ?1 AND child_id = ?2",
        params![link.parent, link.child],
    )?;
    if touched > 0 {
        tell_link(unit, EventKind::ResourceUnlinked, &link);
    }
    Ok(touched > 0)
}

fn tell_link(unit: &mut UnitOfWork<'_>, kind: EventKind, link: &Link) {
    let payload: Value = json!({"child": link.child, "auto_discovered": link.auto_discovered});
    unit.emit(NewEvent {
        kind,
        subject: link.parent.to_string(),
        payload,
    });
}
