//! [`Capability`]: what a tool declares about itself, on which the gate decides.

use serde::{Deserialize, Serialize};

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It only looks.
    Reads,
    /// It may change what it works on.
    Writes,
}

/// Where a tool has to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// Wherever the sandbox is.
    #[default]
    Anywhere,
    /// In a container where there is one.
    PreferContainer,
    /// In a container, or not at all.
    RequireContainer,
    /// In this container resource, or not at all.
    Specific(String),
}

/// What a tool declares about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent answers, each a field of the user's file"
)]
pub struct Capability {
    /// Whether it changes anything.
    pub access: Access,
    /// What it may change, in its own words, such as `database:migrations`.
    pub write_scope: Vec<String>,
    /// Whether a checkpoint can take its changes back.
    pub checkpointable: bool,
    /// What a checkpoint for it covers, such as `file` or `snapshot`.
    pub checkpoint_scope: Option<String>,
    /// Effects beyond the sandbox, in its own words, such as `network`.
    pub side_effects: Vec<String>,
    /// Whether calling it twice does the same as once.
    pub idempotent: bool,
    /// Whether only a profile that allows unsafe tools may run it.
    pub is_unsafe: bool,
    /// Whether a person must agree to each call.
    pub needs_approval: bool,
    /// Where it has to run.
    pub environment: Environment,
}

impl Capability {
    /// A tool that only looks.
    pub const fn reads() -> Self {
        Self {
            access: Access::Reads,
            write_scope: Vec::new(),
            checkpointable: false,
            checkpoint_scope: None,
            side_effects: Vec::new(),
            idempotent: true,
            is_unsafe: false,
            needs_approval: false,
            environment: Environment::Anywhere,
        }
    }

    /// A tool whose changes a checkpoint of this scope can take back.
    pub fn writes(checkpoint_scope: &str) -> Self {
        Self {
            access: Access::Writes,
            checkpointable: true,
            checkpoint_scope: Some(checkpoint_scope.to_owned()),
            idempotent: false,
            ..Self::reads()
        }
    }

    /// Whether it may change something.
    pub fn is_writing(&self) -> bool {
        self.access == Access::Writes
    }
}
