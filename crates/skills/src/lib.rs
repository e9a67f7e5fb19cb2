//! Skills: collections of tools, Agent Skills folders, and project instructions.
//!
//! A [`Skill`] is a YAML file that combines tools: registered tools, groups of built-in tools, tools
//! defined in the file, servers, folders of agent skills, and other skills. [`flatten`] resolves it
//! to one list in a fixed order. An [`AgentSkill`] is a folder with a `SKILL.md`. Models use both
//! only through the gate: the crate runs no tool without a permit, and the text of a skill cannot
//! grant a permission.

pub mod agent;
pub mod collection;
mod flat;
mod flatten;
mod instructions;
mod registry;
mod scoped_file;

pub use agent::AgentSkill;
pub use collection::Skill;
pub use flat::{Definition, FlatServer, FlatTool, FlattenedSkill, Library, Origin, Summary};
pub use flatten::flatten;
pub use instructions::{
    Instruction, MAX_FILE_BYTES, MAX_TOTAL_BYTES, instructions, instructions_in,
};
pub use registry::registry;
