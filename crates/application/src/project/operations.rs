//! The operations on projects.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Project, ProjectId, ProjectRules, ResourceId, Timestamp, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ProjectError;
pub use super::folder::{FolderProject, ProjectOfFolder};
use super::service::{LinkRequest, NewProject, ProjectTarget};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    namespace_of, require_confirmation,
};

/// The operations on projects that servers offer. [`ProjectOfFolder`] is for local callers only.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<CreateProject>(),
    OperationEntry::new::<ListProjects>(),
    OperationEntry::new::<ShowProject>(),
    OperationEntry::new::<DeleteProject>(),
    OperationEntry::new::<LinkResource>(),
    OperationEntry::new::<UnlinkResource>(),
];

/// A project with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectInfo {
    pub id: ProjectId,
    pub name: String,
    pub namespace: String,
    /// The server part of the name, if any.
    pub server: Option<String>,
    pub description: Option<String>,
    pub tags: Vec<String>,
    /// The invariants of all plans of the project.
    pub invariants: Vec<String>,
    /// The actor that reconciles invariants.
    pub invariant_actor: Option<String>,
    /// The automation profile that plans of the project start with.
    pub automation_profile: Option<String>,
    pub version: Version,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl From<Project> for ProjectInfo {
    fn from(project: Project) -> Self {
        let rules = project.rules;
        Self {
            id: project.id,
            namespace: project.name.namespace().to_owned(),
            server: project.name.server().map(str::to_owned),
            name: project.name.to_string(),
            description: rules.description,
            tags: rules.tags,
            invariants: rules.invariants,
            invariant_actor: rules.invariant_actor.map(|actor| actor.to_string()),
            automation_profile: rules.automation_profile,
            version: project.version,
            created: project.created_at,
            updated: project.updated_at,
        }
    }
}

/// A resource that a project links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkedResource {
    /// The name of the resource inside the project.
    pub alias: String,
    pub id: ResourceId,
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// An absolute path, or an address without its password.
    pub location: Option<String>,
    /// Whether plans may only read the resource, because the resource or its link is read-only.
    pub read_only: bool,
}

impl From<ProjectTarget> for LinkedResource {
    fn from(target: ProjectTarget) -> Self {
        Self {
            alias: target.alias.to_string(),
            id: target.resource.id,
            name: target.resource.name.to_string(),
            type_name: target.resource.type_name.to_string(),
            location: target.resource.location,
            read_only: target.read_only,
        }
    }
}

/// A project and the resources that it links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDetails {
    pub project: ProjectInfo,
    /// The linked resources, sorted by alias.
    pub linked_resources: Vec<LinkedResource>,
}

impl ProjectDetails {
    fn read(context: &OperationContext, reference: &str) -> Result<Self, OperationError> {
        let (project, targets) = context.projects().view(reference)?;
        Ok(Self {
            project: project.into(),
            linked_resources: targets.into_iter().map(LinkedResource::from).collect(),
        })
    }
}

/// Creates a project with the resources that it links, atomically.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProject {
    /// For example `acme/shop`.
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// Resources to link, each by name or id. An alias may follow a colon: `acme/orders:db`.
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// The invariants of all plans of the project.
    #[serde(default)]
    pub invariants: Vec<String>,
    /// The actor that reconciles invariants.
    #[serde(default)]
    pub invariant_actor: Option<String>,
    /// The automation profile that plans of the project start with.
    #[serde(default)]
    pub automation_profile: Option<String>,
}

/// Splits a resource from the alias after its last colon. In `server:namespace/name`, a slash follows the colon, so the
/// text after the colon is not an alias.
fn split_alias(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((resource, alias)) if !alias.contains('/') => (resource, Some(alias)),
        _ => (text, None),
    }
}

impl Operation for CreateProject {
    const NAME: &'static str = "registry/project/create";
    const SUMMARY: &'static str = "Create a project";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Write);
    type Response = ProjectDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        // The id of an existing project cannot be the name of a new one.
        resolver.name(&mut self.name, NamedKind::Definition)?;
        for link in &mut self.resources {
            let (resource, alias) = split_alias(link);
            let (mut resource, alias) = (resource.to_owned(), alias.map(str::to_owned));
            resolver.name(&mut resource, NamedKind::Resource)?;
            *link = match alias {
                Some(alias) => format!("{resource}:{alias}"),
                None => resource,
            };
        }
        let read = [&mut self.invariant_actor, &mut self.automation_profile];
        for name in read.into_iter().flatten() {
            resolver.read_name(name, NamedKind::Definition)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ProjectDetails, OperationError> {
        let invariant_actor = self.invariant_actor.as_deref().map(str::parse).transpose();
        let links = self.resources.iter().map(|link| {
            let (resource, alias) = split_alias(link);
            LinkRequest {
                resource: resource.to_owned(),
                alias: alias.map(str::to_owned),
                read_only: false,
            }
        });
        let new = NewProject {
            name: self.name,
            rules: ProjectRules {
                description: self.description,
                tags: self.tags,
                invariants: self.invariants,
                invariant_actor: invariant_actor.map_err(ProjectError::Name)?,
                automation_profile: self.automation_profile,
            },
            links: links.collect(),
        };
        let project = context.projects().create(new)?;
        ProjectDetails::read(context, &project.id.to_string())
    }
}

/// Lists projects by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProjects {}

/// The response of `registry/project/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectList {
    pub projects: Vec<ListedProject>,
    pub summary: ProjectListSummary,
}

/// A listed project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedProject {
    #[serde(flatten)]
    pub project: ProjectInfo,
    /// The number of resources that the project links.
    pub resources: u64,
}

/// The number of listed projects.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectListSummary {
    pub total: u64,
}

impl Operation for ListProjects {
    const NAME: &'static str = "registry/project/list";
    const SUMMARY: &'static str = "List projects";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ProjectList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ProjectList, OperationError> {
        let visible = context.visible(Scope::Registry);
        let mut projects = context.projects().list()?;
        projects.retain(|project| visible.contains(namespace_of(&project.name.to_string())));
        let summary = ProjectListSummary {
            total: projects.len() as u64,
        };
        let projects = projects.into_iter().map(|project| ListedProject {
            resources: project.links.len() as u64,
            project: project.into(),
        });
        Ok(ProjectList {
            projects: projects.collect(),
            summary,
        })
    }
}

/// Shows a project and the resources that it links.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowProject {
    /// Name or id. Callers on the same machine may also give the first 6 or more characters of the id.
    pub reference: String,
}

impl Operation for ShowProject {
    const NAME: &'static str = "registry/project/show";
    const SUMMARY: &'static str = "Show a project and the resources that it links";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ProjectDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Project)
    }

    fn run(self, context: &OperationContext) -> Result<ProjectDetails, OperationError> {
        ProjectDetails::read(context, &self.reference)
    }
}

/// Deletes a project with its links and invariants. The linked resources remain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteProject {
    /// Name or id. Callers on the same machine may also give the first 6 or more characters of the id.
    pub reference: String,
    /// Confirms the deletion; without it nothing is deleted.
    #[serde(default)]
    pub yes: bool,
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `registry/project/delete`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedProject {
    pub deletion_summary: ProjectDeletion,
}

/// The deleted project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDeletion {
    pub project: String,
    pub resources_unlinked: u64,
}

impl Operation for DeleteProject {
    const NAME: &'static str = "registry/project/delete";
    const SUMMARY: &'static str = "Delete a project; the resources that it links remain";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = DeletedProject;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Project)
    }

    fn run(self, context: &OperationContext) -> Result<DeletedProject, OperationError> {
        require_confirmation(self.yes)?;
        let projects = context.rehearsing(self.dry_run).projects();
        let project = projects.delete(&self.reference)?;
        Ok(DeletedProject {
            deletion_summary: ProjectDeletion {
                project: project.name.to_string(),
                resources_unlinked: project.links.len() as u64,
            },
        })
    }
}

/// Links a resource to a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkResource {
    /// The project, by name or id.
    pub reference: String,
    /// The resource, by name or id.
    pub resource: String,
    /// The name of the resource inside the project; the last part of the resource's name when not given.
    #[serde(default)]
    pub alias: Option<String>,
    /// Whether plans of the project may only read the resource.
    #[serde(default)]
    pub read_only: bool,
}

impl Operation for LinkResource {
    const NAME: &'static str = "registry/project/link-resource";
    const SUMMARY: &'static str = "Link a resource to a project";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = ProjectDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Project)?;
        resolver.name(&mut self.resource, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<ProjectDetails, OperationError> {
        let link = LinkRequest {
            resource: self.resource,
            alias: self.alias,
            read_only: self.read_only,
        };
        let project = context.projects().link_resource(&self.reference, link)?;
        ProjectDetails::read(context, &project.id.to_string())
    }
}

/// Unlinks a resource from a project. The resource remains.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnlinkResource {
    /// The project, by name or id.
    pub reference: String,
    /// The resource, by name or id. Callers on the same machine may also give its alias in the project.
    pub resource: String,
}

/// The response of `registry/project/unlink-resource`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnlinkedResource {
    pub project: String,
    pub unlinked: UnlinkedResourceInfo,
    /// The number of resources that are still linked.
    pub resources_linked: u64,
}

/// The resource that is no longer linked.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnlinkedResourceInfo {
    pub id: ResourceId,
    pub name: String,
}

impl Operation for UnlinkResource {
    const NAME: &'static str = "registry/project/unlink-resource";
    const SUMMARY: &'static str = "Unlink a resource from a project; the resource remains";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = UnlinkedResource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.reference, NamedKind::Project)?;
        resolver.name(&mut self.resource, NamedKind::Resource)
    }

    fn run(self, context: &OperationContext) -> Result<UnlinkedResource, OperationError> {
        let projects = context.projects();
        let (project, resource) = projects.unlink_resource(&self.reference, &self.resource)?;
        Ok(UnlinkedResource {
            project: project.name.to_string(),
            unlinked: UnlinkedResourceInfo {
                id: resource.id,
                name: resource.name.to_string(),
            },
            resources_linked: project.links.len() as u64,
        })
    }
}
