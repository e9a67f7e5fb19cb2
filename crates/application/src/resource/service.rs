//! [`ResourceService`]: finds, lists and removes resources.

use std::sync::Arc;

use cleveragents_domain::{
    Boundary, InheritedType, Resource, ResourceId, ResourceName, SandboxStrategy,
};
use cleveragents_store::projects::LinkingProject;
use cleveragents_store::resources::{Link, LinkedResource};
use cleveragents_store::{Engine, Reader, UnitOfWork, projects, resources};

use super::error::{ResourceError, ResourceUser};
use super::registry::TypeRegistry;
use crate::reference::find_referenced;

/// Behaviour when the name is already registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// Refuse.
    New,
    /// Replace the registration.
    Update,
}

/// Filter for the list of resources.
#[derive(Debug, Clone, Default)]
pub struct ResourceFilter {
    /// Only resources of this type and of types that inherit from it.
    pub type_name: Option<String>,
    /// Only resources that this project links.
    pub project: Option<String>,
}

/// A resource with its type and links, in one consistent snapshot.
#[derive(Debug, Clone)]
pub struct ResourceDetails {
    /// Registered row.
    pub resource: Resource,
    /// Its type with everything it inherits; `None` if the type no longer exists.
    pub inherited: Option<InheritedType>,
    /// Resources above it.
    pub parents: Vec<LinkedResource>,
    /// Resources below it.
    pub children: Vec<LinkedResource>,
    /// The projects that link it.
    pub projects: Vec<LinkingProject>,
}

/// Manages resources and their types. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(super) engine: Arc<Engine>,
}

/// Finds a resource by its full id, its name, or a prefix of its id.
pub(crate) fn find(reader: &mut dyn Reader, reference: &str) -> Result<Resource, ResourceError> {
    find_referenced(
        reader,
        reference,
        |reader| {
            // `shop/src` is tried literally first, then as `local/shop/src`.
            for text in [reference.to_owned(), format!("local/{reference}")] {
                if let Ok(name) = text.parse::<ResourceName>()
                    && let Some(found) = resources::with_name(reader, &name)?
                {
                    return Ok(vec![found]);
                }
            }
            Ok(Vec::new())
        },
        |reader, prefix, limit| Ok(resources::with_prefix(reader, prefix, limit)?),
        |found| match found.len() {
            0 => ResourceError::NotFound(reference.to_owned()),
            _ => ResourceError::Ambiguous {
                reference: reference.to_owned(),
                candidates: found
                    .into_iter()
                    .map(|resource| (resource.id, resource.name.to_string()))
                    .collect(),
            },
        },
    )
}

impl ResourceService {
    /// A service for a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Finds a resource by its full id, its name (`local/` may be left out), or at least 6
    /// characters of its id.
    pub fn resolve(&self, reference: &str) -> Result<Resource, ResourceError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// The resource with an id.
    pub fn get(&self, id: ResourceId) -> Result<Resource, ResourceError> {
        self.engine
            .read(|reader| resources::get(reader, id))?
            .ok_or_else(|| ResourceError::NotFound(id.to_string()))
    }

    /// Resources by name, each with its isolation strategy.
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

    /// A resource with its type, parents, children, and the projects that link it.
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

    /// The sandbox boundary of a resource: the resource itself when its type can be isolated, else
    /// the nearest one above it. A resource discovered inside a parent's own files is isolated with
    /// the parent, so that the same files never have two sandboxes.
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

    /// Removes a resource and the discovered ones below it, unless one of them is still referred
    /// to. Returns the removed resources, the requested one first.
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

/// Whether a resource was discovered among the files of a parent that can itself be isolated.
fn is_part_of(resource: &Resource, parent: &LinkedResource, types: &TypeRegistry) -> bool {
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

/// A resource and all discovered ones below it, top down.
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

/// References to the resources from outside them.
pub(super) fn holders(
    reader: &mut dyn Reader,
    doomed: &[Resource],
) -> Result<Vec<(String, ResourceUser)>, ResourceError> {
    let is_doomed = |id: ResourceId| doomed.iter().any(|resource| resource.id == id);
    let mut found = Vec::new();
    for resource in doomed {
        let name = resource.name.to_string();
        for project in projects::linking(reader, resource.id)? {
            found.push((
                name.clone(),
                ResourceUser::Project(project.name.to_string()),
            ));
        }
        for child in resources::children(reader, resource.id)? {
            if !child.auto_discovered || !is_doomed(child.resource.id) {
                let child = child.resource.name.to_string();
                found.push((name.clone(), ResourceUser::Child(name.clone(), child)));
            }
        }
        for parent in resources::parents(reader, resource.id)? {
            if !parent.auto_discovered && !is_doomed(parent.resource.id) {
                let parent = parent.resource.name.to_string();
                found.push((name.clone(), ResourceUser::Parent(parent, name.clone())));
            }
        }
    }
    Ok(found)
}

/// Removes resources without references, and the links among them.
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
