//! [`Decision`]: a choice that was made for a plan, with what it was chosen from and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ContentHash, DecisionId, PlanId, PlanPhase, Timestamp};

macro_rules! types {
    ($($(#[$doc:meta])* $variant:ident = $text:literal;)+) => {
        /// What a decision is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum DecisionType { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl DecisionType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The type as stored and printed.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

types! {
    /// What the plan is to do: the root.
    PromptDefinition = "prompt_definition";
    /// An invariant that holds for the plan.
    InvariantEnforced = "invariant_enforced";
    /// How it is to be done.
    StrategyChoice = "strategy_choice";
    /// On what it is to be done.
    ResourceSelection = "resource_selection";
    /// A part that is to be a plan of its own.
    SubplanSpawn = "subplan_spawn";
    /// Parts that are to be plans of their own at the same time.
    SubplanParallelSpawn = "subplan_parallel_spawn";
    /// How a step was carried out.
    ImplementationChoice = "implementation_choice";
    /// That a tool was called.
    ToolInvocation = "tool_invocation";
    /// What was done about a failure.
    ErrorRecovery = "error_recovery";
    /// What was done about a validation that failed.
    ValidationResponse = "validation_response";
    /// What a person said.
    UserIntervention = "user_intervention";
    /// Going back to an earlier phase.
    Reversion = "reversion";
}

impl DecisionType {
    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

/// What was known when a decision was made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextSnapshot {
    /// The hash of everything the actor was given to read.
    pub hot_context_hash: Option<ContentHash>,
    /// Where that is: the conversation, or the stored content.
    pub hot_context_ref: Option<String>,
    /// The resources that mattered.
    #[serde(default)]
    pub relevant_resources: Vec<String>,
    /// The run of the actor, whose steps are its state.
    pub actor_state_ref: Option<String>,
}

/// A decision that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDecision {
    /// Its id.
    pub id: DecisionId,
    /// The decision above it; nothing for the root.
    pub parent: Option<DecisionId>,
    /// What it is about.
    pub kind: DecisionType,
    /// When in the plan.
    pub phase: PlanPhase,
    /// What was to be decided.
    pub question: String,
    /// What was chosen.
    pub chosen: String,
    /// What else was thought of.
    pub alternatives: Vec<String>,
    /// How sure whoever decided was, from 0 to 1.
    pub confidence: Option<f64>,
    /// Why.
    pub rationale: String,
    /// What the actor thought, as it thought it.
    pub reasoning: Option<String>,
    /// What was known.
    pub snapshot: ContextSnapshot,
    /// The paths it brought about.
    pub artifacts: Vec<String>,
    /// The decisions that had a share in it, beside the one above it.
    pub influenced_by: Vec<DecisionId>,
}

/// A stored decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The plan.
    pub plan: PlanId,
    /// Its number in the plan, from 1.
    pub sequence: u64,
    /// What it says.
    pub said: NewDecision,
    /// The decision that it corrects.
    pub corrects: Option<DecisionId>,
    /// Why it was corrected.
    pub correction_reason: Option<String>,
    /// The decision that took its place.
    pub superseded_by: Option<DecisionId>,
    /// The rollback that took it back.
    pub undone_by: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Decision {
    /// Whether it holds: neither replaced nor taken back.
    pub const fn holds(&self) -> bool {
        self.superseded_by.is_none() && self.undone_by.is_none()
    }
}
