//! Errors of the project service.

use cleveragents_domain::{
    Code, Diagnose, Hint, NameError, Placeholder, PlanId, ProjectId, ProjectPartError, hint,
    suggest,
};
use serde_json::{Value, json};

use crate::reference::ambiguity_details;
use crate::{DefinitionError, ResourceError};

/// A failure of the project service.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// No project has this id, prefix or name.
    #[error("project `{0}` does not exist")]
    NotFound(String),
    /// Several projects have this prefix.
    #[error("`{reference}` matches {} projects", .candidates.len())]
    Ambiguous {
        /// The given prefix.
        reference: String,
        /// The matching projects.
        candidates: Vec<(ProjectId, String)>,
    },
    /// The name is taken.
    #[error("project `{0}` exists already; nothing was changed")]
    Exists(String),
    /// The name is not well formed, or its namespace is reserved.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An alias, a tag, an invariant or a profile is not allowed.
    #[error(transparent)]
    Part(#[from] ProjectPartError),
    /// The alias is used for another resource.
    #[error(
        "project `{project}` uses the alias `{alias}` for {resource} already; nothing was \
    changed"
    )]
    AliasTaken {
        /// Name of the project.
        project: String,
        /// The alias in conflict.
        alias: String,
        /// The resource that has the alias.
        resource: String,
    },
    /// The resource is already linked.
    #[error("project `{project}` links {resource} already, as `{alias}`; nothing was changed")]
    AlreadyLinked {
        /// Name of the project.
        project: String,
        /// Name of the resource.
        resource: String,
        /// Alias of the resource in the project.
        alias: String,
    },
    /// The resource is not linked.
    #[error("project `{project}` does not link {resource}")]
    NotLinked {
        /// Name of the project.
        project: String,
        /// Name of the resource.
        resource: String,
    },
    /// Active plans use the project.
    #[error(
        "project `{name}` is used by {} that {} not finished: {}; nothing was changed",
        if .plans.len() == 1 { "a plan" } else { "plans" },
        if .plans.len() == 1 { "is" } else { "are" },
        shown(.plans)
    )]
    InUse {
        name: String,
        /// Active plans that use the project.
        plans: Vec<PlanId>,
    },
    /// An operation on a resource failed.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The automation profile does not exist.
    #[error(transparent)]
    Automation(#[from] DefinitionError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

/// The ids of the first few plans, as text.
pub(crate) fn shown(plans: &[PlanId]) -> String {
    const MAX_SHOWN: usize = 5;
    let mut ids: Vec<String> = plans
        .iter()
        .take(MAX_SHOWN)
        .map(ToString::to_string)
        .collect();
    if plans.len() > MAX_SHOWN {
        ids.push(format!("{} more", plans.len() - MAX_SHOWN));
    }
    ids.join(", ")
}

impl Diagnose for ProjectError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::ProjectNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousProject,
            Self::Exists(_) => Code::ProjectExists,
            Self::Name(_) => Code::InvalidName,
            Self::Part(_) => Code::InvalidProject,
            Self::AliasTaken { .. } => Code::AliasTaken,
            Self::AlreadyLinked { .. } => Code::ResourceAlreadyLinked,
            Self::NotLinked { .. } => Code::ResourceNotLinked,
            Self::InUse { .. } => Code::ProjectInUse,
            Self::Resource(error) => error.code(),
            Self::Automation(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => hint!("run {} to list the projects", suggest::project_list()),
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| format!("\n{id} {name}"));
                hint!(
                    "give more characters of the id; it matches these projects:{}",
                    lines.collect::<String>()
                )
            }
            Self::Exists(name) => hint!(
                "choose another name, or add to it with {}",
                suggest::project_link_resource(name, Placeholder("RESOURCE"))
            ),
            Self::Name(_) => "a project is named like local/shop or team/shop".into(),
            Self::Part(ProjectPartError::Alias(_)) => {
                "an alias is one word such as api or web-2".into()
            }
            Self::Part(ProjectPartError::Profile(_)) => {
                "a profile is named like supervised or team/careful".into()
            }
            Self::Part(_) => hint!(
                "run {} to list the allowed values",
                suggest::project_create_help()
            ),
            Self::AliasTaken { .. } => hint!(
                "choose another alias with `{}`",
                suggest::project_link_resource_as(Placeholder("NAME")).only_arguments()
            ),
            Self::AlreadyLinked {
                project, resource, ..
            } => hint!(
                "to link it differently, first run {}",
                suggest::project_unlink_resource(project, resource)
            ),
            Self::NotLinked { project, .. } => hint!(
                "run {} to list its resources",
                suggest::project_show(project)
            ),
            Self::InUse { plans, .. } => hint!(
                "apply it, or cancel it with {}",
                suggest::plan_cancel(plans.first()?)
            ),
            Self::Resource(error) => return error.hint(),
            Self::Automation(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(reference) => json!({"reference": reference}),
            Self::Ambiguous {
                reference,
                candidates,
            } => ambiguity_details(reference, candidates),
            Self::Exists(name) => json!({"name": name}),
            Self::AliasTaken {
                project,
                alias,
                resource,
            }
            | Self::AlreadyLinked {
                project,
                alias,
                resource,
            } => json!({"project": project, "alias": alias, "resource": resource}),
            Self::NotLinked { project, resource } => {
                json!({"project": project, "resource": resource})
            }
            Self::InUse { name, plans } => json!({"name": name, "plans": plans}),
            Self::Resource(error) => error.details(),
            Self::Automation(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Name(_) | Self::Part(_) => Value::Null,
        }
    }
}
