//! [`Decision`]: a recorded choice of a plan, with its alternatives and reasons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ContentHash, DecisionId, PlanId, PlanPhase, Timestamp};

macro_rules! types {
    ($($(#[$doc:meta])* $variant:ident = $text:literal;)+) => {
        /// Subject of a decision.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum DecisionType { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl DecisionType {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

types! {
    /// The task: the root decision.
    PromptDefinition = "prompt_definition";
    /// An invariant that holds for the plan.
    InvariantEnforced = "invariant_enforced";
    /// A choice of strategy, or a step of it.
    StrategyChoice = "strategy_choice";
    /// A choice of resources.
    ResourceSelection = "resource_selection";
    /// A child plan.
    SubplanSpawn = "subplan_spawn";
    /// Child plans that run at the same time.
    SubplanParallelSpawn = "subplan_parallel_spawn";
    /// The way in which a step was executed.
    ImplementationChoice = "implementation_choice";
    /// A tool call.
    ToolInvocation = "tool_invocation";
    /// A retry after a failure.
    ErrorRecovery = "error_recovery";
    /// The way in which failed validations were fixed.
    ValidationResponse = "validation_response";
    /// An approval, answer, guidance or edit of the user.
    UserIntervention = "user_intervention";
    /// A return to an earlier phase.
    Reversion = "reversion";
}

impl DecisionType {
    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

/// Context in which a decision was made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextSnapshot {
    /// Hash of everything in the context window of the actor.
    pub hot_context_hash: Option<ContentHash>,
    /// Reference to that context: the session, or the stored content.
    pub hot_context_ref: Option<String>,
    #[serde(default)]
    pub relevant_resources: Vec<String>,
    /// Run of the actor, whose steps are its state.
    pub actor_state_ref: Option<String>,
}

/// A decision that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDecision {
    pub id: DecisionId,
    /// Parent decision; `None` for the root.
    pub parent: Option<DecisionId>,
    /// Subject of the decision.
    pub kind: DecisionType,
    pub phase: PlanPhase,
    /// The question that was decided.
    pub question: String,
    pub chosen: String,
    /// Options that were not chosen.
    pub alternatives: Vec<String>,
    /// Confidence of the actor that decided, from 0 to 1.
    pub confidence: Option<f64>,
    pub rationale: String,
    /// Text and reasoning of the actor before the decision.
    pub reasoning: Option<String>,
    /// Context in which the decision was made.
    pub snapshot: ContextSnapshot,
    /// Paths that were changed because of the decision.
    pub artifacts: Vec<String>,
    /// Decisions that influenced this decision, besides its parent.
    pub influenced_by: Vec<DecisionId>,
}

/// A stored decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub plan: PlanId,
    /// Number in the plan, from 1.
    pub sequence: u64,
    pub content: NewDecision,
    /// Decision that this decision corrects.
    pub corrects: Option<DecisionId>,
    pub correction_reason: Option<String>,
    /// Decision that replaced this decision.
    pub superseded_by: Option<DecisionId>,
    /// Number of the rollback that undid the decision.
    pub undone_by: Option<u64>,
    pub created_at: Timestamp,
}

impl Decision {
    /// Whether the decision is in effect: neither replaced nor rolled back.
    pub const fn holds(&self) -> bool {
        self.superseded_by.is_none() && self.undone_by.is_none()
    }
}
