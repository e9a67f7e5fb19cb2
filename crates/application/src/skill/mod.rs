//! Registered skills and those found in the folder of skills: their content, users, and how models
//! get them.

mod equip;
mod error;
pub mod operations;
mod service;
mod source;

pub use equip::SkillTools;
pub use error::SkillError;
pub use service::{AddedSkill, KnownSkill, RefreshReport, SkillOrigin, SkillReading, SkillService};
pub use source::SkillSource;
