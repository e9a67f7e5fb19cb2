//! [`Safety`]: a profile with its guards under a name, built in or from a file of the user's.

use serde::Serialize;

use super::{Guards, SafetyProfile};

/// The profile of those who choose none.
pub const STANDARD: &str = "standard";

/// How careful to be, with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Safety {
    /// What it is called.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The profile.
    #[serde(flatten)]
    pub profile: SafetyProfile,
    /// The guards.
    pub guards: Guards,
}

impl Safety {
    /// The profiles that are part of the program, the usual one first.
    pub fn built_in() -> [Self; 4] {
        let named = |name: &str, description: &str, profile, guards| Self {
            name: name.to_owned(),
            description: description.to_owned(),
            profile,
            guards,
        };
        let usual = SafetyProfile::default;
        [
            named(
                STANDARD,
                "Changes in a sandbox with checkpoints; no unsafe tools",
                usual(),
                Guards::default(),
            ),
            named(
                "careful",
                "As standard, and a person agrees to every change",
                usual(),
                Guards {
                    require_approval_for_writes: true,
                    ..Guards::default()
                },
            ),
            named(
                "read-only",
                "Looking only; nothing is changed",
                SafetyProfile {
                    allow_changes: false,
                    ..usual()
                },
                Guards::default(),
            ),
            named(
                "unrestricted",
                "Unsafe tools too, and tools whose changes no checkpoint takes back",
                SafetyProfile {
                    max_retries_per_step: usual().max_retries_per_step,
                    ..SafetyProfile::demanding_nothing()
                },
                Guards::default(),
            ),
        ]
    }

    /// A built-in profile by its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|one| one.name == name)
    }
}
