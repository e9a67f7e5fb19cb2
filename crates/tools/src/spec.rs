//! [`ToolSpec`]: the static description of a tool.

use std::time::Duration;

use cleveragents_domain::MicroUsd;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::{Access, Capability};
use crate::name::ToolName;

/// Default time limit of a tool.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// Origin of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Built into the program.
    Builtin,
    /// A tool definition file of the user.
    Custom,
    /// An MCP server.
    Mcp,
    AgentSkill,
    /// A tool that wraps another tool.
    Wrapped,
}

impl Source {
    /// The source as printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Custom => "custom",
            Self::Mcp => "mcp",
            Self::AgentSkill => "agent_skill",
            Self::Wrapped => "wrapped",
        }
    }
}

/// A group of tools that a safety profile can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Tools for files.
    FileOperations,
    /// Tools for directories.
    DirectoryOperations,
    /// Tools for git repositories.
    GitOperations,
    /// Tools that run commands.
    ShellOperations,
    /// Questions to the user, and access to stored output.
    Conversation,
    /// Tools defined by the user.
    Custom,
    /// Tools of MCP servers and skills.
    External,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 7] = [
        Self::FileOperations,
        Self::DirectoryOperations,
        Self::GitOperations,
        Self::ShellOperations,
        Self::Conversation,
        Self::Custom,
        Self::External,
    ];

    /// The category as written in profiles.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileOperations => "file_operations",
            Self::DirectoryOperations => "directory_operations",
            Self::GitOperations => "git_operations",
            Self::ShellOperations => "shell_operations",
            Self::Conversation => "conversation",
            Self::Custom => "custom",
            Self::External => "external",
        }
    }
}

/// Whether a tool needs a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceNeed {
    /// Calls without a sandbox are refused.
    #[serde(rename = "workspace")]
    Required,
    /// The tool also runs without a sandbox.
    #[serde(rename = "nothing")]
    None,
}

/// Origin of the resource in a slot.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// A resource of the plan or session.
    #[default]
    Contextual,
    /// A resource fixed in the tool's definition.
    Static,
    /// A resource named in each call.
    Parameter,
}

/// A resource that a tool needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    pub name: String,
    /// Type of the resource, or a type it inherits from.
    pub resource_type: String,
    /// Access to the resource.
    pub access: Access,
    /// Whether the slot must be filled.
    pub required: bool,
    /// Description for users.
    pub description: String,
    /// Origin of the resource in the slot.
    pub binding: Binding,
    /// Name of the resource, for a static binding.
    pub resource: Option<String>,
}

/// The static description of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Unique name.
    pub name: ToolName,
    /// Description for the model.
    pub description: String,
    /// Origin of the tool.
    pub source: Source,
    /// Group for safety profiles.
    pub category: Category,
    /// Whether the tool needs a sandbox.
    #[serde(rename = "ground")]
    pub workspace_need: WorkspaceNeed,
    /// JSON schema of the arguments.
    pub input_schema: Value,
    /// JSON schema of the answer, if the answer is JSON.
    pub output_schema: Option<Value>,
    /// Declared properties that the gate enforces.
    pub capability: Capability,
    pub resources: Vec<Slot>,
    /// Time limit of one call.
    pub timeout: Duration,
    /// Expected cost of one call.
    pub cost: MicroUsd,
}
