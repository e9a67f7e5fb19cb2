//! The tree of resources, as far as it can be drawn: a resource below several others is drawn below
//! each, with what is below it only the first time.

use std::collections::{HashMap, HashSet};

use cleveragents_domain::{Resource, ResourceId, SandboxStrategy};
use cleveragents_store::resources::{self, Link};

use super::error::ResourceError;
use super::registry::TypeRegistry;
use super::service::{ResourceService, find};

/// A resource and what lies below it.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// The resource.
    pub resource: Resource,
    /// How it is isolated.
    pub strategy: Option<SandboxStrategy>,
    /// Whether discovery put it here.
    pub auto_discovered: bool,
    /// Whether what lies below it stands elsewhere in the tree already.
    pub is_repeated: bool,
    /// What lies below it, by name.
    pub children: Vec<Self>,
}

struct Forest<'f> {
    resources: HashMap<ResourceId, &'f Resource>,
    below: HashMap<ResourceId, Vec<Link>>,
    types: &'f TypeRegistry,
    drawn: HashSet<ResourceId>,
}

impl Forest<'_> {
    fn grow(&mut self, id: ResourceId, auto_discovered: bool) -> Option<TreeNode> {
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
        Some(TreeNode {
            strategy: self.types.strategy(&resource.type_name),
            resource,
            auto_discovered,
            is_repeated,
            children,
        })
    }
}

/// Keeps what fits and what leads to it.
fn prune(node: TreeNode, fits: &dyn Fn(&Resource) -> bool) -> Option<TreeNode> {
    let children: Vec<TreeNode> = node
        .children
        .into_iter()
        .filter_map(|child| prune(child, fits))
        .collect();
    let keeps = !children.is_empty() || fits(&node.resource);
    keeps.then_some(TreeNode { children, ..node })
}

impl ResourceService {
    /// The tree below a resource, or all trees. With a type, only resources of it and of types that
    /// inherit from it, and what they lie below.
    pub fn tree(
        &self,
        reference: Option<&str>,
        type_name: Option<&str>,
    ) -> Result<Vec<TreeNode>, ResourceError> {
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
