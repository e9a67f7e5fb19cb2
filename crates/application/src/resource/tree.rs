//! Trees of resources, for display. A resource with several parents appears below each of them; its children are listed
//! only at its first occurrence.

use std::collections::{HashMap, HashSet};

use cleveragents_domain::{Resource, ResourceId, SandboxStrategy};
use cleveragents_store::resources::{self, Link};

use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::{ResourceService, find};

/// A resource and the resources below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceTreeNode {
    /// Registered row.
    pub resource: Resource,
    /// The isolation strategy of the resource.
    pub strategy: Option<SandboxStrategy>,
    /// Whether discovery created the link to the parent.
    pub auto_discovered: bool,
    /// Whether the resource occurs earlier in the tree; its children are listed only there.
    pub is_repeated: bool,
    /// Resources below the resource, sorted by name.
    pub children: Vec<Self>,
}

struct Forest<'f> {
    resources: HashMap<ResourceId, &'f Resource>,
    below: HashMap<ResourceId, Vec<Link>>,
    types: &'f TypeRegistry,
    visited: HashSet<ResourceId>,
}

impl Forest<'_> {
    fn build_node(&mut self, id: ResourceId, auto_discovered: bool) -> Option<ResourceTreeNode> {
        let resource = (*self.resources.get(&id)?).clone();
        let mut links = self.below.get(&id).cloned().unwrap_or_default();
        links.sort_by_key(|link| self.resources.get(&link.child).map(|child| &child.name));
        let is_repeated = !self.visited.insert(id) && !links.is_empty();
        let children = if is_repeated {
            Vec::new()
        } else {
            links
                .into_iter()
                .filter_map(|link| self.build_node(link.child, link.auto_discovered))
                .collect()
        };
        Some(ResourceTreeNode {
            strategy: self.types.strategy(&resource.type_name),
            resource,
            auto_discovered,
            is_repeated,
            children,
        })
    }
}

/// Keeps matching nodes and their ancestors.
fn prune(node: ResourceTreeNode, is_match: &dyn Fn(&Resource) -> bool) -> Option<ResourceTreeNode> {
    let children: Vec<ResourceTreeNode> = node
        .children
        .into_iter()
        .filter_map(|child| prune(child, is_match))
        .collect();
    let is_kept = !children.is_empty() || is_match(&node.resource);
    is_kept.then_some(ResourceTreeNode { children, ..node })
}

impl ResourceService {
    /// The tree below a resource, or all trees. With `type_name`, the trees contain only resources of that type or of
    /// types that inherit from it, and their ancestors.
    pub fn tree(
        &self,
        reference: Option<&str>,
        type_name: Option<&str>,
    ) -> Result<Vec<ResourceTreeNode>, ResourceError> {
        self.engine.read(|reader| {
            let types = TypeRegistry::load(reader)?;
            let required_type = type_name
                .map(|reference| types.name_of(reference))
                .transpose()?;
            let start = reference
                .map(|reference| find(reader, reference))
                .transpose()?;
            let all = resources::list(reader)?;
            let links = resources::links(reader)?;
            let contained: HashSet<ResourceId> = links.iter().map(|link| link.child).collect();
            let mut below: HashMap<ResourceId, Vec<Link>> = HashMap::new();
            for link in links {
                below.entry(link.parent).or_default().push(link);
            }
            let roots: Vec<ResourceId> = match &start {
                Some(start) => vec![start.id],
                None => all
                    .iter()
                    .map(|resource| resource.id)
                    .filter(|id| !contained.contains(id))
                    .collect(),
            };
            let mut forest = Forest {
                resources: all.iter().map(|resource| (resource.id, resource)).collect(),
                below,
                types: &types,
                visited: HashSet::new(),
            };
            let is_match = |resource: &Resource| {
                required_type
                    .as_ref()
                    .is_none_or(|required_type| types.is_a(&resource.type_name, required_type))
            };
            Ok(roots
                .into_iter()
                .filter_map(|root| forest.build_node(root, false))
                .filter_map(|root| prune(root, &is_match))
                .collect())
        })
    }
}
