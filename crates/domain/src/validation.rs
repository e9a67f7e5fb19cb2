//! What validations found, as it is stored; what a validation *is* stands in its file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttachmentId, ContentHash, PlanId, ResourceId, Timestamp};

/// Whether a validation that fails stands in the way of applying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValidationMode {
    /// It does.
    Required,
    /// It is only told.
    Informational,
}

impl ValidationMode {
    /// The mode as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Informational => "informational",
        }
    }

    /// Reads what [`as_str`](Self::as_str) gives.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Required, Self::Informational]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// Where a validation holds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ValidationScope {
    /// Wherever the resource is worked on.
    Direct,
    /// In plans of a project.
    Project,
    /// In one plan.
    Plan,
    /// It is a criterion of the plan's definition of done.
    Done,
}

impl ValidationScope {
    /// The scope as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Project => "project",
            Self::Plan => "plan",
            Self::Done => "done",
        }
    }

    /// Reads what [`as_str`](Self::as_str) gives.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Direct, Self::Project, Self::Plan, Self::Done]
            .into_iter()
            .find(|scope| scope.as_str() == text)
    }
}

/// A validation that is tied to a resource: everywhere, in a project, or in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its id.
    pub id: AttachmentId,
    /// The name of the validation.
    pub validation: String,
    /// The resource.
    pub resource: ResourceId,
    /// The project in whose plans it holds.
    pub project: Option<crate::ProjectId>,
    /// The one plan in which it holds.
    pub plan: Option<PlanId>,
    /// What its places are filled with: a map of texts.
    pub arguments: Value,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Attachment {
    /// Where it holds.
    pub const fn scope(&self) -> ValidationScope {
        match (self.plan, self.project) {
            (Some(_), _) => ValidationScope::Plan,
            (None, Some(_)) => ValidationScope::Project,
            (None, None) => ValidationScope::Direct,
        }
    }
}

/// What a validation found about one state of a plan's sandbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationResult {
    /// The name of the validation, or the criterion.
    pub validation: String,
    /// Whether it stands in the way of applying.
    pub mode: ValidationMode,
    /// What tied it to the resource.
    pub attachment_id: Option<AttachmentId>,
    /// The resource.
    pub resource: Option<String>,
    /// Where it holds.
    pub scope: ValidationScope,
    /// The project or plan in which it holds.
    pub scope_target: Option<String>,
    /// The hash of the definition and of the arguments.
    pub definition_hash: String,
    /// Whether all is well.
    pub passed: bool,
    /// What it says.
    pub message: String,
    /// What it measured.
    pub data: Option<Value>,
    /// All that it printed, as stored content.
    pub output: Option<ContentHash>,
    /// How long it took.
    pub duration_ms: u64,
    /// Which try it was, from 1.
    pub attempt: u64,
    /// How long the history of the sandbox was: a later change makes the result worthless.
    pub position: u64,
}
