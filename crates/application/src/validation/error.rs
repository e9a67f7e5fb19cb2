//! Why something with a validation did not work. A validation that fails is no error.

use cleveragents_domain::{AttachmentId, Code, Diagnose, PlanId};
use cleveragents_tools::FileError;
use serde_json::{Value, json};

use crate::{ProjectError, ResourceError, SandboxError};

/// A failure of the service of validations, or of judging at all.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// The file of a validation is wrong.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// There is none of this name.
    #[error("there is no validation named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// There is one of this name.
    #[error("the validation `{0}` exists already; nothing was changed")]
    Exists(String),
    /// The name is that of a tool.
    #[error("`{0}` is a tool and no validation")]
    Tool(String),
    /// It is still attached.
    #[error("the validation `{name}` is attached {count} times")]
    InUse {
        /// The validation.
        name: String,
        /// How often.
        count: usize,
    },
    /// An attachment could not be any more.
    #[error("the validation `{name}` is attached as {attachment}, and there {why}")]
    Misfit {
        /// The validation.
        name: String,
        /// The attachment.
        attachment: AttachmentId,
        /// What would be wrong.
        why: String,
    },
    /// The arguments do not fit the places.
    #[error("the validation `{name}` cannot be attached so: {why}")]
    Arguments {
        /// The validation.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It is attached so already.
    #[error("the validation `{validation}` is attached to `{resource}` already in this way")]
    Attached {
        /// The validation.
        validation: String,
        /// The resource.
        resource: String,
    },
    /// There is no such attachment, or there are several.
    #[error("{} attachment has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    AttachmentNotFound {
        /// What was given.
        reference: String,
        /// Some that begin with it.
        candidates: Vec<AttachmentId>,
    },
    /// There is no such plan.
    #[error("plan {0} does not exist")]
    PlanNotFound(PlanId),
    /// It was stopped before it had judged.
    #[error("the validation `{0}` was stopped")]
    Cancelled(String),
    /// Something is wrong with a resource.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// Something is wrong with a project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The sandbox failed, or could not be brought back to what it was.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ValidationError {
    fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::NotFound { .. } => Code::ValidationNotFound,
            Self::Exists(_) => Code::ToolExists,
            Self::Tool(_) => Code::NotAValidation,
            Self::InUse { .. } | Self::Misfit { .. } => Code::ValidationInUse,
            Self::Arguments { .. } => Code::InvalidValidation,
            Self::Attached { .. } => Code::AttachmentExists,
            Self::AttachmentNotFound { .. } => Code::AttachmentNotFound,
            Self::PlanNotFound(_) => Code::PlanNotFound,
            Self::Cancelled(_) => Code::PlanCancelled,
            Self::Resource(error) => error.code(),
            Self::Project(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::File(error) => return error.hint(),
            Self::NotFound {
                nearest: Some(name),
                ..
            } => {
                return Some(format!(
                    "did you mean `{name}`? `agents validation list` shows all"
                ));
            }
            Self::NotFound { .. } => "run `agents validation list` to see what there is",
            Self::Exists(_) => "choose another name, or repeat the command with --update",
            Self::Tool(_) => "register a validation that wraps the tool: `wraps: TOOL`",
            Self::InUse { name, .. } => {
                return Some(format!(
                    "detach it first; `agents validation attachments --validation {name}` shows where"
                ));
            }
            Self::Misfit { attachment, .. } => {
                return Some(format!(
                    "detach it first: `agents validation detach {attachment}`"
                ));
            }
            Self::Arguments { name, .. } => {
                return Some(format!(
                    "`agents validation show {name}` shows its arguments; write each as NAME=VALUE"
                ));
            }
            Self::Attached { .. } => "`agents validation attachments` shows all",
            Self::AttachmentNotFound { .. } => {
                "give six or more characters of an id; `agents validation attachments` shows them"
            }
            Self::PlanNotFound(_) | Self::Cancelled(_) => return None,
            Self::Resource(error) => return error.hint(),
            Self::Project(error) => return error.hint(),
            Self::Sandbox(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Value {
        match self {
            Self::File(error) => error.details(),
            Self::AttachmentNotFound { candidates, .. } => json!({"candidates": candidates}),
            Self::InUse { name, count } => json!({"name": name, "attachments": count}),
            Self::Resource(error) => error.details(),
            Self::Project(error) => error.details(),
            Self::Sandbox(error) => error.details(),
            Self::Store(error) => error.details(),
            _ => Value::Null,
        }
    }
}
