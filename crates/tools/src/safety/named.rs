//! [`Safety`]: a named profile with its guards, built in or from a file of the user.

use serde::Serialize;

use super::{Guards, SafetyProfile};

/// Name of the default profile.
pub const STANDARD_PROFILE: &str = "standard";

/// A named safety profile with its guards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Safety {
    /// Name of a built-in profile, or the name or path of a file.
    pub name: String,
    /// Purpose of the profile, in one sentence.
    pub description: String,
    /// Rules for tools.
    #[serde(flatten)]
    pub profile: SafetyProfile,
    /// Limits on automatic work.
    pub guards: Guards,
}

impl Safety {
    /// The built-in profiles, the default first.
    pub fn built_in() -> [Self; 4] {
        let named = |name: &str, description: &str, profile, guards| Self {
            name: name.to_owned(),
            description: description.to_owned(),
            profile,
            guards,
        };
        let standard = SafetyProfile::default;
        [
            named(
                STANDARD_PROFILE,
                "Allow changes in a sandbox with checkpoints; no unsafe tools",
                standard(),
                Guards::default(),
            ),
            named(
                "careful",
                "Like standard, and the user approves every change",
                standard(),
                Guards {
                    require_approval_for_writes: true,
                    ..Guards::default()
                },
            ),
            named(
                "read-only",
                "Read only; no changes",
                SafetyProfile {
                    allow_changes: false,
                    ..standard()
                },
                Guards::default(),
            ),
            named(
                "unrestricted",
                "Also allow unsafe tools and tools whose changes cannot be rolled back",
                SafetyProfile {
                    max_retries_per_step: standard().max_retries_per_step,
                    ..SafetyProfile::unrestricted()
                },
                Guards::default(),
            ),
        ]
    }

    /// Finds a built-in profile by its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::built_in()
            .into_iter()
            .find(|safety| safety.name == name)
    }
}
