//! [`SandboxPolicy`]: which checkpoints a plan makes by itself, and when its sandbox goes.

use std::collections::BTreeSet;

use cleveragents_domain::{Plan, PlanStage, SandboxState};

use super::error::PlanError;
use super::service::PlanService;
use crate::sandbox::SandboxError;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// How they are written.
            pub const WORDS: &'static [&'static str] = &[$($text,)+];

            /// The one that is written so.
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
        /// When the plan is over, applied or cancelled.
        OnTerminal = "on_terminal",
        /// When somebody discards it.
        Manual = "manual",
    }
}

words! {
    /// Upon what a plan makes a checkpoint by itself.
    CheckpointTrigger {
        /// Before a call that may change something.
        ToolWrite = "on_tool_write",
        /// After a call that changed something.
        ToolWriteComplete = "on_tool_write_complete",
        /// Before a child plan begins.
        SubplanSpawn = "on_subplan_spawn",
        /// When a step fails.
        Error = "on_error",
    }
}

/// What plans do about their sandboxes. The beginning of a step is always a checkpoint: steps are taken
/// back to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// When the sandbox goes.
    pub cleanup: SandboxCleanup,
    /// Upon what checkpoints are made.
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
    /// Whether a checkpoint is made upon this.
    pub fn marks(&self, trigger: CheckpointTrigger) -> bool {
        self.checkpoints.contains(&trigger)
    }
}

impl PlanService {
    /// The same service with another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Removes the sandbox of a plan that was cancelled, where the policy says so. Nobody may have it open.
    pub(super) fn clean_up(&self, plan: &Plan) -> Result<(), PlanError> {
        let is_due = self.policy.cleanup == SandboxCleanup::OnTerminal
            && plan.stage.is_terminal()
            && plan.stage != PlanStage::ApplyApplied;
        let Some(name) = plan.sandbox.as_deref().filter(|_| is_due) else {
            return Ok(());
        };
        match self.sandboxes.find(name) {
            Ok(view) if view.sandbox.state != SandboxState::Discarded => {}
            Ok(_) | Err(SandboxError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.sandboxes.discard(name)?;
        Ok(())
    }
}
