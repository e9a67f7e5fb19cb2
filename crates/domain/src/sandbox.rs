//! Sandboxes: copies of resources in which changes are made before they are applied atomically.
//!
//! The history of a sandbox is one changeset with an entry for every detected change. A checkpoint is a position in
//! that history. Restoring a checkpoint appends entries instead of removing them, so that the rollback can be undone.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ChangesetId, SandboxId, Timestamp, Version};

/// The text is not a valid sandbox name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a sandbox")]
pub struct SandboxNameError(String);

/// Name of a sandbox: letters, digits, `.`, `_` and `-`, starting with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SandboxName(String);

impl SandboxName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxName {
    type Err = SandboxNameError;

    fn from_str(text: &str) -> Result<Self, SandboxNameError> {
        let is_ordinary = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let starts_alphanumeric = text
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric);
        if starts_alphanumeric && text.len() <= 64 && text.bytes().all(is_ordinary) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SandboxNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Parses the stored name.
            pub fn from_stored(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// Lifecycle state of a sandbox.
    SandboxState {
        /// Being created; removed if the process that creates the sandbox dies.
        Creating = "creating",
        /// Ready for use.
        Active = "active",
        /// Being applied to the real resources; if interrupted, the next command finishes or undoes the apply.
        Applying = "applying",
        /// Applied to the real resources.
        Applied = "applied",
        /// Being discarded.
        Discarding = "discarding",
        /// Discarded.
        Discarded = "discarded",
    }
}

impl SandboxState {
    /// Whether the sandbox is applied or discarded.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Applied | Self::Discarded)
    }

    /// Whether a state may follow another.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Creating | Self::Applying, Self::Active)
                | (Self::Active, Self::Applying)
                | (Self::Applying, Self::Applied)
                | (
                    Self::Creating | Self::Active | Self::Applying,
                    Self::Discarding
                )
                | (Self::Discarding, Self::Discarded)
        )
    }
}

words! {
    /// Reason for creating a checkpoint.
    CheckpointReason {
        /// The sandbox was created.
        Created = "created",
        /// The user requested the checkpoint.
        Manual = "manual",
        /// A command was about to run.
        BeforeExec = "before-exec",
        /// A rollback was about to change the files.
        BeforeRollback = "before-rollback",
    }
}

/// Number of a checkpoint in its sandbox, from 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CheckpointNumber(pub u64);

impl fmt::Display for CheckpointNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A sandbox without its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    pub id: SandboxId,
    /// Name chosen by the user.
    pub name: String,
    /// Lifecycle state.
    pub state: SandboxState,
    /// Changeset that contains the history of the sandbox.
    pub changeset: ChangesetId,
    /// Machine that holds the files of the sandbox.
    pub machine: String,
    /// Directory of the sandbox's files, as text.
    pub folder: String,
    /// Origin, such as `path /code/app` or `project local/shop`.
    pub origin: String,
    /// Target position of a rollback in progress.
    pub rolling_back_to: Option<u64>,
    /// Result of applying or discarding the sandbox, as JSON text.
    pub result: Option<String>,
    /// Version of the row.
    pub version: Version,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A state of a sandbox that can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number in the sandbox.
    pub number: CheckpointNumber,
    /// Reason for creating the checkpoint.
    pub reason: CheckpointReason,
    /// Label chosen by the user.
    pub label: Option<String>,
    /// Number of history entries before the checkpoint.
    pub position: u64,
    /// For a checkpoint made before a rollback: the checkpoint that was restored.
    pub target: Option<CheckpointNumber>,
    /// For a checkpoint made before a rollback: whether it was restored, so that redo continues
    /// with the previous one.
    pub undone: bool,
    /// Time of the checkpoint.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{SandboxName, SandboxState};

    #[test]
    fn a_name_is_one_plain_word() {
        for valid in ["fix-1", "A", "0.1_x"] {
            assert!(valid.parse::<SandboxName>().is_ok(), "{valid}");
        }
        let long = "a".repeat(65);
        for invalid in ["", "-a", ".a", "a b", "a/b", "ä", long.as_str()] {
            assert!(invalid.parse::<SandboxName>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn finished_sandboxes_stay_finished() {
        use SandboxState::{Active, Applied, Applying, Creating, Discarded, Discarding};
        let all = [Creating, Active, Applying, Applied, Discarding, Discarded];
        for state in all {
            assert!(SandboxState::from_stored(state.as_str()) == Some(state));
            assert_eq!(
                state.is_over(),
                all.iter().all(|next| !state.may_become(*next))
            );
        }
    }
}
