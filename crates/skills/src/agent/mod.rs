//! Agent Skills: folders with a `SKILL.md`, as the public standard describes them.
//!
//! A model learns of them in three steps: names and descriptions stand in its instructions
//! ([`announce`]), the text of a skill comes with `skill/activate`, and its other files with
//! `skill/read` and `skill/run` ([`tools`]).

mod announce;
mod folder;
mod front_matter;
mod inspect;
mod name;
mod tools;

pub use announce::{ANNOUNCED_BYTES, announce};
pub use folder::{AgentSkill, Step, find};
pub use inspect::{Inspected, inspect};
pub use tools::tools;
