//! Plans: task, stage, strategy, steps, decisions and failures.

mod child;
mod decision;
mod document;
mod failure;
mod report;
mod stage;
mod step;
mod strategy;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Action, AutomationGate, AutomationProfile, Confidence, DecisionId, GateAction, PlanId,
    Timestamp, TokenUsage, Version,
};

pub use child::{
    ChildFailureMode, ChildPlan, ChildSettings, ChildState, ConflictResolution,
    DEFAULT_MAX_PARALLEL, ExecutionMode, MAX_PARALLEL_LIMIT, MergeReason, MergeStrategy,
    StoredConflict,
};
pub use decision::{ContextSnapshot, Decision, DecisionType, NewDecision};
pub use failure::{AnswerVerdict, FailureCategory};
pub use report::PlanReport;
pub use stage::{PlanPhase, PlanStage, PlanState, StageTransition};
pub use step::{StepKind, StepRecord, StepState};
pub use strategy::{PlanStep, PlanStrategy, StepCall, StrategyFault, criteria, list_items};

/// Maximum number of times a plan may return to its strategy.
pub const REVERSION_LIMIT: u64 = 3;

/// A plan linked to a session, with its last known phase and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedPlan {
    pub plan_id: PlanId,
    /// Phase of the plan.
    pub phase: String,
    /// State of the plan.
    pub state: String,
}

/// A project that a plan works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanProject {
    /// Project name.
    pub name: String,
    /// First segment of the project's paths in the plan.
    pub alias: String,
    /// Whether the plan must not change the project's resources.
    pub read_only: bool,
}

/// The actors of a plan by role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlanActors {
    /// Creates the strategy.
    pub strategy: String,
    /// Executes the steps.
    pub execution: String,
    /// Estimates effort and cost; without this actor there is no estimate.
    pub estimation: Option<String>,
    /// Checks the strategy against invariants; without this actor, only invariants about paths are
    /// checked.
    pub invariant: Option<String>,
    /// Reviews the result; without this actor, criteria in prose are not checked.
    pub review: Option<String>,
}

/// The automation profile of a plan, and the origin of the choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProfile {
    pub name: String,
    /// Origin of the choice: `CLI flag`, `action`, `project` or `global`.
    pub source: String,
    /// The profile at the time the plan was created.
    pub snapshot: AutomationProfile,
}

/// Inputs of a plan. They do not change after it was created, except for the cost limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanInputs {
    /// The action at the time the plan was created; `None` for a plan that only owns changesets.
    pub action: Option<Action>,
    /// Argument values by name.
    pub arguments: Map<String, Value>,
    /// Names of the arguments in the order of the action.
    pub arguments_order: Vec<String>,
    /// Projects, in the order given.
    pub projects: Vec<PlanProject>,
    /// Actors by role.
    pub actors: PlanActors,
    /// Automation profile.
    pub profile: PlanProfile,
    /// Whether the plan must not change anything.
    pub read_only: bool,
    /// Cost limit in millionths of a US dollar.
    pub max_cost_micro_usd: Option<u64>,
    /// The typed result that the plan reports to the program that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PlanReport>,
}

/// User input that a plan waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waiting {
    /// An approval that a gate of the automation profile requires.
    Gate {
        /// The gate that asks.
        gate: AutomationGate,
        /// Action that the approval allows.
        opens: GateAction,
        /// Computed confidence in the plan.
        confidence: Confidence,
        /// Confidence that the profile requires.
        threshold: f64,
    },
    /// A tool call that the user has to approve.
    Call {
        /// Name of the tool.
        tool: String,
        /// Redacted arguments of the call.
        arguments: Value,
        /// Reason why the call needs approval.
        reason: String,
        /// Key under which the answer is stored.
        subject: String,
    },
    /// A question of an actor.
    Question {
        /// Text of the question.
        text: String,
        /// Possible answers; any text when empty.
        options: Vec<String>,
        /// Key under which the answer is stored.
        subject: String,
    },
    /// A tool call that was interrupted and may have taken effect.
    #[serde(rename = "doubt")]
    UnknownOutcome {
        /// The tool call and its arguments, as a question.
        text: String,
    },
    /// Child plans that wait for the user.
    ChildPlans {
        plans: Vec<PlanId>,
        /// Titles and ids of the child plans.
        text: String,
    },
    /// Decisions about paths that several child plans changed.
    Conflicts {
        /// Paths, each with its part of the sandbox.
        paths: Vec<String>,
    },
    /// Guidance of the user on how to continue.
    Guidance {
        /// Reason why guidance is needed.
        reason: String,
    },
}

impl Waiting {
    /// Describes what the plan waits for, as the end of a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Gate {
                gate,
                opens: _,
                confidence,
                threshold,
            } => {
                let guarded_action = gate.description();
                let score = confidence.score;
                let cause = if *threshold >= 1.0 {
                    "its profile always asks".to_owned()
                } else {
                    format!("its confidence {score:.2} is below the threshold {threshold:.2}")
                };
                format!("your approval before {guarded_action}: {cause}")
            }
            Self::Call { tool, reason, .. } => format!("approval to call `{tool}`: {reason}"),
            Self::Question { text, .. } => format!("an answer: {text}"),
            Self::UnknownOutcome { text } => {
                format!("a decision about a tool call with unknown outcome: {text}")
            }
            Self::ChildPlans { text, .. } => format!("input for its child plans: {text}"),
            Self::Conflicts { paths } => {
                let shown: Vec<&str> = paths.iter().take(3).map(String::as_str).collect();
                let more = match paths.len().saturating_sub(shown.len()) {
                    0 => String::new(),
                    count => format!(" and {count} more"),
                };
                format!(
                    "decisions about conflicts between child plans: {}{more}",
                    shown.join(", ")
                )
            }
            Self::Guidance { reason } => format!("guidance on how to continue: {reason}"),
        }
    }
}

/// A unit of work created from an action: from its strategy to the applied result.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub id: PlanId,
    /// Name: the last part of the action's name and the beginning of the id.
    pub name: Option<String>,
    /// Action that the plan was created from.
    pub action: String,
    /// Parent of a child plan.
    pub parent: Option<PlanId>,
    /// Topmost ancestor; the plan's own id when it has no parent.
    pub root: PlanId,
    /// Phase and state.
    pub stage: PlanStage,
    /// Number of the attempt, from 1. A new attempt starts when the plan returns to its strategy.
    pub attempt: u64,
    /// Task description.
    pub description: String,
    /// Criteria for being done, one per line.
    pub definition_of_done: String,
    pub inputs: PlanInputs,
    /// Strategy, once there is one.
    pub strategy: Option<PlanStrategy>,
    /// Estimate of effort and cost.
    pub estimate: Option<Value>,
    /// User input that the plan waits for.
    pub waiting: Option<Waiting>,
    /// Failure of the current phase; cleared when the phase is retried.
    pub error: Option<Map<String, Value>>,
    /// Name of the plan's sandbox.
    pub sandbox: Option<String>,
    pub decision_root: Option<DecisionId>,
    /// Number of returns to the strategy; at most [`REVERSION_LIMIT`].
    pub reversions: u64,
    /// Report of the apply.
    pub report: Option<Value>,
    /// Whether cancellation was requested.
    pub is_cancelled: bool,
    /// Run options for the worker, while the plan is queued for a worker.
    pub queued_for: Option<Value>,
    /// Tokens and cost so far.
    pub usage: TokenUsage,
    /// Whether the plan used a model without a known price, so that the real cost is higher.
    pub is_cost_partial: bool,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Version of the row.
    pub version: Version,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time of the start.
    pub started_at: Option<Timestamp>,
    /// Time at which the plan was applied or cancelled.
    pub completed_at: Option<Timestamp>,
}

impl Plan {
    /// The state to show: `awaiting_input` for a plan that waits for the user.
    pub fn shown_state(&self) -> PlanState {
        if self.waiting.is_some() && !self.stage.is_terminal() {
            PlanState::AwaitingInput
        } else {
            self.stage.shown_state()
        }
    }

    /// Whether the plan is a child plan.
    pub fn is_subplan(&self) -> bool {
        self.parent.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Waiting;
    use crate::{AutomationGate, Confidence, ConfidenceInputs, GateAction};

    fn gate(threshold: f64) -> String {
        Waiting::Gate {
            gate: AutomationGate::Apply,
            opens: GateAction::Apply,
            confidence: Confidence::compute(&ConfidenceInputs::default()),
            threshold,
        }
        .sentence()
    }

    #[test]
    fn a_gate_describes_its_transition_and_reason() {
        let always = gate(1.0);
        let description = AutomationGate::Apply.description();
        assert!(always.contains(description), "{always}");
        assert!(always.contains("always asks"), "{always}");
        assert!(gate(0.9).contains("threshold 0.90"), "{}", gate(0.9));
    }
}
