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
    /// Fail if the name is registered.
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
    /// The type with everything it inherits; `None` if the type no longer exists.
    pub inherited: Option<InheritedType>,
    /// Resources above the resource.
    pub parents: Vec<LinkedResource>,
    /// Resources below the resource.
    pub children: Vec<LinkedResource>,
    /// The projects that link the resource.
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

    /// Finds a resource by its full id, its name (`local/` may be omitted), or at least 6
    /// characters of its id.
    pub fn resolve(&self, reference: &str) -> Result<Resource, ResourceError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// Returns the resource with this id.
    pub fn get(&self, id: ResourceId) -> Result<Resource, ResourceError> {
        self.engine
            .read(|reader| resources::get(reader, id))?
            .ok_or_else(|| ResourceError::NotFound(id.to_string()))
    }

    /// Resources sorted by name, each with its isolation strategy.
    pub fn list(
        &self,
        filter: &ResourceFilter,
    ) -> Result<Vec<(Resource, Option<SandboxStrategy>)>, crate::ProjectError> {
        self.engine.read(|reader| {
            let types = TypeRegistry::load(reader)?;
            let required_type = filter
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
                    let has_type = required_type
                        .as_ref()
                        .is_none_or(|required_type| types.is_a(&resource.type_name, required_type));
                    let is_linked = linked
                        .as_ref()
                        .is_none_or(|links| links.iter().any(|link| link.resource == resource.id));
                    has_type && is_linked
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

    /// The sandbox boundary of a resource: the resource itself if its type can be isolated, otherwise the nearest
    /// resource above it that can be isolated. A resource that was discovered inside the files of a parent is isolated
    /// together with that parent, so that no file is in two sandboxes.
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

    /// Removes a resource and the resources discovered below it. Fails if other objects refer to one of them. Returns
    /// the removed resources, starting with the requested one.
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
            let obsolete = with_discovered(unit, resource.clone())?;
            let holders = holders(unit, &obsolete)?;
            if !holders.is_empty() {
                return Err(ResourceError::InUse {
                    name: resource.name.to_string(),
                    holders,
                });
            }
            delete_all(unit, &obsolete)?;
            Ok(obsolete)
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

/// A resource and all resources discovered below it, parents before their children.
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

/// References to these resources from projects and from other resources.
pub(super) fn holders(
    reader: &mut dyn Reader,
    obsolete: &[Resource],
) -> Result<Vec<(String, ResourceUser)>, ResourceError> {
    let is_obsolete = |id: ResourceId| obsolete.iter().any(|resource| resource.id == id);
    let mut found = Vec::new();
    for resource in obsolete {
        let name = resource.name.to_string();
        for project in projects::linking(reader, resource.id)? {
            found.push((
                name.clone(),
                ResourceUser::Project(project.name.to_string()),
            ));
        }
        for child in resources::children(reader, resource.id)? {
            if !child.auto_discovered || !is_obsolete(child.resource.id) {
                let child = child.resource.name.to_string();
                found.push((name.clone(), ResourceUser::Child(name.clone(), child)));
            }
        }
        for parent in resources::parents(reader, resource.id)? {
            if !parent.auto_discovered && !is_obsolete(parent.resource.id) {
                let parent = parent.resource.name.to_string();
                found.push((name.clone(), ResourceUser::Parent(parent, name.clone())));
            }
        }
    }
    Ok(found)
}

/// Removes resources that nothing else refers to, and their links.
pub(super) fn delete_all(
    unit: &mut UnitOfWork<'_>,
    obsolete: &[Resource],
) -> Result<(), ResourceError> {
    for resource in obsolete {
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
    for resource in obsolete {
        resources::delete(unit, resource)?;
    }
    Ok(())
}
