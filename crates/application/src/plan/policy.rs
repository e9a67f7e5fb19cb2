//! [`SandboxPolicy`]: the automatic checkpoints of a plan, and the removal of its sandbox.

use std::collections::BTreeSet;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The names of all variants in configuration files.
            pub const WORDS: &'static [&'static str] = &[$($text,)+];

            /// The variant with this name.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// Time at which the sandbox of a plan is removed.
    SandboxCleanup {
        /// After the apply.
        OnApply = "on_apply",
        /// After the apply, or after the plan is cancelled.
        OnTerminal = "on_terminal",
        /// Only when the user discards the sandbox.
        Manual = "manual",
    }
}

words! {
    /// Events that create a checkpoint automatically.
    CheckpointTrigger {
        /// Before a call that may change files.
        ToolWrite = "on_tool_write",
        /// After a call that changed files.
        ToolWriteComplete = "on_tool_write_complete",
        /// Before child plans start. Their steps start with a checkpoint in any case.
        SubplanSpawn = "on_subplan_spawn",
        /// After a failed step.
        Error = "on_error",
    }
}

/// Sandbox settings of plans. Every step starts with a checkpoint, independent of this policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    pub cleanup: SandboxCleanup,
    /// Events that create checkpoints.
    pub checkpoints: BTreeSet<CheckpointTrigger>,
}

impl Default for SandboxPolicy {
    fn default() -> Self {
        Self {
            cleanup: SandboxCleanup::OnApply,
            checkpoints: CheckpointTrigger::ALL.iter().copied().collect(),
        }
    }
}

impl SandboxPolicy {
    /// True if this event creates a checkpoint.
    pub fn marks(&self, trigger: CheckpointTrigger) -> bool {
        self.checkpoints.contains(&trigger)
    }
}
