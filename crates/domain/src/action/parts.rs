//! [`ActionParts`]: the division of the task of an action into child plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ChildSettings;

/// The division of the task of an action: each part becomes a child plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionParts {
    pub division: PartDivision,
    /// Settings of the child plans.
    #[serde(default)]
    pub children: ChildSettings,
}

/// The rule by which a task is divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartDivision {
    /// These parts.
    List(Vec<ActionPart>),
    /// One part for each folder or file that the pattern matches.
    Paths(String),
    /// Folders, divided until each part is within the bounds.
    Bounds(PartBounds),
}

/// One part of the task of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionPart {
    /// May contain placeholders.
    pub title: String,
    /// May contain placeholders.
    #[serde(default)]
    pub description: String,
    /// Paths that the part changes.
    #[serde(default)]
    pub files: Vec<String>,
    /// Numbers of the parts that must be done before, from 1.
    #[serde(default)]
    pub after: Vec<usize>,
}

/// Maximum size of a part that is found by dividing folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartBounds {
    /// Maximum number of files of a part.
    pub max_files: u32,
    /// Maximum number of tokens of the files of a part, estimated from their sizes.
    pub max_tokens: u64,
    /// Maximum number of parts of one plan. More parts are grouped, and each group is a child plan with parts.
    pub max_parts: u32,
}

impl Default for PartBounds {
    fn default() -> Self {
        Self {
            max_files: 50,
            max_tokens: 60_000,
            max_parts: 32,
        }
    }
}
