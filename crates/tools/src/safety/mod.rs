//! What may be done: safety profiles, guards, and permission rules with a floor that nothing lifts.

mod command;
mod fence;
mod file;
mod floor;
mod named;
mod pattern;
mod profile;
mod rule;
mod rules;

pub(crate) use fence::Consent;
pub use fence::Fence;
pub use named::{STANDARD, Safety};
pub use pattern::{ToolPattern, fits};
pub use profile::{AllowList, Guards, SafetyProfile};
pub use rule::{Effect, Rule, RuleError};
pub use rules::{Decision, PermissionRules};
