//! [`ToolSpec`]: all that is known of a tool without running it.

use std::time::Duration;

use cleveragents_domain::MicroUsd;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::{Access, Capability};
use crate::name::ToolName;

/// The time limit of a tool that names none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Part of the program.
    Builtin,
    /// A file of the user's.
    Custom,
    /// A server that speaks the Model Context Protocol.
    Mcp,
    /// An agent skill.
    AgentSkill,
    /// Another tool with something around it.
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

/// A group of tools that a profile may allow or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Files.
    FileOperations,
    /// Folders.
    DirectoryOperations,
    /// Repositories.
    GitOperations,
    /// Commands.
    ShellOperations,
    /// Questions to people, and pages of stored output.
    Conversation,
    /// Tools of the user's.
    Custom,
    /// Tools of servers and skills.
    External,
}

impl Category {
    /// Every category.
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

/// What a tool acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// The sandbox: without one it cannot run.
    Workspace,
    /// Nothing of the user's.
    Nothing,
}

/// How a resource gets into a slot.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// From what the plan or session works on.
    #[default]
    Contextual,
    /// Fixed when the tool is registered.
    Static,
    /// Named in each call.
    Parameter,
}

/// A resource that a tool needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// What the tool calls it.
    pub name: String,
    /// The type of the resource, or one it inherits from.
    pub resource_type: String,
    /// Whether the tool changes it.
    pub access: Access,
    /// Whether the tool can do without.
    pub required: bool,
    /// For people.
    pub description: String,
    /// How it is filled.
    pub binding: Binding,
    /// The resource of a static binding.
    pub resource: Option<String>,
}

/// All that is known of a tool without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// Where it comes from.
    pub source: Source,
    /// The group it belongs to.
    pub category: Category,
    /// What it acts on.
    pub ground: Ground,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of its answer, when the answer is JSON.
    pub output_schema: Option<Value>,
    /// What it declares about itself.
    pub capability: Capability,
    /// The resources it needs.
    pub resources: Vec<Slot>,
    /// How long one call may take.
    pub timeout: Duration,
    /// What one call is expected to cost.
    pub cost: MicroUsd,
}
