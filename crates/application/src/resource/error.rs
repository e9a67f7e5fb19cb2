//! Errors of resources and resource types.

use cleveragents_domain::{
    Code, Diagnose, Hint, InheritanceError, NameError, Placeholder, ResourceId, Suggestion,
    TypeRuleError, hint, suggest,
};
use serde_json::{Value, json};

use crate::reference::ambiguity_details;

/// A reference to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceUser {
    /// A project links the resource.
    Project(String),
    /// The resource is the parent of a link: parent and child.
    Child(String, String),
    /// The resource is the child of a manual link: parent and child.
    Parent(String, String),
}

impl ResourceUser {
    fn description(&self) -> String {
        match self {
            Self::Project(project) => format!("project {project} links it"),
            Self::Child(parent, child) => format!("{child} is below {parent}"),
            Self::Parent(parent, child) => format!("{child} is linked below {parent}"),
        }
    }

    /// The command that removes the reference.
    fn release(&self, resource: &str) -> Suggestion {
        match self {
            Self::Project(project) => suggest::project_unlink_resource(project, resource),
            Self::Child(parent, child) | Self::Parent(parent, child) => {
                suggest::resource_unlink_child(parent, child)
            }
        }
    }
}

fn describe_users(holders: &[(String, ResourceUser)]) -> String {
    holders
        .iter()
        .map(|(_, holder)| holder.description())
        .collect::<Vec<_>>()
        .join("; ")
}

fn describe_place(place: Option<(u64, u64)>) -> String {
    place.map_or_else(String::new, |(line, column)| {
        format!(" in line {line}, column {column}")
    })
}

/// A failure of the resource service.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// No resource has this id, prefix or name.
    #[error("resource `{0}` does not exist")]
    NotFound(String),
    /// Several resources have this prefix.
    #[error("`{reference}` matches {} resources", .candidates.len())]
    Ambiguous {
        /// The given prefix.
        reference: String,
        /// The matching resources.
        candidates: Vec<(ResourceId, String)>,
    },
    /// The name is taken.
    #[error("resource `{name}` exists already, as {type_name}; nothing was changed")]
    Exists {
        /// The name in conflict.
        name: String,
        /// The type of the resource that has the name.
        type_name: String,
    },
    /// A name is not well formed, or its namespace is reserved.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No type has this name.
    #[error("resource type `{name}` does not exist")]
    TypeNotFound {
        /// The given name.
        name: String,
        /// The most similar type.
        nearest: Option<String>,
    },
    /// A type of this name is registered.
    #[error("resource type `{0}` exists already; nothing was changed")]
    TypeExists(String),
    /// The name belongs to a built-in type.
    #[error("`{0}` is a built-in resource type")]
    BuiltIn(String),
    /// The file is not a resource type.
    #[error("the resource type is invalid{}: {message}", describe_place(*.place))]
    Malformed {
        /// Description of the problem.
        message: String,
        /// Line and column, starting at 1.
        place: Option<(u64, u64)>,
        /// The most similar field.
        nearest: Option<String>,
    },
    /// The type violates a rule.
    #[error("resource type `{name}`: {rule}")]
    Rule {
        /// Name of the type.
        name: String,
        /// The violated rule.
        rule: TypeRuleError,
    },
    /// The inheritance of the type cannot be resolved.
    #[error(transparent)]
    Inheritance(#[from] InheritanceError),
    /// Resources or types refer to the type.
    #[error("resource type `{name}` is in use by {}", describe_type_users(.resources, .subtypes))]
    TypeInUse {
        /// Name of the type.
        name: String,
        /// Resources of this type.
        resources: Vec<String>,
        /// The types that inherit from the type.
        subtypes: Vec<String>,
    },
    /// Only discovery creates resources of this type.
    #[error("resources of type `{0}` cannot be registered by hand")]
    NotAddable(String),
    /// A value is invalid for its argument.
    #[error("--{argument}: {problem}")]
    Argument {
        /// Name of the argument.
        argument: String,
        /// Description of the problem.
        problem: String,
    },
    /// The location does not exist.
    #[error("`{path}` cannot be used: {reason}")]
    Location {
        /// The missing path.
        path: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The location does not contain what the type requires.
    #[error("`{path}` {problem}")]
    Unsuitable {
        /// Path of the location.
        path: String,
        /// Description of the mismatch.
        problem: String,
    },
    /// Other objects refer to the resource or to a resource discovered below it.
    #[error("resource `{name}` is in use: {}; nothing was removed", describe_users(.holders))]
    InUse {
        name: String,
        /// Each referenced resource with its reference.
        holders: Vec<(String, ResourceUser)>,
    },
    /// The resource was discovered, so only its parent can be added or removed.
    #[error("resource `{name}` was discovered below {parent} and is removed with it")]
    Discovered {
        name: String,
        /// Name of the parent.
        parent: String,
    },
    /// The types do not allow the link.
    #[error("a {child} cannot be below a {parent}")]
    LinkNotAllowed {
        /// Type of the parent.
        parent: String,
        /// Type of the child.
        child: String,
    },
    /// The parent is already below the child.
    #[error("{parent} already is below {child}, or is the same; the link would close a cycle")]
    Circle {
        /// Name of the parent.
        parent: String,
        /// Name of the child.
        child: String,
    },
    /// The link does not exist.
    #[error("{child} is not directly below {parent}")]
    LinkNotFound {
        /// Name of the parent.
        parent: String,
        /// Name of the child.
        child: String,
    },
    /// The link already exists.
    #[error("{child} is below {parent} already")]
    LinkExists {
        /// Name of the parent.
        parent: String,
        /// Name of the child.
        child: String,
    },
    /// The link was created by discovery.
    #[error("{child} was discovered below {parent}; the link cannot be removed by hand")]
    DiscoveredLink {
        /// Name of the parent.
        parent: String,
        /// Name of the child.
        child: String,
    },
    /// Neither the resource nor any resource above it has a sandbox strategy.
    #[error("neither resource `{0}` nor a resource above it can be isolated")]
    NoBoundary(String),
    /// The `git` program cannot be run.
    #[error("git cannot be run: {0}")]
    Git(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn describe_type_users(resources: &[String], subtypes: &[String]) -> String {
    let mut parts = Vec::new();
    if !resources.is_empty() {
        parts.push(format!("resources {}", resources.join(", ")));
    }
    if !subtypes.is_empty() {
        parts.push(format!("types {}", subtypes.join(", ")));
    }
    parts.join(" and ")
}

impl ResourceError {
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed {
            message: message.into(),
            place: None,
            nearest: None,
        }
    }

    pub(super) fn unsuitable(path: &std::path::Path, problem: impl Into<String>) -> Self {
        Self::Unsuitable {
            path: path.display().to_string(),
            problem: problem.into(),
        }
    }

    pub(super) fn location(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::Location {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}

impl Diagnose for ResourceError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::ResourceNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousResource,
            Self::Exists { .. } => Code::ResourceExists,
            Self::Name(_) => Code::InvalidName,
            Self::TypeNotFound { .. } => Code::ResourceTypeNotFound,
            Self::TypeExists(_) => Code::ResourceTypeExists,
            Self::BuiltIn(_) => Code::BuiltInResourceType,
            Self::Malformed { .. } => Code::MalformedResourceType,
            Self::Rule { .. } | Self::Inheritance(_) => Code::InvalidResourceType,
            Self::TypeInUse { .. } => Code::ResourceTypeInUse,
            Self::NotAddable(_) => Code::ResourceNotAddable,
            Self::Argument { .. } => Code::InvalidResourceArgument,
            Self::Location { .. } => Code::LocationNotFound,
            Self::Unsuitable { .. } => Code::UnsuitableLocation,
            Self::InUse { .. } | Self::Discovered { .. } => Code::ResourceInUse,
            Self::LinkNotAllowed { .. } => Code::LinkNotAllowed,
            Self::Circle { .. } => Code::LinkCreatesCycle,
            Self::LinkNotFound { .. } => Code::LinkNotFound,
            Self::LinkExists { .. } => Code::LinkExists,
            Self::DiscoveredLink { .. } => Code::DiscoveredLink,
            Self::NoBoundary(_) => Code::NoSandboxBoundary,
            Self::Git(_) => Code::GitUnavailable,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => hint!(
                "run {} to list the resources",
                suggest::resource_list()
            ),
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| format!("\n{id} {name}"));
                hint!(
                    "give more characters of the id; it matches these resources:{}",
                    lines.collect::<String>()
                )
            }
            Self::Exists { .. } => {
                "choose another name, or register it again with `--update` and the same type".into()
            }
            Self::Name(_) => {
                "a name is written like local/api-repo or local/api-repo/src, without a reserved namespace".into()
            }
            Self::TypeNotFound {
                nearest: Some(nearest),
                ..
            } => hint!(
                "did you mean `{}`? run {} to list the types",
                nearest,
                suggest::resource_type_list()
            ),
            Self::TypeNotFound { .. } => hint!(
                "run {} to list the types",
                suggest::resource_type_list()
            ),
            Self::TypeExists(_) => hint!(
                "replace its definition with {}",
                suggest::resource_type_add_update()
            ),
            Self::BuiltIn(_) => {
                "choose a name in your own namespace, and inherit from the built-in type to extend it".into()
            }
            Self::Malformed {
                nearest: Some(nearest),
                ..
            } => hint!("did you mean `{}`?", nearest),
            Self::Malformed { .. } | Self::Rule { .. } => {
                "docs/reference/resources.md has an example of a resource type".into()
            }
            Self::Inheritance(_) => hint!(
                "inherit from a type that {} lists, through at most 5 levels",
                suggest::resource_type_list()
            ),
            Self::TypeInUse { .. } => "first remove the resources and types that use it".into(),
            Self::NotAddable(_) => hint!(
                "run {} and choose a type that can be added",
                suggest::resource_type_list()
            ),
            Self::Argument { .. } => hint!(
                "run {} to list the arguments of the type",
                suggest::resource_add_help()
            ),
            Self::Location { .. } => "check the path, and that you may read it".into(),
            Self::Unsuitable { .. } => hint!(
                "give a path that matches the type, or choose another type with {}",
                suggest::resource_type_list()
            ),
            Self::InUse { holders, .. } => {
                let releases = holders.iter().map(|(name, holder)| holder.release(name).into());
                hint!("first run {}", Hint::join(releases, ", "))
            }
            Self::Discovered { parent, .. } => hint!(
                "remove its parent with {}",
                suggest::resource_remove(parent)
            ),
            Self::LinkNotAllowed { parent, .. } => hint!(
                "run {} to list the types that may be below it",
                suggest::resource_type_show(parent)
            ),
            Self::Circle { child, .. } => hint!(
                "run {} to list the resources below it",
                suggest::resource_tree(child)
            ),
            Self::LinkNotFound { parent, .. } | Self::LinkExists { parent, .. } => hint!(
                "run {} to list the resources below it",
                suggest::resource_tree(parent)
            ),
            Self::DiscoveredLink { parent, .. } => hint!(
                "it is removed with {}, or by the next {} after its files are deleted",
                parent,
                suggest::resource_add_update(Placeholder("TYPE"), Placeholder("NAME"))
            ),
            Self::NoBoundary(_) => hint!(
                "link it below a resource that can be isolated with {}",
                suggest::resource_link_child()
            ),
            Self::Git(_) => "install git and make sure that it is in PATH".into(),
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
            Self::Exists { name, type_name } => json!({"name": name, "type": type_name}),
            Self::TypeNotFound { name, nearest } => json!({"name": name, "nearest": nearest}),
            Self::TypeExists(name) | Self::BuiltIn(name) | Self::NotAddable(name) => {
                json!({"name": name})
            }
            Self::Malformed { place, nearest, .. } => {
                json!({"line": place.map(|place| place.0), "column": place.map(|place| place.1), "nearest": nearest})
            }
            Self::Rule { name, .. } | Self::NoBoundary(name) => json!({"name": name}),
            Self::TypeInUse {
                name,
                resources,
                subtypes,
            } => json!({"name": name, "resources": resources, "subtypes": subtypes}),
            Self::Argument { argument, .. } => json!({"argument": argument}),
            Self::Location { path, .. } | Self::Unsuitable { path, .. } => json!({"path": path}),
            Self::InUse { name, holders } => {
                let holders: Vec<String> = holders
                    .iter()
                    .map(|(_, holder)| holder.description())
                    .collect();
                json!({"name": name, "holders": holders})
            }
            Self::Discovered { name, parent } => json!({"name": name, "parent": parent}),
            Self::LinkNotAllowed { parent, child }
            | Self::Circle { parent, child }
            | Self::LinkNotFound { parent, child }
            | Self::LinkExists { parent, child }
            | Self::DiscoveredLink { parent, child } => json!({"parent": parent, "child": child}),
            Self::Store(error) => error.details(),
            Self::Name(_) | Self::Inheritance(_) | Self::Git(_) => Value::Null,
        }
    }
}

impl From<cleveragents_domain::yaml::Fault> for ResourceError {
    fn from(fault: cleveragents_domain::yaml::Fault) -> Self {
        Self::Malformed {
            message: fault.message,
            place: fault.place,
            nearest: fault.nearest,
        }
    }
}
