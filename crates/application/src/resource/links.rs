//! Manual links between parent and child resources.

use cleveragents_domain::{InheritedType, Resource};
use cleveragents_store::resources::{Link, LinkResult};
use cleveragents_store::{Reader, resources};

use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::{ResourceService, find};

/// Finds the parent and the child of a link.
pub(super) fn find_ends(
    reader: &mut dyn Reader,
    parent: &str,
    child: &str,
) -> Result<(Resource, Resource), ResourceError> {
    Ok((find(reader, parent)?, find(reader, child)?))
}

/// Whether either type allows the link.
pub(super) fn is_allowed(parent: &InheritedType, child: &InheritedType) -> bool {
    let parent_allows = parent
        .whole
        .child_types
        .iter()
        .any(|allowed| child.is_a(&allowed.name));
    let child_allows = child
        .whole
        .parent_types
        .iter()
        .any(|allowed| parent.is_a(allowed));
    parent_allows || child_allows
}

impl ResourceService {
    /// Links a resource below another. If two concurrent calls would together create a cycle, one of them fails.
    pub fn link_child(
        &self,
        parent: &str,
        child: &str,
    ) -> Result<(Resource, Resource), ResourceError> {
        let (parent, child) = (parent.to_owned(), child.to_owned());
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let (parent, child) = find_ends(unit, &parent, &child)?;
            let names = || (parent.name.to_string(), child.name.to_string());
            let types = TypeRegistry::load(unit)?;
            let (upper, lower) = (
                types.inherited(&parent.type_name)?,
                types.inherited(&child.type_name)?,
            );
            if !is_allowed(&upper, &lower) {
                return Err(ResourceError::LinkNotAllowed {
                    parent: parent.type_name.to_string(),
                    child: child.type_name.to_string(),
                });
            }
            let link = Link {
                parent: parent.id,
                child: child.id,
                auto_discovered: false,
            };
            match resources::link(unit, link)? {
                LinkResult::Made => Ok((parent, child)),
                LinkResult::Present => {
                    let (parent, child) = names();
                    Err(ResourceError::LinkExists { parent, child })
                }
                LinkResult::Circle => {
                    let (parent, child) = names();
                    Err(ResourceError::Circle { parent, child })
                }
            }
        })
    }

    /// Removes a manual link. Fails for links that discovery created.
    pub fn unlink_child(
        &self,
        parent: &str,
        child: &str,
    ) -> Result<(Resource, Resource), ResourceError> {
        let (parent, child) = (parent.to_owned(), child.to_owned());
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let (parent, child) = find_ends(unit, &parent, &child)?;
            match resources::find_link(unit, parent.id, child.id)? {
                Some(link) if link.auto_discovered => Err(ResourceError::DiscoveredLink {
                    parent: parent.name.to_string(),
                    child: child.name.to_string(),
                }),
                Some(link) => {
                    resources::unlink(unit, link)?;
                    Ok((parent, child))
                }
                None => Err(ResourceError::LinkNotFound {
                    parent: parent.name.to_string(),
                    child: child.name.to_string(),
                }),
            }
        })
    }
}
