//! Attachments and results of validations, as stored; the definition of a validation is in its
//! file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttachmentId, ContentHash, PlanId, ResourceId, Timestamp};

/// Whether a failed validation blocks applying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValidationMode {
    /// A failure blocks applying.
    Required,
    /// A failure is only reported.
    Informational,
}

impl ValidationMode {
    /// Stored and displayed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Informational => "informational",
        }
    }

    /// Parses the result of [`as_str`](Self::as_str).
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Required, Self::Informational]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// Scope in which a validation applies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ValidationScope {
    /// Every plan that works on the resource.
    Direct,
    /// Plans of a project.
    Project,
    /// One plan.
    Plan,
    /// A criterion of the plan's definition of done.
    Done,
}

impl ValidationScope {
    /// Stored and displayed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Project => "project",
            Self::Plan => "plan",
            Self::Done => "done",
        }
    }

    /// Parses the result of [`as_str`](Self::as_str).
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Direct, Self::Project, Self::Plan, Self::Done]
            .into_iter()
            .find(|scope| scope.as_str() == text)
    }
}

/// A validation attached to a resource: everywhere, in a project, or in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub id: AttachmentId,
    /// Name of the validation.
    pub validation: String,
    /// Resource that the validation is attached to.
    pub resource: ResourceId,
    /// The project, if the validation applies only to plans of one project.
    pub project: Option<crate::ProjectId>,
    /// The plan, if the validation applies only to one plan.
    pub plan: Option<PlanId>,
    /// Values of the placeholders: an object of strings.
    pub arguments: Value,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Attachment {
    /// Scope in which the validation applies.
    pub const fn scope(&self) -> ValidationScope {
        match (self.plan, self.project) {
            (Some(_), _) => ValidationScope::Plan,
            (None, Some(_)) => ValidationScope::Project,
            (None, None) => ValidationScope::Direct,
        }
    }
}

/// Result of a validation for one state of a plan's sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ValidationResult {
    /// Name of the validation, or the criterion.
    pub validation: String,
    /// Whether a failure blocks applying.
    pub mode: ValidationMode,
    /// Attachment to the resource.
    pub attachment_id: Option<AttachmentId>,
    /// Name of the resource.
    pub resource: Option<String>,
    /// Scope in which the validation applies.
    pub scope: ValidationScope,
    /// Project or plan in which the validation applies.
    pub scope_target: Option<String>,
    /// Hash of the definition and of the arguments.
    pub definition_hash: String,
    /// Whether the validation passed.
    pub passed: bool,
    /// Message of the validation.
    pub message: String,
    /// Measured data.
    pub data: Option<Value>,
    /// Complete output, as stored content.
    #[schemars(with = "Option<String>")]
    pub output: Option<ContentHash>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Number of the attempt, from 1.
    pub attempt: u64,
    /// Length of the sandbox history when the validation ran; a later change invalidates the result.
    pub position: u64,
}
