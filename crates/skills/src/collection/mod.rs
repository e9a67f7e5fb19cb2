//! Our own skill format: a YAML file that combines tools.

mod entries;
mod file;
mod schema;

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::Name;
use cleveragents_tools::custom::CustomTool;
use cleveragents_tools::{CapabilityChange, Category, ToolName};
use serde_json::Value;

pub use file::read;
pub use schema::schema;

/// Line and column in a skill file, from 1.
pub type Place = (u64, u64);

/// A parsed skill; [`flatten`](crate::flatten) resolves its references.
#[derive(Debug, Clone)]
pub struct Skill {
    pub name: Name,
    /// Purpose of the skill.
    pub description: String,
    /// Skills whose tools are included.
    pub includes: Vec<Include>,
    /// Named tools.
    pub tools: Vec<SkillToolUse>,
    /// Whole groups of built-in tools.
    pub groups: Vec<(Category, Place)>,
    /// Tools defined in the file.
    pub anonymous: Vec<Arc<CustomTool>>,
    /// Servers whose tools are included.
    pub servers: Vec<Server>,
    /// Folders of agent skills.
    pub folders: Vec<(PathBuf, Place)>,
    pub file: PathBuf,
}

/// A tool named by a skill.
#[derive(Debug, Clone)]
pub struct SkillToolUse {
    pub tool: ToolName,
    /// Overrides of the skill.
    pub change: CapabilityChange,
    /// Position in the file.
    pub place: Place,
}

/// A skill that another skill includes.
#[derive(Debug, Clone)]
pub struct Include {
    pub skill: Name,
    /// Overrides for some tools of the included skill.
    pub overrides: Vec<SkillToolUse>,
    /// Position in the file.
    pub place: Place,
}

/// A server named by a skill, as written: variables are not replaced yet, so it contains no secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub name: String,
    pub definition: Value,
    /// Position in the file.
    pub place: Place,
}
