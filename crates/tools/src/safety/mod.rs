//! Safety profiles, guards, permission rules, and the deny list that no rule can override.

mod command;
mod deny_list;
mod file;
mod named;
mod path_permissions;
mod pattern;
mod profile;
mod rule;
mod rules;

pub use named::{STANDARD_PROFILE, Safety};
pub(crate) use path_permissions::Consent;
pub use path_permissions::PathPermissions;
pub use pattern::{ToolPattern, matches_pattern};
pub use profile::{AllowList, Guards, SafetyProfile};
pub use rule::{Effect, Rule, RuleError};
pub use rules::{Decision, PermissionRules};
