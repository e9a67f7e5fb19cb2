//! Skills: collections of tools, Agent Skills folders, and project instructions.
//!
//! A [`Skill`] is a YAML file that puts tools together: named ones, whole groups,
//! tools of its own, servers, folders of agent skills, and other skills. [`flatten`] turns it into
//! one list in a fixed order. An [`AgentSkill`] is a folder with a `SKILL.md`. Both come to a model
//! only through the gate: nothing here runs anything without a permit, and no text of a skill can
//! permit anything.

pub mod agent;
pub mod collection;
mod flat;
mod flatten;
mod inside;
mod instructions;
mod registry;

pub use agent::AgentSkill;
pub use collection::Skill;
pub use flat::{Definition, Flat, FlatServer, FlatTool, Library, Origin, Summary};
pub use flatten::flatten;
pub use instructions::{ALL, Instruction, ONE, instructions, instructions_in};
pub use registry::registry;
