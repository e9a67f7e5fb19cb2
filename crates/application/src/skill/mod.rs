//! Skills as they are registered and found: what each holds, who uses it, and how models get them.

mod equip;
mod error;
pub mod operations;
mod service;
mod source;

pub use equip::Equipped;
pub use error::{SkillError, SkillUser};
pub use service::{AddedSkill, KnownSkill, Refreshed, SkillOrigin, SkillService};
pub use source::SkillSource;
