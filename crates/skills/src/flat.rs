//! [`Flat`]: a skill with all that it holds, and what its tools can do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::Name;
use cleveragents_tools::custom::CustomTool;
use cleveragents_tools::{CapabilityChange, Source, ToolSpec};

use crate::agent::AgentSkill;
use crate::collection::{Server, Skill};

/// A skill of either form.
#[derive(Debug, Clone)]
pub enum Definition {
    /// A YAML file.
    Collection(Box<Skill>),
    /// A folder with a `SKILL.md`.
    Agent(Box<AgentSkill>),
}

impl Definition {
    /// What it is registered under.
    pub fn name(&self) -> &Name {
        match self {
            Self::Collection(skill) => &skill.name,
            Self::Agent(skill) => &skill.registered,
        }
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        match self {
            Self::Collection(skill) => &skill.description,
            Self::Agent(skill) => &skill.description,
        }
    }
}

/// The skills there are, by name.
pub type Library = BTreeMap<Name, Definition>;

/// Where a tool of a skill comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// It is registered by itself, or part of the program.
    Registered,
    /// It stands in the file of a skill.
    Anonymous(Arc<CustomTool>),
    /// It opens agent skills.
    Agent,
}

/// A tool of a skill.
#[derive(Debug, Clone)]
pub struct FlatTool {
    /// All that is known of it, with what skills say of it.
    pub spec: ToolSpec,
    /// Where it comes from.
    pub origin: Origin,
    /// The included skill that holds it; `None` when the skill does itself.
    pub from_skill: Option<Name>,
    /// What skills say of it beyond what it says itself.
    pub changes: Vec<CapabilityChange>,
}

/// A server of a skill.
#[derive(Debug, Clone)]
pub struct FlatServer {
    /// The server.
    pub server: Server,
    /// The file that names it.
    pub file: PathBuf,
    /// The included skill that names it; `None` when the skill does itself.
    pub from_skill: Option<Name>,
}

/// A skill with everything that it holds.
#[derive(Debug, Clone, Default)]
pub struct Flat {
    /// Its tools, in order, each name once.
    pub tools: Vec<FlatTool>,
    /// Its servers, each name once.
    pub servers: Vec<FlatServer>,
    /// Its agent skills, each name once, and the included skill that holds each.
    pub agent_skills: Vec<(AgentSkill, Option<Name>)>,
    /// All skills that it includes, in order.
    pub includes: Vec<Name>,
}

/// What the tools of a skill can do, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// All tools.
    pub total: usize,
    /// Those that only look.
    pub read_only: usize,
    /// Those that may change something.
    pub writes: usize,
    /// Those whose changes a checkpoint can take back.
    pub checkpointable: usize,
    /// Those with effects beyond the sandbox.
    pub side_effects: usize,
    /// Those that do the same when called twice.
    pub idempotent: usize,
    /// Those that a person must agree to.
    pub needs_approval: usize,
}

impl FlatTool {
    /// Where it comes from, as printed.
    pub const fn source(&self) -> &'static str {
        match self.origin {
            Origin::Registered => self.spec.source.as_str(),
            Origin::Anonymous(_) => Source::Custom.as_str(),
            Origin::Agent => Source::AgentSkill.as_str(),
        }
    }
}

impl Flat {
    /// What its tools can do, counted.
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
