//! Agent Skills: folders with a `SKILL.md`, as described by the public standard.
//!
//! A model accesses them in three steps: its instructions contain names and descriptions
//! ([`announce`]), `skill/activate` returns the text of a skill, and `skill/read` and `skill/run`
//! give access to its other files ([`tools`]).

mod announce;
mod folder;
mod front_matter;
mod inspect;
mod name;
mod tools;

pub use announce::{ANNOUNCED_BYTES, announce};
pub use folder::{AgentSkill, Step, find};
pub use inspect::{Inspection, inspect};
pub use tools::tools;
