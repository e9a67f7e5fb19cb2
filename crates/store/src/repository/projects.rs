//! Projects and the resources they link.

use cleveragents_domain::{
    Alias, EventKind, Name, NewEvent, Project, ProjectId, ProjectLink, ProjectRules, ResourceId,
    Version,
};
use serde_json::json;

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "project_id, name, description, tags, invariants, invariant_actor, automation_profile, \
         version, created_at, updated_at"
    };
}

/// Reads a project without its links, which are read separately.
fn read(mut row: Row) -> Result<Project, Error> {
    Ok(Project {
        id: row.take()?,
        name: row.take()?,
        rules: ProjectRules {
            description: row.take()?,
            tags: stored_json("the tags of a project", &row.take::<String>()?)?,
            invariants: stored_json("the invariants of a project", &row.take::<String>()?)?,
            invariant_actor: row.take()?,
            automation_profile: row.take()?,
        },
        links: Vec::new(),
        version: Version(row.take()?),
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

fn with_links(reader: &mut dyn Reader, mut project: Project) -> Result<Project, Error> {
    project.links = reader
        .query(
            "SELECT resource_id, alias, read_only FROM project_links WHERE project_id = ?1 \
             ORDER BY alias",
            params![project.id],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(ProjectLink {
                resource: row.take()?,
                alias: row.take()?,
                read_only: row.take()?,
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(project)
}

/// Stores a new project without links.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    id: ProjectId,
    name: &Name,
    rules: &ProjectRules,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO projects (project_id, name, description, tags, invariants, invariant_actor, \
         automation_profile, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
        params![
            id,
            name.to_string(),
            rules.description.as_deref(),
            json_text(&json!(rules.tags)),
            json_text(&json!(rules.invariants)),
            rules.invariant_actor.as_ref().map(ToString::to_string),
            rules.automation_profile.as_deref(),
            now,
        ],
    )?;
    unit.emit(NewEvent {
        kind: EventKind::ProjectCreated,
        subject: id.to_string(),
        payload: json!({"name": name}),
    });
    Ok(())
}

/// Returns the project with this id.
pub fn get(reader: &mut dyn Reader, id: ProjectId) -> Result<Option<Project>, Error> {
    let row = reader.query_first(
        concat!(
            "SELECT ",
            columns!(),
            " FROM projects WHERE project_id = ?1"
        ),
        params![id],
    )?;
    row.map(|row| read(row).and_then(|project| with_links(reader, project)))
        .transpose()
}

/// Returns the project with this name.
pub fn with_name(reader: &mut dyn Reader, name: &Name) -> Result<Option<Project>, Error> {
    let row = reader.query_first(
        concat!("SELECT ", columns!(), " FROM projects WHERE name = ?1"),
        params![name.to_string()],
    )?;
    row.map(|row| read(row).and_then(|project| with_links(reader, project)))
        .transpose()
}

/// Projects whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Project>, Error> {
    let last = format!("{prefix:Z<26}");
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM projects WHERE project_id >= ?1 AND project_id <= ?2 \
             ORDER BY project_id LIMIT ?3"
        ),
        params![prefix, last, limit],
    )?;
    rows.into_iter()
        .map(|row| read(row).and_then(|project| with_links(reader, project)))
        .collect()
}

/// All projects, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<Project>, Error> {
    let rows = reader.query(
        concat!("SELECT ", columns!(), " FROM projects ORDER BY name"),
        &[],
    )?;
    rows.into_iter()
        .map(|row| read(row).and_then(|project| with_links(reader, project)))
        .collect()
}

/// A project that links a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkingProject {
    pub id: ProjectId,
    pub name: Name,
    /// Alias of the resource in the project.
    pub alias: Alias,
    /// Whether plans of the project may only read the resource.
    pub read_only: bool,
}

/// Projects that link a resource, by name.
pub fn linking(
    reader: &mut dyn Reader,
    resource: ResourceId,
) -> Result<Vec<LinkingProject>, Error> {
    reader
        .query(
            "SELECT projects.project_id, projects.name, project_links.alias, \
             project_links.read_only FROM project_links \
             JOIN projects ON projects.project_id = project_links.project_id \
             WHERE project_links.resource_id = ?1 ORDER BY projects.name",
            params![resource],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(LinkingProject {
                id: row.take()?,
                name: row.take()?,
                alias: row.take()?,
                read_only: row.take()?,
            })
        })
        .collect()
}

/// Increments the version of a project whose links change.
fn touch(unit: &mut UnitOfWork<'_>, project: ProjectId) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE projects SET version = version + 1, updated_at = ?2 WHERE project_id = ?1",
        params![project, now],
    )?;
    Ok(())
}

/// Links a resource to a project. The database refuses a resource or an alias that is already linked.
pub fn link(
    unit: &mut UnitOfWork<'_>,
    project: ProjectId,
    link: &ProjectLink,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO project_links (project_id, resource_id, alias, read_only, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            project,
            link.resource,
            link.alias.as_str(),
            link.read_only,
            now
        ],
    )?;
    touch(unit, project)?;
    unit.emit(NewEvent {
        kind: EventKind::ProjectResourceLinked,
        subject: project.to_string(),
        payload: json!({"resource": link.resource, "alias": link.alias, "read_only": link.read_only}),
    });
    Ok(())
}

/// Unlinks a resource from a project. Returns `false` when it was not linked.
pub fn unlink(
    unit: &mut UnitOfWork<'_>,
    project: ProjectId,
    resource: ResourceId,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM project_links WHERE project_id = ?1 AND resource_id = ?2",
        params![project, resource],
    )?;
    if touched > 0 {
        touch(unit, project)?;
        unit.emit(NewEvent {
            kind: EventKind::ProjectResourceUnlinked,
            subject: project.to_string(),
            payload: json!({"resource": resource}),
        });
    }
    Ok(touched > 0)
}

/// Deletes a project and its links; the resources stay. Returns `false` when it does not exist.
pub fn delete(unit: &mut UnitOfWork<'_>, project: &Project) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM projects WHERE project_id = ?1",
        params![project.id],
    )?;
    if touched > 0 {
        unit.emit(NewEvent {
            kind: EventKind::ProjectDeleted,
            subject: project.id.to_string(),
            payload: json!({"name": project.name, "resources_unlinked": project.links.len()}),
        });
    }
    Ok(touched > 0)
}
