//! Sandbox strategies: how the content of a resource is isolated while a plan works on it.
//!
//! Type files and reports use the same names. The sandbox crate implements the strategies; this file lists them, with
//! their aliases.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text is not a sandbox strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sandbox strategy")]
pub struct StrategyError(pub String);

/// Isolation method for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum SandboxStrategy {
    /// A separate git worktree and branch.
    GitWorktree,
    /// A copy that shares unchanged blocks where the file system can.
    CopyOnWrite,
    /// Alias of [`Self::CopyOnWrite`], kept because type files use it.
    FilesystemCopy,
    /// A layer above the unchanged original.
    Overlay,
    /// A database transaction that is rolled back unless it is applied.
    TransactionRollback,
    /// A point-in-time image, for example of a container.
    Snapshot,
    /// No isolation.
    None,
}

impl SandboxStrategy {
    /// All strategies.
    pub const ALL: [Self; 7] = [
        Self::GitWorktree,
        Self::CopyOnWrite,
        Self::FilesystemCopy,
        Self::Overlay,
        Self::TransactionRollback,
        Self::Snapshot,
        Self::None,
    ];

    /// Name in type files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitWorktree => "git_worktree",
            Self::CopyOnWrite => "copy_on_write",
            Self::FilesystemCopy => "filesystem_copy",
            Self::Overlay => "overlay",
            Self::TransactionRollback => "transaction_rollback",
            Self::Snapshot => "snapshot",
            Self::None => "none",
        }
    }

    /// Whether the strategy isolates anything.
    pub const fn isolates(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The strategy that is implemented: resolves aliases.
    #[must_use]
    pub const fn effective(self) -> Self {
        match self {
            Self::FilesystemCopy => Self::CopyOnWrite,
            other => other,
        }
    }
}

impl fmt::Display for SandboxStrategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for SandboxStrategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == text)
            // Another spelling, used in descriptions of development containers.
            .or_else(|| (text == "container_snapshot").then_some(Self::Snapshot))
            .ok_or_else(|| StrategyError(text.to_owned()))
    }
}

impl Serialize for SandboxStrategy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SandboxStrategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::SandboxStrategy;

    #[test]
    fn a_strategy_round_trips_through_text_and_json() {
        for strategy in SandboxStrategy::ALL {
            assert_eq!(strategy.as_str().parse(), Ok(strategy));
            let json = serde_json::to_string(&strategy).expect("json");
            assert_eq!(json, format!("\"{strategy}\""));
            assert_eq!(
                serde_json::from_str::<SandboxStrategy>(&json).expect("read"),
                strategy
            );
        }
        assert!("GIT_WORKTREE".parse::<SandboxStrategy>().is_err());
        assert!("".parse::<SandboxStrategy>().is_err());
    }

    #[test]
    fn an_alias_resolves_to_its_strategy() {
        assert_eq!(
            SandboxStrategy::FilesystemCopy.effective(),
            SandboxStrategy::CopyOnWrite
        );
        assert_eq!("container_snapshot".parse(), Ok(SandboxStrategy::Snapshot));
        for strategy in SandboxStrategy::ALL {
            assert_eq!(strategy.effective().effective(), strategy.effective());
            assert_eq!(strategy.effective().isolates(), strategy.isolates());
        }
    }
}
