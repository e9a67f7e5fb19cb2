//! Our own form of skills: a YAML file that puts tools together.

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

/// Line and column in the file of a skill, from 1.
pub type Place = (u64, u64);

/// A skill as its file says it; what it refers to is looked up by [`flatten`](crate::flatten).
#[derive(Debug, Clone)]
pub struct Skill {
    /// What it is called.
    pub name: Name,
    /// What it is for.
    pub description: String,
    /// The skills whose tools it takes over.
    pub includes: Vec<Include>,
    /// The tools that it names.
    pub tools: Vec<Use>,
    /// The groups of built-in tools that it takes as a whole.
    pub groups: Vec<(Category, Place)>,
    /// The tools that stand in its own file.
    pub anonymous: Vec<Arc<CustomTool>>,
    /// The servers whose tools it takes.
    pub servers: Vec<Server>,
    /// The folders of agent skills.
    pub folders: Vec<(PathBuf, Place)>,
    /// The file.
    pub file: PathBuf,
}

/// A tool that a skill names.
#[derive(Debug, Clone)]
pub struct Use {
    /// The tool.
    pub tool: ToolName,
    /// What the skill says of it beyond what it says itself.
    pub change: CapabilityChange,
    /// Where that stands.
    pub place: Place,
}

/// A skill that another takes over.
#[derive(Debug, Clone)]
pub struct Include {
    /// The skill.
    pub skill: Name,
    /// What is said of some of its tools.
    pub overrides: Vec<Use>,
    /// Where that stands.
    pub place: Place,
}

/// A server that a skill names, as it is written: variables are not in it yet, so no secret is.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// What it is called.
    pub name: String,
    /// Its definition.
    pub definition: Value,
    /// Where that stands.
    pub place: Place,
}
