//! Child plans: how the parts of a plan run and how their results are merged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DecisionId, FileState, PlanId, Timestamp, TreePath};

/// Default number of child plans that run at the same time.
pub const DEFAULT_MAX_PARALLEL: u32 = 4;

/// Maximum number of child plans that run at the same time.
pub const MAX_PARALLEL_LIMIT: u32 = 32;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$about])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Parses the name.
            pub fn from_stored(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Order in which child plans run.
    ExecutionMode {
        /// One after another.
        Sequential = "sequential",
        /// All at the same time, up to the limit.
        Parallel = "parallel",
        /// Each child plan after those that it depends on; independent ones at the same time.
        #[default]
        DependencyOrdered = "dependency_ordered",
    }
}

words! {
    /// Treatment of the other child plans when one fails.
    ChildFailureMode {
        /// The others are cancelled.
        #[default]
        FailFast = "fail_fast",
        /// The others finish, and all failures are reported together.
        Continue = "continue",
    }
}

words! {
    /// Method by which the results of child plans are merged into the sandbox of their parent.
    MergeStrategy {
        /// Lines that only one side changed are combined; if any conflict remains, nothing is merged.
        #[default]
        GitThreeWay = "git_three_way",
        /// Like `git_three_way`, but each child plan is merged on its own: a conflict keeps the child plans merged
        /// before.
        SequentialApply = "sequential_apply",
        /// Every file that two sides changed is a conflict, even if they changed different lines.
        FailOnConflict = "fail_on_conflict",
        /// The child plan that is merged later replaces the whole file.
        LastWins = "last_wins",
    }
}

words! {
    /// Reason for which a path cannot be merged without a decision.
    MergeReason {
        /// Both sides changed the same lines, or a file that has no lines.
        #[default]
        Changed = "changed",
        /// Both sides created the path with different content.
        Created = "created",
        /// The child plan changed a path that was removed meanwhile.
        RemovedOurs = "removed_ours",
        /// The child plan removed a path that was changed meanwhile.
        RemovedTheirs = "removed_theirs",
        /// The path needs a folder where there is a file now.
        ParentNotFolder = "parent_not_folder",
        /// A file would replace a folder that has other content.
        FolderNotEmpty = "folder_not_empty",
    }
}

impl MergeReason {
    /// The reason as the end of a sentence about the path.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Changed => "both sides changed the same lines",
            Self::Created => "both sides created it with different content",
            Self::RemovedOurs => "the child plan changed it, and it was removed meanwhile",
            Self::RemovedTheirs => "the child plan removed it, and it was changed meanwhile",
            Self::ParentNotFolder => "it needs a folder where there is a file now",
            Self::FolderNotEmpty => "it would replace a folder that has other content",
        }
    }
}

/// Settings of the child plans of a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChildSettings {
    pub mode: ExecutionMode,
    /// Maximum number of child plans that run at the same time, from 1 to 32.
    pub max_parallel: u32,
    pub on_failure: ChildFailureMode,
    /// Maximum number of retries of a failed child plan.
    pub retries: u32,
    /// Time after which a child plan is cancelled, in seconds.
    pub timeout_seconds: Option<u64>,
    pub merge: MergeStrategy,
}

impl Default for ChildSettings {
    fn default() -> Self {
        Self {
            mode: ExecutionMode::default(),
            max_parallel: DEFAULT_MAX_PARALLEL,
            on_failure: ChildFailureMode::default(),
            retries: 0,
            timeout_seconds: None,
            merge: MergeStrategy::default(),
        }
    }
}

/// State of a child plan from the view of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildState {
    /// Not finished: it waits for its turn, runs, or needs the user.
    Open,
    /// Executed; its result is not merged yet.
    Complete,
    /// Its result is in the sandbox of the parent.
    Merged,
    /// It failed for good.
    Failed,
    /// Cancelled by the user or because another child plan failed.
    Cancelled,
}

impl ChildState {
    /// Stored and printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Merged => "merged",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        [
            Self::Open,
            Self::Complete,
            Self::Merged,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|state| state.as_str() == text)
    }

    /// Whether the child plan does no more work.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Open)
    }
}

/// A child plan and its place in its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildPlan {
    pub plan: PlanId,
    pub parent: PlanId,
    /// Position among the child plans of the parent, from 1. Results are merged in this order.
    pub number: u64,
    /// Number of the parent's step that it executes.
    pub step: u64,
    /// Decision that created it.
    pub spawned_by: Option<DecisionId>,
    pub title: String,
    pub settings: ChildSettings,
    pub state: ChildState,
    /// Number of failed tries.
    pub tries: u64,
    /// Reason of the failure or cancellation.
    pub reason: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// Decision about a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "choice", rename_all = "snake_case")]
pub enum ConflictResolution {
    /// Keep the state of the parent.
    Ours,
    /// Take the state of the child plan.
    Theirs,
    /// Take an edited file.
    Edited {
        #[schemars(with = "serde_json::Value")]
        state: FileState,
    },
}

/// A path that could not be merged, with the states of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConflict {
    pub parent: PlanId,
    pub child: PlanId,
    /// Part of the sandbox.
    pub alias: String,
    pub path: TreePath,
    pub reason: MergeReason,
    /// State when the child plan was created.
    pub base: Option<FileState>,
    /// State in the sandbox of the parent.
    pub ours: Option<FileState>,
    /// State in the sandbox of the child plan.
    pub theirs: Option<FileState>,
    pub resolution: Option<ConflictResolution>,
}

#[cfg(test)]
mod tests {
    use super::{
        ChildFailureMode, ChildSettings, ChildState, ExecutionMode, MergeReason, MergeStrategy,
    };

    #[test]
    fn every_word_is_read_back() {
        for mode in ExecutionMode::ALL {
            assert_eq!(ExecutionMode::from_stored(mode.as_str()), Some(*mode));
        }
        for mode in ChildFailureMode::ALL {
            assert_eq!(ChildFailureMode::from_stored(mode.as_str()), Some(*mode));
        }
        for strategy in MergeStrategy::ALL {
            assert_eq!(
                MergeStrategy::from_stored(strategy.as_str()),
                Some(*strategy)
            );
        }
        for reason in MergeReason::ALL {
            assert_eq!(MergeReason::from_stored(reason.as_str()), Some(*reason));
            assert!(!reason.sentence().is_empty());
        }
        for state in [ChildState::Open, ChildState::Merged, ChildState::Cancelled] {
            assert_eq!(ChildState::from_stored(state.as_str()), Some(state));
        }
    }

    #[test]
    fn settings_have_defaults_for_missing_fields() {
        let settings: ChildSettings =
            serde_json::from_str(r#"{"max_parallel": 2}"#).expect("settings");
        let expected = ChildSettings {
            max_parallel: 2,
            ..ChildSettings::default()
        };
        assert_eq!(settings, expected);
    }
}
