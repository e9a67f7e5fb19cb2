//! Why something with a resource or a resource type did not work.

use cleveragents_domain::{Code, Diagnose, InheritanceError, NameError, ResourceId, TypeRuleError};
use serde_json::{Value, json};

/// Something that still refers to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A project links it.
    Project(String),
    /// It contains a resource by a hand-made link: parent and child.
    Child(String, String),
    /// It lies below a resource by a hand-made link: parent and child.
    Parent(String, String),
}

impl Holder {
    fn phrase(&self) -> String {
        match self {
            Self::Project(project) => format!("project {project} links it"),
            Self::Child(parent, child) => format!("{child} lies below {parent}"),
            Self::Parent(parent, child) => format!("{child} was put below {parent}"),
        }
    }

    fn command(&self, resource: &str) -> String {
        match self {
            Self::Project(project) => {
                format!("agents project unlink-resource {project} {resource}")
            }
            Self::Child(parent, child) | Self::Parent(parent, child) => {
                format!("agents resource unlink-child {parent} {child}")
            }
        }
    }
}

fn phrases(holders: &[(String, Holder)]) -> String {
    holders
        .iter()
        .map(|(_, holder)| holder.phrase())
        .collect::<Vec<_>>()
        .join("; ")
}

fn place_phrase(place: Option<(u64, u64)>) -> String {
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
        /// What was given.
        reference: String,
        /// The resources it could mean.
        candidates: Vec<(ResourceId, String)>,
    },
    /// The name is taken.
    #[error("resource `{name}` exists already, as {type_name}; nothing was changed")]
    Exists {
        /// The name.
        name: String,
        /// The type of the resource that has it.
        type_name: String,
    },
    /// A name is not well formed, or its namespace is not for users.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No type has this name.
    #[error("resource type `{name}` does not exist")]
    TypeNotFound {
        /// What was given.
        name: String,
        /// The type that was probably meant.
        nearest: Option<String>,
    },
    /// A type of this name is registered.
    #[error("resource type `{0}` exists already; nothing was changed")]
    TypeExists(String),
    /// The name belongs to the program.
    #[error("`{0}` is a built-in resource type")]
    BuiltIn(String),
    /// The file is not a resource type.
    #[error("the resource type is wrong{}: {message}", place_phrase(*.place))]
    Malformed {
        /// What is wrong.
        message: String,
        /// Line and column, from 1.
        place: Option<(u64, u64)>,
        /// The field that was probably meant.
        nearest: Option<String>,
    },
    /// The type breaks a rule.
    #[error("resource type `{name}`: {rule}")]
    Rule {
        /// The type.
        name: String,
        /// The rule.
        rule: TypeRuleError,
    },
    /// What the type inherits cannot be worked out.
    #[error(transparent)]
    Inheritance(#[from] InheritanceError),
    /// Resources or types refer to the type.
    #[error("resource type `{name}` is in use by {}", users_phrase(.resources, .subtypes))]
    TypeInUse {
        /// The type.
        name: String,
        /// The resources of it.
        resources: Vec<String>,
        /// The types that inherit from it.
        subtypes: Vec<String>,
    },
    /// Only discovery makes resources of this type.
    #[error("resources of type `{0}` cannot be registered by hand")]
    NotAddable(String),
    /// A value does not fit its argument.
    #[error("--{argument}: {problem}")]
    Argument {
        /// The argument.
        argument: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// There is nothing at this place.
    #[error("`{path}` cannot be used: {reason}")]
    Location {
        /// The path.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// What is there is not what the type needs.
    #[error("`{path}` {problem}")]
    Unsuitable {
        /// The path.
        path: String,
        /// What it is, or is not.
        problem: String,
    },
    /// Something refers to the resource, or to what discovery found below it.
    #[error("resource `{name}` is in use: {}; nothing was removed", phrases(.holders))]
    InUse {
        /// The resource.
        name: String,
        /// What refers to which resource.
        holders: Vec<(String, Holder)>,
    },
    /// Discovery made it, so it comes and goes with its parent.
    #[error("resource `{name}` was discovered below {parent} and goes with it")]
    Discovered {
        /// The resource.
        name: String,
        /// What it was found below.
        parent: String,
    },
    /// The types do not fit.
    #[error("a {child} cannot lie below a {parent}")]
    LinkNotAllowed {
        /// The type of the parent.
        parent: String,
        /// The type of the child.
        child: String,
    },
    /// The parent already lies below the child.
    #[error("{parent} already lies below {child}, or is the same; the link would close a circle")]
    Circle {
        /// The parent.
        parent: String,
        /// The child.
        child: String,
    },
    /// There is no such link.
    #[error("{child} does not lie directly below {parent}")]
    LinkNotFound {
        /// The parent.
        parent: String,
        /// The child.
        child: String,
    },
    /// There is such a link.
    #[error("{child} lies below {parent} already")]
    LinkExists {
        /// The parent.
        parent: String,
        /// The child.
        child: String,
    },
    /// The link was made by discovery.
    #[error("{child} was discovered below {parent}; the link cannot be removed by hand")]
    DiscoveredLink {
        /// The parent.
        parent: String,
        /// The child.
        child: String,
    },
    /// Neither the resource nor anything above it has a strategy.
    #[error("neither resource `{0}` nor anything above it can be isolated")]
    NoBoundary(String),
    /// Git is not there.
    #[error("git cannot be run: {0}")]
    Git(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn users_phrase(resources: &[String], subtypes: &[String]) -> String {
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
            Self::Circle { .. } => Code::LinkClosesCircle,
            Self::LinkNotFound { .. } => Code::LinkNotFound,
            Self::LinkExists { .. } => Code::LinkExists,
            Self::DiscoveredLink { .. } => Code::DiscoveredLink,
            Self::NoBoundary(_) => Code::NoSandboxBoundary,
            Self::Git(_) => Code::GitUnavailable,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound(_) => "run `agents resource list` to see the resources there are",
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| format!("\n{id} {name}"));
                return Some(format!(
                    "give more characters of the id; the resources it could mean are:{}",
                    lines.collect::<String>()
                ));
            }
            Self::Exists { .. } => {
                "choose another name, or register it again with `--update` and the same type"
            }
            Self::Name(_) => {
                "a name is written like local/api-repo or local/api-repo/src, without a reserved namespace"
            }
            Self::TypeNotFound {
                nearest: Some(nearest),
                ..
            } => {
                return Some(format!(
                    "did you mean `{nearest}`? run `agents resource type list` to see the types there are"
                ));
            }
            Self::TypeNotFound { .. } => {
                "run `agents resource type list` to see the types there are"
            }
            Self::TypeExists(_) => {
                "replace its definition with `agents resource type add --update`"
            }
            Self::BuiltIn(_) => {
                "choose a name in your own namespace, and inherit from the built-in type if you need what it has"
            }
            Self::Malformed {
                nearest: Some(nearest),
                ..
            } => return Some(format!("did you mean `{nearest}`?")),
            Self::Malformed { .. } | Self::Rule { .. } => {
                "docs/resources.md has an example of a resource type"
            }
            Self::Inheritance(_) => {
                "inherit from a type that `agents resource type list` shows, through at most 5 levels"
            }
            Self::TypeInUse { .. } => "remove what uses it first",
            Self::NotAddable(_) => {
                "run `agents resource type list` and choose a type that can be added"
            }
            Self::Argument { .. } => {
                "run `agents resource add TYPE --help` to see what the type takes"
            }
            Self::Location { .. } => "check the path, and that you may read it",
            Self::Unsuitable { .. } => {
                "give the path that the type needs, or choose another type with `agents resource type list`"
            }
            Self::InUse { holders, .. } => {
                let commands: Vec<String> = holders
                    .iter()
                    .map(|(name, holder)| format!("`{}`", holder.command(name)))
                    .collect();
                return Some(format!("first run {}", commands.join(", ")));
            }
            Self::Discovered { parent, .. } => {
                return Some(format!(
                    "remove its parent with `agents resource remove {parent}`"
                ));
            }
            Self::LinkNotAllowed { parent, .. } => {
                return Some(format!(
                    "run `agents resource type show {parent}` to see what may lie below it"
                ));
            }
            Self::Circle { child, .. } => {
                return Some(format!(
                    "run `agents resource tree {child}` to see what lies below it"
                ));
            }
            Self::LinkNotFound { parent, .. } | Self::LinkExists { parent, .. } => {
                return Some(format!(
                    "run `agents resource tree {parent}` to see what lies below it"
                ));
            }
            Self::DiscoveredLink { parent, .. } => {
                return Some(format!(
                    "it goes when {parent} is removed, or when it is gone and `agents resource add --update` looks again"
                ));
            }
            Self::NoBoundary(_) => {
                "put it below a resource that can be isolated with `agents resource link-child`"
            }
            Self::Git(_) => "install git and make sure that it is in PATH",
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
                let holders: Vec<String> =
                    holders.iter().map(|(_, holder)| holder.phrase()).collect();
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
