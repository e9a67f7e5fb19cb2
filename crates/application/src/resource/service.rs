//! [`ResourceService`]: finding, listing and removing resources.

use std::sync::Arc;

use cleveragents_domain::{
    Boundary, InheritedType, Resource, ResourceId, ResourceName, SandboxStrategy, check_prefix,
};
use cleveragents_store::projects::LinkingProject;
use cleveragents_store::resources::{Link, Linked};
use cleveragents_store::{Engine, Reader, UnitOfWork, projects, resources};

use super::error::{Holder, ResourceError};
use super::registry::TypeRegistry;

/// How many candidates an ambiguous reference is answered with.
const CANDIDATES: u64 = 20;

/// What to do when something of the same name is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// Refuse.
    New,
    /// Replace what is known of it.
    Update,
}

/// Which resources to list.
#[derive(Debug, Clone, Default)]
pub struct ResourceFilter {
    /// Only those of this type and of types that inherit from it.
    pub type_name: Option<String>,
    /// Only those that this project links.
    pub project: Option<String>,
}

/// A resource with what is usually looked at beside it, all of one moment.
#[derive(Debug, Clone)]
pub struct ResourceDetails {
    /// The resource.
    pub resource: Resource,
    /// Its type with everything it inherits; none when the type is gone.
    pub inherited: Option<InheritedType>,
    /// What it lies below.
    pub parents: Vec<Linked>,
    /// What lies below it.
    pub children: Vec<Linked>,
    /// The projects that link it.
    pub projects: Vec<LinkingProject>,
}

/// Keeps resources and their types. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(super) engine: Arc<Engine>,
}

/// Finds the resource that a person means: a whole id, a name, or the beginning of an id.
pub(crate) fn find(reader: &mut dyn Reader, reference: &str) -> Result<Resource, ResourceError> {
    let missing = || ResourceError::NotFound(reference.to_owned());
    if let Ok(id) = reference.parse::<ResourceId>() {
        return resources::get(reader, id)?.ok_or_else(missing);
    }
    // `shop/src` is what it says, or else `local/shop/src`.
    for text in [reference.to_owned(), format!("local/{reference}")] {
        if let Ok(name) = text.parse::<ResourceName>()
            && let Some(found) = resources::with_name(reader, &name)?
        {
            return Ok(found);
        }
    }
    let prefix = check_prefix(reference).map_err(|_| missing())?;
    let mut found = resources::with_prefix(reader, &prefix, CANDIDATES)?;
    match found.len() {
        0 => Err(missing()),
        1 => Ok(found.remove(0)),
        _ => Err(ResourceError::Ambiguous {
            reference: reference.to_owned(),
            candidates: found
                .into_iter()
                .map(|resource| (resource.id, resource.name.to_string()))
                .collect(),
        }),
    }
}

impl ResourceService {
    /// A service on a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Finds the resource that a person means: a whole id, a name (`local/` may be left out), or at
    /// least 6 characters of an id.
    pub fn resolve(&self, reference: &str) -> Result<Resource, ResourceError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// The resource with an id.
    pub fn get(&self, id: ResourceId) -> Result<Resource, ResourceError> {
        self.engine
            .read(|reader| resources::get(reader, id))?
            .ok_or_else(|| ResourceError::NotFound(id.to_string()))
    }

    /// Resources by name, each with how it is isolated.
    pub fn list(
        &self,
        filter: &ResourceFilter,
    ) -> Result<Vec<(Resource, Option<SandboxStrategy>)>, crate::ProjectError> {
        self.engine.read(|reader| {
            let types = TypeRegistry::load(reader)?;
            let wanted = filter
                .type_name
                .as_deref()
                .map(|reference| types.name_of(reference))
                .transpose()?;
            let linked = filter
                .project
                .as_deref()
                .map(|reference| crate::project::find_project(reader, reference))
                .transpose()?
                .map(|project| project.links);
            let all = resources::list(reader)?;
            Ok(all
                .into_iter()
                .filter(|resource| {
                    let fits = wanted
                        .as_ref()
                        .is_none_or(|wanted| types.is_a(&resource.type_name, wanted));
                    let is_linked = linked
                        .as_ref()
                        .is_none_or(|links| links.iter().any(|link| link.resource == resource.id));
                    fits && is_linked
                })
                .map(|resource| {
                    let strategy = types.strategy(&resource.type_name);
                    (resource, strategy)
                })
                .collect())
        })
    }

    /// A resource, its type, what it lies below and what lies below it, and who links it.
    pub fn show(&self, reference: &str) -> Result<ResourceDetails, ResourceError> {
        self.engine.read(|reader| {
            let resource = find(reader, reference)?;
            Ok(ResourceDetails {
                inherited: TypeRegistry::load(reader)?
                    .inherited(&resource.type_name)
                    .ok(),
                parents: resources::parents(reader, resource.id)?,
                children: resources::children(reader, resource.id)?,
                projects: projects::linking(reader, resource.id)?,
                resource,
            })
        })
    }

    /// Where the sandbox of a resource begins: the resource itself when its type can be isolated,
    /// else the nearest one above it. What was discovered inside a parent's own files is isolated
    /// with the parent, so that the same files never have two sandboxes.
    pub fn boundary(&self, resource: ResourceId) -> Result<Boundary, ResourceError> {
        self.engine.read(|reader| {
            let types = TypeRegistry::load(reader)?;
            let start = resources::get(reader, resource)?
                .ok_or_else(|| ResourceError::NotFound(resource.to_string()))?;
            let mut level = vec![start.clone()];
            let mut seen = vec![start.id];
            while !level.is_empty() {
                let mut next = Vec::new();
                for candidate in level {
                    let above = resources::parents(reader, candidate.id)?;
                    let strategy = types
                        .strategy(&candidate.type_name)
                        .filter(|strategy| strategy.isolates());
                    if let Some(strategy) = strategy
                        && !above
                            .iter()
                            .any(|parent| is_part_of(&candidate, parent, &types))
                    {
                        return Ok(Boundary {
                            resource: candidate,
                            strategy,
                        });
                    }
                    for parent in above {
                        if !seen.contains(&parent.resource.id) {
                            seen.push(parent.resource.id);
                            next.push(parent.resource);
                        }
                    }
                }
                level = next;
            }
            Err(ResourceError::NoBoundary(start.name.to_string()))
        })
    }

    /// Removes a resource and what discovery found below it, unless something still refers to one
    /// of them. Gives the resources that are gone, the one asked for first.
    pub fn remove(&self, reference: &str) -> Result<Vec<Resource>, ResourceError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let resource = find(unit, &reference)?;
            if resource.auto_discovered
                && let Some(parent) = resources::parents(unit, resource.id)?
                    .into_iter()
                    .find(|parent| parent.auto_discovered)
            {
                return Err(ResourceError::Discovered {
                    name: resource.name.to_string(),
                    parent: parent.resource.name.to_string(),
                });
            }
            let doomed = with_discovered(unit, resource.clone())?;
            let holders = holders(unit, &doomed)?;
            if !holders.is_empty() {
                return Err(ResourceError::InUse {
                    name: resource.name.to_string(),
                    holders,
                });
            }
            delete_all(unit, &doomed)?;
            Ok(doomed)
        })
    }
}

/// Whether a resource was discovered among the files of a parent that can be isolated itself.
fn is_part_of(resource: &Resource, parent: &Linked, types: &TypeRegistry) -> bool {
    let lies_inside = match (&resource.location, &parent.resource.location) {
        (Some(inner), Some(outer)) => std::path::Path::new(inner).starts_with(outer),
        _ => false,
    };
    parent.auto_discovered
        && lies_inside
        && types
            .strategy(&parent.resource.type_name)
            .is_some_and(SandboxStrategy::isolates)
}

/// A resource and everything that discovery found below it, from the top down.
pub(super) fn with_discovered(
    reader: &mut dyn Reader,
    resource: Resource,
) -> Result<Vec<Resource>, ResourceError> {
    let mut all = vec![resource];
    let mut index = 0;
    while let Some(parent) = all.get(index).map(|resource| resource.id) {
        for child in resources::children(reader, parent)? {
            if child.auto_discovered && !all.iter().any(|known| known.id == child.resource.id) {
                all.push(child.resource);
            }
        }
        index += 1;
    }
    Ok(all)
}

/// What refers to resources from outside of them.
pub(super) fn holders(
    reader: &mut dyn Reader,
    doomed: &[Resource],
) -> Result<Vec<(String, Holder)>, ResourceError> {
    let is_doomed = |id: ResourceId| doomed.iter().any(|resource| resource.id == id);
    let mut found = Vec::new();
    for resource in doomed {
        let name = resource.name.to_string();
        for project in projects::linking(reader, resource.id)? {
            found.push((name.clone(), Holder::Project(project.name.to_string())));
        }
        for child in resources::children(reader, resource.id)? {
            if !child.auto_discovered || !is_doomed(child.resource.id) {
                let child = child.resource.name.to_string();
                found.push((name.clone(), Holder::Child(name.clone(), child)));
            }
        }
        for parent in resources::parents(reader, resource.id)? {
            if !parent.auto_discovered && !is_doomed(parent.resource.id) {
                let parent = parent.resource.name.to_string();
                found.push((name.clone(), Holder::Parent(parent, name.clone())));
            }
        }
    }
    Ok(found)
}

/// Removes resources that nothing refers to, and the links among them.
pub(super) fn delete_all(
    unit: &mut UnitOfWork<'_>,
    doomed: &[Resource],
) -> Result<(), ResourceError> {
    for resource in doomed {
        for parent in resources::parents(unit, resource.id)? {
            resources::unlink(
                unit,
                Link {
                    parent: parent.resource.id,
                    child: resource.id,
                    auto_discovered: parent.auto_discovered,
                },
            )?;
        }
    }
    for resource in doomed {
        resources::delete(unit, resource)?;
    }
    Ok(())
}
