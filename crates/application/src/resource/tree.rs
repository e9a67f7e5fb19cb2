//! The resources as trees for display: a resource with several parents appears below each, with its
//! children only the first time.

use std::collections::{HashMap, HashSet};

use cleveragents_domain::{Resource, ResourceId, SandboxStrategy};
use cleveragents_store::resources::{self, Link};

use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::{ResourceService, find};

/// A resource and those below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceTreeNode {
    /// Registered row.
    pub resource: Resource,
    /// Its isolation strategy.
    pub strategy: Option<SandboxStrategy>,
    /// Whether discovery created the link to its parent.
    pub auto_discovered: bool,
    /// Whether its children are listed at an earlier place of the tree.
    pub is_repeated: bool,
    /// Resources below it, by name.
    pub children: Vec<Self>,
}

struct Forest<'f> {
    resources: HashMap<ResourceId, &'f Resource>,
    below: HashMap<ResourceId, Vec<Link>>,
    types: &'f TypeRegistry,
    drawn: HashSet<ResourceId>,
}

impl Forest<'_> {
    fn grow(&mut self, id: ResourceId, auto_discovered: bool) -> Option<ResourceTreeNode> {
        let resource = (*self.resources.get(&id)?).clone();
        let mut links = self.below.get(&id).cloned().unwrap_or_default();
        links.sort_by_key(|link| self.resources.get(&link.child).map(|child| &child.name));
        let is_repeated = !self.drawn.insert(id) && !links.is_empty();
        let children = if is_repeated {
            Vec::new()
        } else {
            links
                .into_iter()
                .filter_map(|link| self.grow(link.child, link.auto_discovered))
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
fn prune(node: ResourceTreeNode, fits: &dyn Fn(&Resource) -> bool) -> Option<ResourceTreeNode> {
    let children: Vec<ResourceTreeNode> = node
        .children
        .into_iter()
        .filter_map(|child| prune(child, fits))
        .collect();
    let keeps = !children.is_empty() || fits(&node.resource);
    keeps.then_some(ResourceTreeNode { children, ..node })
}

impl ResourceService {
    /// The tree below a resource, or all trees. With a type, only resources of it and of types that
    /// inherit from it, and their ancestors.
    pub fn tree(
        &self,
        reference: Option<&str>,
        type_name: Option<&str>,
    ) -> Result<Vec<ResourceTreeNode>, ResourceError> {
        self.engine.read(|reader| {
            let types = TypeRegistry::load(reader)?;
            let wanted = type_name
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
                drawn: HashSet::new(),
            };
            let fits = |resource: &Resource| {
                wanted
                    .as_ref()
                    .is_none_or(|wanted| types.is_a(&resource.type_name, wanted))
            };
            Ok(roots
                .into_iter()
                .filter_map(|root| forest.grow(root, false))
                .filter_map(|root| prune(root, &fits))
                .collect())
        })
    }
}
