//! Skills, registered or in the folder of skills: their content, their users, and the tools that models receive from
//! them.

mod error;
mod model_tools;
pub mod operations;
mod service;
mod source;

pub use error::SkillError;
pub use model_tools::SkillTools;
pub use service::{AddedSkill, KnownSkill, RefreshReport, SkillOrigin, SkillReading, SkillService};
pub use source::SkillSource;
