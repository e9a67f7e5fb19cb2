//! Why something with a project did not work.

use cleveragents_domain::{Code, Diagnose, NameError, PlanId, ProjectId, ProjectPartError};
use serde_json::{Value, json};

use crate::{AutomationError, ResourceError};

/// A failure of the project service.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// No project has this id, prefix or name.
    #[error("project `{0}` does not exist")]
    NotFound(String),
    /// Several projects have this prefix.
    #[error("`{reference}` matches {} projects", .candidates.len())]
    Ambiguous {
        /// What was given.
        reference: String,
        /// The projects it could mean.
        candidates: Vec<(ProjectId, String)>,
    },
    /// The name is taken.
    #[error("project `{0}` exists already; nothing was changed")]
    Exists(String),
    /// The name is not well formed, or its namespace is not for users.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An alias, a tag, an invariant or a profile is not allowed.
    #[error(transparent)]
    Part(#[from] ProjectPartError),
    /// The alias means another resource.
    #[error("project `{project}` calls {resource} `{alias}` already; nothing was changed")]
    AliasTaken {
        /// The project.
        project: String,
        /// The alias.
        alias: String,
        /// What it means.
        resource: String,
    },
    /// The resource is linked.
    #[error("project `{project}` links {resource} already, as `{alias}`; nothing was changed")]
    AlreadyLinked {
        /// The project.
        project: String,
        /// The resource.
        resource: String,
        /// What it is called there.
        alias: String,
    },
    /// The resource is not linked.
    #[error("project `{project}` does not link {resource}")]
    NotLinked {
        /// The project.
        project: String,
        /// The resource.
        resource: String,
    },
    /// Plans that are not over work on it.
    #[error(
        "project `{name}` is used by {} that {} not over: {}; nothing was changed",
        if .plans.len() == 1 { "a plan" } else { "plans" },
        if .plans.len() == 1 { "is" } else { "are" },
        shown(.plans)
    )]
    InUse {
        /// The project.
        name: String,
        /// The plans.
        plans: Vec<PlanId>,
    },
    /// Something is wrong with a resource.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The automation profile is not there.
    #[error(transparent)]
    Automation(#[from] AutomationError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

/// Plans by their ids, the first few of them.
pub(crate) fn shown(plans: &[PlanId]) -> String {
    const MOST: usize = 5;
    let mut ids: Vec<String> = plans.iter().take(MOST).map(ToString::to_string).collect();
    if plans.len() > MOST {
        ids.push(format!("{} more", plans.len() - MOST));
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

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound(_) => "run `agents project list` to see the projects there are",
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| format!("\n{id} {name}"));
                return Some(format!(
                    "give more characters of the id; the projects it could mean are:{}",
                    lines.collect::<String>()
                ));
            }
            Self::Exists(name) => {
                return Some(format!(
                    "choose another name, or add to it with `agents project link-resource {name} RESOURCE`"
                ));
            }
            Self::Name(_) => "a project is named like local/shop or team/shop",
            Self::Part(ProjectPartError::Alias(_)) => "an alias is one word such as api or web-2",
            Self::Part(ProjectPartError::Profile(_)) => {
                "a profile is named like supervised or team/careful"
            }
            Self::Part(_) => "run `agents project create --help` to see what is allowed",
            Self::AliasTaken { .. } => "choose another alias with `--alias NAME`",
            Self::AlreadyLinked {
                project, resource, ..
            } => {
                return Some(format!(
                    "to link it differently, first run `agents project unlink-resource {project} {resource}`"
                ));
            }
            Self::NotLinked { project, .. } => {
                return Some(format!(
                    "run `agents project show {project}` to see what it links"
                ));
            }
            Self::InUse { plans, .. } => {
                return plans.first().map(|plan| {
                    format!("apply it, or cancel it with `agents plan cancel {plan}`")
                });
            }
            Self::Resource(error) => return error.hint(),
            Self::Automation(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(reference) => json!({"reference": reference}),
            Self::Ambiguous {
                reference,
                candidates,
            } => {
                let candidates: Vec<Value> = candidates
                    .iter()
                    .map(|(id, name)| json!({"id": id, "name": name}))
                    .collect();
                json!({"reference": reference, "candidates": candidates})
            }
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
