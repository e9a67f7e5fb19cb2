//! [`FlattenedSkill`]: a skill with all included skills, and the capabilities of its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::Name;
use cleveragents_tools::custom::CustomTool;
use cleveragents_tools::{CapabilityChange, Source, ToolSpec};

use crate::agent::AgentSkill;
use crate::collection::{Server, Skill};

/// A skill in either format.
#[derive(Debug, Clone)]
pub enum Definition {
    /// A YAML file.
    Collection(Box<Skill>),
    /// A folder with a `SKILL.md`.
    Agent(Box<AgentSkill>),
}

impl Definition {
    /// Name under which the skill is registered.
    pub fn name(&self) -> &Name {
        match self {
            Self::Collection(skill) => &skill.name,
            Self::Agent(skill) => &skill.registered,
        }
    }

    /// Purpose of the skill.
    pub fn description(&self) -> &str {
        match self {
            Self::Collection(skill) => &skill.description,
            Self::Agent(skill) => &skill.description,
        }
    }
}

/// All skills, by name.
pub type Library = BTreeMap<Name, Definition>;

/// Origin of a tool.
#[derive(Debug, Clone)]
pub enum Origin {
    /// The tool is registered separately, or built in.
    Registered,
    /// The tool is defined in a skill file.
    Anonymous(Arc<CustomTool>),
    /// The tool gives access to agent skills.
    Agent,
}

/// A tool of a skill.
#[derive(Debug, Clone)]
pub struct FlatTool {
    /// Specification, with the overrides of skills applied.
    pub spec: ToolSpec,
    pub origin: Origin,
    /// Included skill that contains the tool; `None` for the skill itself.
    pub from_skill: Option<Name>,
    /// Overrides that skills apply to the capability of the tool.
    pub changes: Vec<CapabilityChange>,
}

/// A server of a skill.
#[derive(Debug, Clone)]
pub struct FlatServer {
    /// Definition of the server.
    pub server: Server,
    /// File that defines the server.
    pub file: PathBuf,
    /// Included skill that defines the server; `None` for the skill itself.
    pub from_skill: Option<Name>,
}

/// A skill with all included skills.
#[derive(Debug, Clone, Default)]
pub struct FlattenedSkill {
    /// Tools, in order, without duplicate names.
    pub tools: Vec<FlatTool>,
    /// Servers, without duplicate names.
    pub servers: Vec<FlatServer>,
    /// Agent skills, without duplicate names, each with the included skill that contains it.
    pub agent_skills: Vec<(AgentSkill, Option<Name>)>,
    /// All included skills, in order.
    pub includes: Vec<Name>,
}

/// Number of tools of a skill, by capability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// All tools.
    pub total: usize,
    /// Tools that only read.
    pub read_only: usize,
    /// Tools that may change something.
    pub writes: usize,
    /// Tools whose changes a checkpoint can roll back.
    pub checkpointable: usize,
    /// Tools with effects outside the sandbox.
    pub side_effects: usize,
    /// Idempotent tools.
    pub idempotent: usize,
    /// Tools that need the user's approval.
    pub needs_approval: usize,
}

impl FlatTool {
    /// Printed name of the origin.
    pub const fn source(&self) -> &'static str {
        match self.origin {
            Origin::Registered => self.spec.source.as_str(),
            Origin::Anonymous(_) => Source::Custom.as_str(),
            Origin::Agent => Source::AgentSkill.as_str(),
        }
    }
}

impl FlattenedSkill {
    /// Counts the tools by capability.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for tool in &self.tools {
            let capability = &tool.spec.capability;
            summary.total += 1;
            summary.read_only += usize::from(!capability.is_writing());
            summary.writes += usize::from(capability.is_writing());
            summary.checkpointable += usize::from(capability.checkpointable);
            summary.side_effects += usize::from(!capability.side_effects.is_empty());
            summary.idempotent += usize::from(capability.idempotent);
            summary.needs_approval += usize::from(capability.needs_approval);
        }
        summary
    }
}
