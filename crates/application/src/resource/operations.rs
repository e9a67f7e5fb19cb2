//! The operations on resources and their types.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    ArgumentType, Code, InheritedType, ProjectId, Resource, ResourceId, ResourceKind,
    SandboxStrategy, Timestamp, TypeName, Version,
};
use cleveragents_store::resources::LinkedResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::git::GitState;
use super::inspect::Presence;
use super::service::ResourceFilter;
use super::tree::ResourceTreeNode;
pub use super::type_operations::{
    ListResourceTypes, ListedResourceType, ListedSandbox, ResourceTypeInfo, ResourceTypeList,
    ShowResourceType, TypeArgument, TypeSandbox, TypeSource,
};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    namespace_of, require_confirmation,
};

/// The operations on resources and their types.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<ListResources>(),
    OperationEntry::new::<ShowResource>(),
    OperationEntry::new::<InspectResource>(),
    OperationEntry::new::<ShowResourceTree>(),
    OperationEntry::new::<LinkChild>(),
    OperationEntry::new::<UnlinkChild>(),
    OperationEntry::new::<RemoveResource>(),
    OperationEntry::new::<ListResourceTypes>(),
    OperationEntry::new::<ShowResourceType>(),
];

/// Lists resources by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListResources {
    /// Only resources of this type and of types that inherit from it.
    #[serde(default)]
    pub type_name: Option<String>,
    /// Only resources that this project links, by name or id.
    #[serde(default)]
    pub project: Option<String>,
}

/// The response of `registry/resource/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceList {
    pub resources: Vec<ListedResource>,
    pub summary: ResourceListSummary,
}

/// A listed resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedResource {
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// `null` if the type defines none or no longer exists.
    pub sandbox_strategy: Option<SandboxStrategy>,
    /// Whether plans may only read the resource.
    pub read_only: bool,
    /// Whether discovery registered the resource, rather than a user.
    pub auto_discovered: bool,
    /// An absolute path, or an address without its password.
    pub location: Option<String>,
    pub description: Option<String>,
}

impl From<(Resource, Option<SandboxStrategy>)> for ListedResource {
    fn from((resource, sandbox_strategy): (Resource, Option<SandboxStrategy>)) -> Self {
        Self {
            id: resource.id,
            name: resource.name.to_string(),
            type_name: resource.type_name.to_string(),
            sandbox_strategy,
            read_only: resource.read_only,
            auto_discovered: resource.auto_discovered,
            location: resource.location,
            description: resource.description,
        }
    }
}

/// The number of listed resources.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceListSummary {
    pub total: u64,
}

impl Operation for ListResources {
    const NAME: &'static str = "registry/resource/list";
    const SUMMARY: &'static str = "List resources";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ResourceList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.project {
            Some(project) => resolver.read_name(project, NamedKind::Project),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ResourceList, OperationError> {
        let filter = ResourceFilter {
            type_name: self.type_name,
            project: self.project,
        };
        let visible = context.visible(Scope::Registry);
        let mut resources = context.resources().list(&filter)?;
        resources.retain(|(resource, _)| visible.contains(namespace_of(resource.name.as_str())));
        let summary = ResourceListSummary {
            total: resources.len() as u64,
        };
        Ok(ResourceList {
            resources: resources.into_iter().map(ListedResource::from).collect(),
            summary,
        })
    }
}

/// A resource with the properties of its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceInfo {
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// `null` when the type no longer exists.
    pub physical_virtual: Option<ResourceKind>,
    pub sandbox_strategy: Option<SandboxStrategy>,
    /// An absolute path, or an address without its password.
    pub location: Option<String>,
    pub description: Option<String>,
    /// Whether plans may only read the resource.
    pub read_only: bool,
    /// Whether discovery registered the resource, rather than a user.
    pub auto_discovered: bool,
    /// The values of the arguments of the type; addresses are without their passwords.
    pub properties: Map<String, Value>,
    /// SHA-256 of the content when the resource was last inspected.
    pub content_hash: Option<String>,
    pub version: Version,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl ResourceInfo {
    /// The description of a resource; `kind` is `None` if its type no longer exists.
    pub fn new(resource: Resource, kind: Option<&InheritedType>) -> Self {
        Self {
            properties: shown_properties(&resource, kind),
            id: resource.id,
            name: resource.name.to_string(),
            type_name: resource.type_name.to_string(),
            physical_virtual: kind.map(|kind| kind.whole.kind),
            sandbox_strategy: kind.and_then(|kind| kind.whole.sandbox_strategy),
            location: resource.location,
            description: resource.description,
            read_only: resource.read_only,
            auto_discovered: resource.auto_discovered,
            content_hash: resource.content_hash.map(|hash| hash.to_string()),
            version: resource.version,
            created: resource.created_at,
            updated: resource.updated_at,
        }
    }
}

/// The properties of a resource, without passwords in addresses.
fn shown_properties(resource: &Resource, kind: Option<&InheritedType>) -> Map<String, Value> {
    let is_address = |name: &str| {
        kind.is_none_or(|kind| {
            let mut arguments = kind.whole.arguments.iter();
            arguments.any(|argument| argument.name == name && argument.kind == ArgumentType::Url)
        })
    };
    let shown = resource.properties.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) if is_address(name) => cleveragents_store::redact(text).into(),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    shown.collect()
}

/// Shows a resource with its type, parents, children and the projects that link it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowResource {
    /// Name or id. Callers on the same machine may also give the first 6 or more characters of the id.
    pub reference: String,
}

/// The response of `registry/resource/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownResource {
    pub resource: ResourceInfo,
    /// The type and the types that it inherits from, the most specific first; `null` if the type no longer exists.
    pub type_chain: Option<Vec<TypeName>>,
    pub parents: Vec<ResourceLink>,
    pub children: Vec<ResourceLink>,
    pub projects: Vec<ProjectLinkInfo>,
}

/// The other end of a link between parent and child.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceLink {
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether discovery created the link.
    pub auto_discovered: bool,
}

impl From<LinkedResource> for ResourceLink {
    fn from(link: LinkedResource) -> Self {
        Self {
            id: link.resource.id,
            name: link.resource.name.to_string(),
            type_name: link.resource.type_name.to_string(),
            auto_discovered: link.auto_discovered,
        }
    }
}

/// A project that links a resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectLinkInfo {
    pub id: ProjectId,
    pub name: String,
    /// The name of the resource inside the project.
    pub alias: String,
    /// Whether plans of the project may only read the resource.
    pub read_only: bool,
}

impl Operation for ShowResource {
    const NAME: &'static str = "registry/resource/show";
    const SUMMARY: &'static str = "Show a registered resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ShownResource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<ShownResource, OperationError> {
        let details = context.resources().show(&self.reference)?;
        let projects = details.projects.into_iter().map(|project| ProjectLinkInfo {
            id: project.id,
            name: project.name.to_string(),
            alias: project.alias.to_string(),
            read_only: project.read_only,
        });
        Ok(ShownResource {
            resource: ResourceInfo::new(details.resource, details.inherited.as_ref()),
            type_chain: details.inherited.map(|kind| kind.chain),
            parents: details.parents.into_iter().map(Into::into).collect(),
            children: details.children.into_iter().map(Into::into).collect(),
            projects: projects.collect(),
        })
    }
}

/// Reports the current state of a resource on the machine of the database: files, branch, commit
/// and uncommitted changes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectResource {
    /// Name or id. Callers on the same machine may also give the first 6 or more characters of the id.
    pub reference: String,
}

/// The response of `registry/resource/inspect`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InspectedResource {
    pub resource: ResourcePlace,
    /// `null` when the location cannot be inspected, such as an address.
    pub exists: Option<bool>,
    pub presence: Presence,
    /// Size of a file, in bytes.
    pub size: Option<u64>,
    /// The last change of a file or folder.
    pub modified: Option<Timestamp>,
    /// State of a git repository.
    pub git: Option<GitState>,
    /// Differences from the registration; missing when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A resource and its location.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourcePlace {
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub location: Option<String>,
}

impl From<Resource> for ResourcePlace {
    fn from(resource: Resource) -> Self {
        Self {
            id: resource.id,
            name: resource.name.to_string(),
            type_name: resource.type_name.to_string(),
            location: resource.location,
        }
    }
}

impl Operation for InspectResource {
    const NAME: &'static str = "registry/resource/inspect";
    const SUMMARY: &'static str = "Show the current state of a resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = InspectedResource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<InspectedResource, OperationError> {
        let found = context.resources().inspect(&self.reference)?;
        Ok(InspectedResource {
            resource: found.resource.into(),
            exists: match found.presence {
                Presence::Unknown => None,
                presence => Some(presence != Presence::Missing),
            },
            presence: found.presence,
            size: found.size,
            modified: found.modified,
            git: found.git,
            warnings: found.warnings,
        })
    }
}

/// Shows the tree of resources below a resource, or all trees.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowResourceTree {
    /// Name or id. Required for callers from other machines; local callers get all trees without
    /// it.
    #[serde(default)]
    pub reference: Option<String>,
    /// Only resources of this type and of types that inherit from it, and their ancestors.
    #[serde(default)]
    pub type_name: Option<String>,
}

/// The response of `registry/resource/tree`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTree {
    pub tree: Vec<ResourceNode>,
}

/// A resource and the resources below it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceNode {
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub sandbox_strategy: Option<SandboxStrategy>,
    /// Whether discovery created the link to the parent.
    pub auto_discovered: bool,
    /// Whether the resource occurs earlier in the tree; its children are listed only there.
    pub repeated: bool,
    pub children: Vec<Self>,
}

impl From<ResourceTreeNode> for ResourceNode {
    fn from(node: ResourceTreeNode) -> Self {
        Self {
            id: node.resource.id,
            name: node.resource.name.to_string(),
            type_name: node.resource.type_name.to_string(),
            sandbox_strategy: node.strategy,
            auto_discovered: node.auto_discovered,
            repeated: node.is_repeated,
            children: node.children.into_iter().map(Self::from).collect(),
        }
    }
}

impl Operation for ShowResourceTree {
    const NAME: &'static str = "registry/resource/tree";
    const SUMMARY: &'static str = "Show the resources below a resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ResourceTree;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.reference {
            Some(reference) => resolver.name(reference, NamedKind::Resource),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ResourceTree, OperationError> {
        if self.reference.is_none() && !context.caller().is_local() {
            let message = "the parameter `reference` is missing";
            return Err(OperationError::new(Code::MalformedRequest, message));
        }
        let resources = context.resources();
        let roots = resources.tree(self.reference.as_deref(), self.type_name.as_deref())?;
        Ok(ResourceTree {
            tree: roots.into_iter().map(ResourceNode::from).collect(),
        })
    }
}

/// Links a resource below another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkChild {
    /// The parent resource, by name or id.
    pub parent: String,
    /// The child resource, by name or id.
    pub child: String,
}

/// The two ends of a link.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ParentAndChild {
    pub parent: String,
    pub child: String,
}

impl From<(Resource, Resource)> for ParentAndChild {
    fn from((parent, child): (Resource, Resource)) -> Self {
        Self {
            parent: parent.name.to_string(),
            child: child.name.to_string(),
        }
    }
}

impl Operation for LinkChild {
    const NAME: &'static str = "registry/resource/link-child";
    const SUMMARY: &'static str = "Link a resource below another";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = ParentAndChild;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.parent, NamedKind::Resource)?;
        resolver.name(&mut self.child, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<ParentAndChild, OperationError> {
        let linked = context.resources().link_child(&self.parent, &self.child)?;
        Ok(linked.into())
    }
}

/// Removes the manual link between a parent and a child resource. Links that discovery created cannot be removed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnlinkChild {
    /// The parent resource, by name or id.
    pub parent: String,
    /// The child resource, by name or id.
    pub child: String,
}

impl Operation for UnlinkChild {
    const NAME: &'static str = "registry/resource/unlink-child";
    const SUMMARY: &'static str = "Remove the link between a resource and the one below it";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = ParentAndChild;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.parent, NamedKind::Resource)?;
        resolver.name(&mut self.child, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<ParentAndChild, OperationError> {
        let resources = context.resources();
        let unlinked = resources.unlink_child(&self.parent, &self.child)?;
        Ok(unlinked.into())
    }
}

/// Removes a resource and the resources that were discovered below it. Its files remain unchanged.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveResource {
    /// Name or id. Callers on the same machine may also give the first 6 or more characters of the id.
    pub reference: String,
    /// Confirms the removal; without it nothing is removed.
    #[serde(default)]
    pub yes: bool,
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `registry/resource/remove`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemovedResource {
    pub removal_summary: ResourceRemoval,
}

/// The removed resources.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRemoval {
    pub resource: String,
    pub id: ResourceId,
    /// Names of the discovered resources that were removed with the resource.
    pub discovered_removed: Vec<String>,
}

impl Operation for RemoveResource {
    const NAME: &'static str = "registry/resource/remove";
    const SUMMARY: &'static str = "Remove a resource; its files remain";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = RemovedResource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<RemovedResource, OperationError> {
        require_confirmation(self.yes)?;
        let resources = context.rehearsing(self.dry_run).resources();
        let mut removed = resources.remove(&self.reference)?.into_iter();
        let resource = removed
            .next()
            .ok_or_else(|| OperationError::internal("no resource was removed"))?;
        Ok(RemovedResource {
            removal_summary: ResourceRemoval {
                resource: resource.name.to_string(),
                id: resource.id,
                discovered_removed: removed.map(|child| child.name.to_string()).collect(),
            },
        })
    }
}
