//! [`ProjectService`]: making projects, linking resources to them, and what their plans work on.

use std::sync::Arc;

use cleveragents_domain::{
    Alias, InvariantScope, Name, Project, ProjectId, ProjectLink, ProjectRules, Resource,
    check_prefix,
};
use cleveragents_store::invariants::{self, InvariantFilter};
use cleveragents_store::{Engine, Reader, UnitOfWork, plans, projects, resources};

use super::error::ProjectError;
use crate::automation;
use crate::resource::find_resource;

/// How many candidates an ambiguous reference is answered with.
const CANDIDATES: u64 = 20;

/// A resource to be linked to a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    /// The resource: an id, the beginning of one, or a name.
    pub resource: String,
    /// What to call it; the last segment of its name when none is given.
    pub alias: Option<String>,
    /// Whether plans of the project may only read it.
    pub read_only: bool,
}

/// What a person says about a project.
#[derive(Debug, Clone, Default)]
pub struct NewProject {
    /// Its name; without a namespace it is in `local/`.
    pub name: String,
    /// What it says about itself.
    pub rules: ProjectRules,
    /// The resources it links.
    pub links: Vec<LinkRequest>,
}

/// Something that the plans of a project work on.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectTarget {
    /// What it is called in the project.
    pub alias: Alias,
    /// The resource.
    pub resource: Resource,
    /// Whether plans may only read it, because the resource or the link says so.
    pub read_only: bool,
}

/// Keeps projects. Cheap to clone.
#[derive(Clone)]
pub struct ProjectService {
    engine: Arc<Engine>,
}

/// Finds the project that a person means: a whole id, a name, or the beginning of an id.
pub(crate) fn find(reader: &mut dyn Reader, reference: &str) -> Result<Project, ProjectError> {
    let missing = || ProjectError::NotFound(reference.to_owned());
    if let Ok(id) = reference.parse::<ProjectId>() {
        return projects::get(reader, id)?.ok_or_else(missing);
    }
    if let Ok(name) = reference.parse::<Name>()
        && let Some(found) = projects::with_name(reader, &name)?
    {
        return Ok(found);
    }
    let prefix = check_prefix(reference).map_err(|_| missing())?;
    let mut found = projects::with_prefix(reader, &prefix, CANDIDATES)?;
    match found.len() {
        0 => Err(missing()),
        1 => Ok(found.remove(0)),
        _ => Err(ProjectError::Ambiguous {
            reference: reference.to_owned(),
            candidates: found
                .into_iter()
                .map(|project| (project.id, project.name.to_string()))
                .collect(),
        }),
    }
}

fn read_back(reader: &mut dyn Reader, id: ProjectId) -> Result<Project, ProjectError> {
    projects::get(reader, id)?.ok_or_else(|| ProjectError::NotFound(id.to_string()))
}

/// Links one resource; the project is read again for the next.
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
    /// A service on a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Makes a project with everything that belongs to it, all of it or nothing.
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

    /// Finds the project that a person means: a whole id, a name (a bare one is in `local/`), or at
    /// least 6 characters of an id.
    pub fn resolve(&self, reference: &str) -> Result<Project, ProjectError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// Every project, by name.
    pub fn list(&self) -> Result<Vec<Project>, ProjectError> {
        Ok(self.engine.read(|reader| projects::list(reader))?)
    }

    /// What the plans of a project work on, by alias.
    pub fn targets(&self, reference: &str) -> Result<Vec<ProjectTarget>, ProjectError> {
        self.view(reference).map(|(_, targets)| targets)
    }

    /// A project and what its plans work on, all of one moment.
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

    /// Links a resource to a project.
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

    /// Takes a resource out of a project; it may be named by its alias there. The resource stays.
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

    /// Removes a project. Its links and its invariants go, the resources stay. Gives the project as it
    /// was.
    pub fn delete(&self, reference: &str) -> Result<Project, ProjectError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let project = find(unit, &reference)?;
            check_unused(unit, &project)?;
            projects::delete(unit, &project)?;
            // Else they would hold for another project that is given the same name.
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

/// Refuses what would take a project, or what it links, from plans that are not over.
fn check_unused(unit: &mut UnitOfWork<'_>, project: &Project) -> Result<(), ProjectError> {
    let name = project.name.to_string();
    let plans = plans::active_of_project(unit, &name)?;
    if plans.is_empty() {
        return Ok(());
    }
    Err(ProjectError::InUse { name, plans })
}
