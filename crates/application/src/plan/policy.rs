//! [`SandboxPolicy`]: which checkpoints a plan makes automatically, and when its sandbox is
//! removed.

use std::collections::BTreeSet;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in configuration files.
            pub const WORDS: &'static [&'static str] = &[$($text,)+];

            /// The variant with this name.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// When the sandbox of a plan is removed.
    SandboxCleanup {
        /// When the plan is applied.
        OnApply = "on_apply",
        /// When the plan is applied or cancelled.
        OnTerminal = "on_terminal",
        /// Only when the user discards it.
        Manual = "manual",
    }
}

words! {
    /// Events upon which a plan makes a checkpoint automatically.
    CheckpointTrigger {
        /// Before a call that may change files.
        ToolWrite = "on_tool_write",
        /// After a call that changed files.
        ToolWriteComplete = "on_tool_write_complete",
        /// Before a child plan starts.
        SubplanSpawn = "on_subplan_spawn",
        /// When a step fails.
        Error = "on_error",
    }
}

/// Sandbox settings of plans. Every step starts with a checkpoint, whatever the policy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// When the sandbox is removed.
    pub cleanup: SandboxCleanup,
    /// When checkpoints are made.
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
    /// Whether a checkpoint is made upon this event.
    pub fn marks(&self, trigger: CheckpointTrigger) -> bool {
        self.checkpoints.contains(&trigger)
    }
}
