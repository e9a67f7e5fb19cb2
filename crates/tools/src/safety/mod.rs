//! Safety profiles, guards, permission rules, and the floor that no rule can override.

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
pub use fence::PathPermissions;
pub use named::{STANDARD_PROFILE, Safety};
pub use pattern::{ToolPattern, matches_pattern};
pub use profile::{AllowList, Guards, SafetyProfile};
pub use rule::{Effect, Rule, RuleError};
pub use rules::{Decision, PermissionRules};
