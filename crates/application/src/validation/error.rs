//! Errors of validations. A validation that fails is not an error.

use cleveragents_domain::{
    AttachmentId, Code, DefinitionFileError, Diagnose, Hint, PlanId, hint, suggest,
};
use serde_json::{Value, json};

use crate::{DefinitionError, ProjectError, ResourceError, SandboxError};

/// Errors of the validation service.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// The validation cannot be found, read, registered or removed.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A tool has this name.
    #[error("`{0}` is a tool, not a validation")]
    Tool(String),
    /// The validation is still attached.
    #[error("the validation `{name}` is attached {count} times")]
    InUse {
        name: String,
        /// Number of attachments.
        count: usize,
    },
    /// The new definition does not fit an existing attachment.
    #[error("the validation `{name}` is attached as {attachment}, and there {why}")]
    AttachmentMismatch {
        name: String,
        attachment: AttachmentId,
        /// Description of the mismatch.
        why: String,
    },
    /// The arguments do not match the placeholders.
    #[error("the validation `{name}` cannot be attached in this way: {why}")]
    Arguments {
        name: String,
        /// Description of the mismatch.
        why: String,
    },
    /// An identical attachment exists.
    #[error("the validation `{validation}` is attached to `{resource}` already in this way")]
    Attached {
        /// Name of the validation.
        validation: String,
        /// Name of the resource.
        resource: String,
    },
    /// No attachment has this id, or several have this prefix.
    #[error("{} attachment has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    AttachmentNotFound {
        /// The given id or prefix.
        reference: String,
        /// Some attachments with this prefix.
        candidates: Vec<AttachmentId>,
    },
    /// The plan does not exist.
    #[error("plan {0} does not exist")]
    PlanNotFound(PlanId),
    /// The validation was cancelled before it returned a result.
    #[error("the validation `{0}` was stopped")]
    Cancelled(String),
    /// An operation on a resource failed.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// An operation on a project failed.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The sandbox failed, or could not be restored.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl From<Box<DefinitionFileError>> for ValidationError {
    fn from(error: Box<DefinitionFileError>) -> Self {
        Self::Definition(error.into())
    }
}

impl Diagnose for ValidationError {
    fn code(&self) -> Code {
        match self {
            Self::Definition(error) => error.code(),
            Self::Tool(_) => Code::NotAValidation,
            Self::InUse { .. } | Self::AttachmentMismatch { .. } => Code::ValidationInUse,
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

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Definition(error) => return error.hint(),
            Self::Tool(_) => "register a validation that wraps the tool: `wraps: TOOL`".into(),
            Self::InUse { name, .. } => hint!(
                "detach it first; {} lists its attachments",
                suggest::validation_attachments_of(name)
            ),
            Self::AttachmentMismatch { attachment, .. } => hint!(
                "detach it first: {}",
                suggest::validation_detach(attachment)
            ),
            Self::Arguments { name, .. } => hint!(
                "{} shows its arguments; write each as NAME=VALUE",
                suggest::validation_show(name)
            ),
            Self::Attached { .. } => hint!("{} lists all", suggest::validation_attachments()),
            Self::AttachmentNotFound { .. } => hint!(
                "give six or more characters of an id; {} lists them",
                suggest::validation_attachments()
            ),
            Self::PlanNotFound(_) | Self::Cancelled(_) => return None,
            Self::Resource(error) => return error.hint(),
            Self::Project(error) => return error.hint(),
            Self::Sandbox(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::Definition(error) => error.details(),
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
