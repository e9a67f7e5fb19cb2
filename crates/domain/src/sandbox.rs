//! Sandboxes: copies of resources in which work is done before it is applied, whole or not at all.
//!
//! A sandbox has one changeset, its history: every change found in it is an entry there. A
//! checkpoint is a position in that history, and going back to it adds entries instead of removing
//! them, so that going back can itself be undone.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ChangesetId, SandboxId, Timestamp, Version};

/// A text that cannot name a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a sandbox")]
pub struct SandboxNameError(String);

/// What people call a sandbox: letters, digits, `.`, `_` and `-`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SandboxName(String);

impl SandboxName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxName {
    type Err = SandboxNameError;

    fn from_str(text: &str) -> Result<Self, SandboxNameError> {
        let is_ordinary = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins_well = text
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric);
        if begins_well && text.len() <= 64 && text.bytes().all(is_ordinary) {
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
            /// The word as stored and printed.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Reads the stored word.
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
    /// Where a sandbox is in its life.
    SandboxState {
        /// Being made; removed again if its maker dies.
        Creating = "creating",
        /// There to be worked in.
        Active = "active",
        /// Being carried to the real resources; the next command finishes or undoes it.
        Applying = "applying",
        /// In the real resources.
        Applied = "applied",
        /// Being thrown away.
        Discarding = "discarding",
        /// Thrown away.
        Discarded = "discarded",
    }
}

impl SandboxState {
    /// Whether nothing can be done with it any more.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Applied | Self::Discarded)
    }

    /// Whether one state may follow another.
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
    /// Why a checkpoint was made.
    CheckpointReason {
        /// The sandbox as it was made.
        Created = "created",
        /// Somebody asked for it.
        Manual = "manual",
        /// A command was about to run.
        BeforeExec = "before-exec",
        /// A rollback was about to change the files.
        BeforeRollback = "before-rollback",
    }
}

/// The number of a checkpoint in its sandbox, from 1.
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

/// A sandbox without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// What people call it.
    pub name: String,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Its history.
    pub changeset: ChangesetId,
    /// The machine its files are on.
    pub machine: String,
    /// The folder of its files there, as text.
    pub folder: String,
    /// What it was made from, such as `path /code/app` or `project local/shop`.
    pub origin: String,
    /// The position a rollback that was begun must still reach.
    pub rolling_back_to: Option<u64>,
    /// What became of it, as JSON text.
    pub result: Option<String>,
    /// Raised by every change of the row.
    pub version: Version,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A state of a sandbox that can be returned to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number.
    pub number: CheckpointNumber,
    /// Why it was made.
    pub reason: CheckpointReason,
    /// What people call it.
    pub label: Option<String>,
    /// How many entries of the history came before it.
    pub position: u64,
    /// For the state before a rollback: the checkpoint that was returned to.
    pub target: Option<CheckpointNumber>,
    /// For the state before a rollback: whether it was returned to, so that redo goes on from the
    /// one before.
    pub undone: bool,
    /// When.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{SandboxName, SandboxState};

    #[test]
    fn a_name_is_one_plain_word() {
        for good in ["fix-1", "A", "0.1_x"] {
            assert!(good.parse::<SandboxName>().is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for wrong in ["", "-a", ".a", "a b", "a/b", "ä", long.as_str()] {
            assert!(wrong.parse::<SandboxName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_over_stays_over() {
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
