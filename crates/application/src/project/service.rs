//! [`ProjectService`]: creates projects, links resources to them, and returns the targets of their
//! plans.

use std::sync::Arc;

use cleveragents_domain::{
    Alias, InvariantScope, Name, Project, ProjectId, ProjectLink, ProjectRules, Resource,
};
use cleveragents_store::invariants::{self, InvariantFilter};
use cleveragents_store::{Engine, Reader, UnitOfWork, plans, projects, resources};

use super::error::ProjectError;
use crate::automation;
use crate::reference::find_referenced;
use crate::resource::find_resource;

/// A resource to be linked to a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    /// Name, id or prefix of an id.
    pub resource: String,
    /// Alias in the project; by default the last segment of the resource's name.
    pub alias: Option<String>,
    /// Whether plans of the project may only read the resource.
    pub read_only: bool,
}

/// A project to create, as given by the user.
#[derive(Debug, Clone, Default)]
pub struct NewProject {
    /// Name of the project; the default namespace is `local`.
    pub name: String,
    /// Description, tags and rules for plans of the project.
    pub rules: ProjectRules,
    /// The resources that the project links.
    pub links: Vec<LinkRequest>,
}

/// A resource that the plans of a project work on.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectTarget {
    /// Alias of the resource in the project.
    pub alias: Alias,
    /// The linked resource.
    pub resource: Resource,
    /// Whether plans may only read the resource, because the resource or its link is read-only.
    pub read_only: bool,
}

/// Manages projects. Cheap to clone.
#[derive(Clone)]
pub struct ProjectService {
    engine: Arc<Engine>,
}

/// Finds a project by its full id, its name, or a prefix of its id.
pub(crate) fn find(reader: &mut dyn Reader, reference: &str) -> Result<Project, ProjectError> {
    find_referenced(
        reader,
        reference,
        |reader| match reference.parse::<Name>() {
            Ok(name) => Ok(projects::with_name(reader, &name)?.into_iter().collect()),
            Err(_) => Ok(Vec::new()),
        },
        |reader, prefix, limit| Ok(projects::with_prefix(reader, prefix, limit)?),
        |found| match found.len() {
            0 => ProjectError::NotFound(reference.to_owned()),
            _ => ProjectError::Ambiguous {
                reference: reference.to_owned(),
                candidates: found
                    .into_iter()
                    .map(|project| (project.id, project.name.to_string()))
                    .collect(),
            },
        },
    )
}

fn read_back(reader: &mut dyn Reader, id: ProjectId) -> Result<Project, ProjectError> {
    projects::get(reader, id)?.ok_or_else(|| ProjectError::NotFound(id.to_string()))
}

/// Links one resource. The caller has to read the project again before it links another resource.
fn link_one(
    unit: &mut UnitOfWork<'_>,
    project: &Project,
    request: &LinkRequest,
) -> Result<(), ProjectError> {
    let resource = find_resource(unit, &request.resource)?;
    if let Some(link) = project
        .links
        .iter()
        .find(|link| link.resource == resource.id)
    {
        return Err(ProjectError::AlreadyLinked {
            project: project.name.to_string(),
            resource: resource.name.to_string(),
            alias: link.alias.to_string(),
        });
    }
    let with_alias = |alias: &str| {
        let mut links = project.links.iter();
        links.find(|link| link.alias.as_str() == alias)
    };
    let alias = match &request.alias {
        None => Alias::for_resource(&resource, |alias| with_alias(alias).is_some()),
        Some(alias) => {
            let alias: Alias = alias.parse()?;
            if let Some(link) = with_alias(alias.as_str()) {
                let other = resources::get(unit, link.resource)?;
                return Err(ProjectError::AliasTaken {
                    project: project.name.to_string(),
                    alias: alias.to_string(),
                    resource: other
                        .map_or_else(|| link.resource.to_string(), |other| other.name.to_string()),
                });
            }
            alias
        }
    };
    let link = ProjectLink {
        resource: resource.id,
        alias,
        read_only: request.read_only,
    };
    Ok(projects::link(unit, project.id, &link)?)
}

impl ProjectService {
    /// A service for a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Creates a project with all its links, atomically.
    pub fn create(&self, new: NewProject) -> Result<Project, ProjectError> {
        let name: Name = new.name.parse()?;
        name.require_free_namespace()?;
        let rules = new.rules.checked()?;
        let id = ProjectId::generate();
        let links = new.links;
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            if projects::with_name(unit, &name)?.is_some() {
                return Err(ProjectError::Exists(name.to_string()));
            }
            let mut rules = rules.clone();
            if let Some(profile) = &mut rules.automation_profile {
                *profile = automation::require(unit, profile)?;
            }
            projects::insert(unit, id, &name, &rules)?;
            for request in &links {
                let project = read_back(unit, id)?;
                link_one(unit, &project, request)?;
            }
            read_back(unit, id)
        })
    }

    /// Finds a project by its full id, its name (by default in `local/`), or at least 6 characters of
    /// its id.
    pub fn resolve(&self, reference: &str) -> Result<Project, ProjectError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// All projects, sorted by name.
    pub fn list(&self) -> Result<Vec<Project>, ProjectError> {
        Ok(self.engine.read(|reader| projects::list(reader))?)
    }

    /// The targets of a project's plans, sorted by alias.
    pub fn targets(&self, reference: &str) -> Result<Vec<ProjectTarget>, ProjectError> {
        self.view(reference).map(|(_, targets)| targets)
    }

    /// A project and the targets of its plans, in one consistent snapshot.
    pub fn view(&self, reference: &str) -> Result<(Project, Vec<ProjectTarget>), ProjectError> {
        self.engine.read(|reader| {
            let project = find(reader, reference)?;
            let mut targets = Vec::new();
            for link in &project.links {
                let resource = resources::get(reader, link.resource)?
                    .ok_or_else(|| crate::ResourceError::NotFound(link.resource.to_string()))?;
                targets.push(ProjectTarget {
                    alias: link.alias.clone(),
                    read_only: link.read_only || resource.read_only,
                    resource,
                });
            }
            Ok((project, targets))
        })
    }

    pub fn link_resource(
        &self,
        project: &str,
        request: LinkRequest,
    ) -> Result<Project, ProjectError> {
        let project = project.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let project = find(unit, &project)?;
            link_one(unit, &project, &request)?;
            read_back(unit, project.id)
        })
    }

    /// Unlinks a resource, by name, id or alias, from a project. The resource remains registered.
    pub fn unlink_resource(
        &self,
        project: &str,
        resource: &str,
    ) -> Result<(Project, Resource), ProjectError> {
        let (project, reference) = (project.to_owned(), resource.to_owned());
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let project = find(unit, &project)?;
            let by_alias = project
                .links
                .iter()
                .find(|link| link.alias.as_str() == reference)
                .map(|link| link.resource.to_string());
            let resource = find_resource(unit, by_alias.as_deref().unwrap_or(&reference))?;
            if project
                .links
                .iter()
                .any(|link| link.resource == resource.id)
            {
                check_unused(unit, &project)?;
            }
            if !projects::unlink(unit, project.id, resource.id)? {
                return Err(ProjectError::NotLinked {
                    project: project.name.to_string(),
                    resource: resource.name.to_string(),
                });
            }
            Ok((read_back(unit, project.id)?, resource))
        })
    }

    /// Deletes a project with its links and invariants; the resources stay. Returns the deleted
    /// project.
    pub fn delete(&self, reference: &str) -> Result<Project, ProjectError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let project = find(unit, &reference)?;
            check_unused(unit, &project)?;
            projects::delete(unit, &project)?;
            // Otherwise the invariants would apply to a later project with the same name.
            let filter = InvariantFilter {
                places: vec![(InvariantScope::Project, Some(project.name.to_string()))],
            };
            for invariant in invariants::list(unit, &filter)? {
                invariants::remove(unit, &invariant)?;
            }
            Ok(project)
        })
    }
}

/// Refuses a change that would remove a project, or a linked resource, from active plans.
fn check_unused(unit: &mut UnitOfWork<'_>, project: &Project) -> Result<(), ProjectError> {
    let name = project.name.to_string();
    let plans = plans::active_of_project(unit, &name)?;
    if plans.is_empty() {
        return Ok(());
    }
    Err(ProjectError::InUse { name, plans })
}
