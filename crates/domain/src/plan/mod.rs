//! Plans: what is to be done, how far it is, and everything that was decided for it.

mod decision;
mod document;
mod stage;
mod strategy;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Action, AutomationGate, AutomationProfile, Confidence, DecisionId, GateAction, PlanId,
    Timestamp, TokenUsage, Version,
};

pub use decision::{ContextSnapshot, Decision, DecisionType, NewDecision};
pub use stage::{Move, PlanPhase, PlanStage, PlanState};
pub use strategy::{PlanStep, PlanStrategy, StepCall, StrategyFault, criteria, list_items};

/// How often a plan goes back to its strategy at most.
pub const REVERSION_LIMIT: u64 = 3;

/// A plan that a session refers to, with the phase and state last known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedPlan {
    /// The plan.
    pub plan_id: PlanId,
    /// Its phase.
    pub phase: String,
    /// Its state.
    pub state: String,
}

/// A project that a plan works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanProject {
    /// Its name.
    pub name: String,
    /// What it is called in the plan.
    pub alias: String,
    /// Whether nothing of it may be changed.
    pub read_only: bool,
}

/// Who does what in a plan. Nothing means: what comes with the program, or nobody where that is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlanActors {
    /// Who thinks it out.
    pub strategy: String,
    /// Who carries it out.
    pub execution: String,
    /// Who says what it will take; nobody when not given.
    pub estimation: Option<String>,
    /// Who brings invariants together; the program alone when not given.
    pub invariant: Option<String>,
    /// Who judges whether it is done; nobody when not given.
    pub review: Option<String>,
}

/// Which automation profile a plan runs under, and who chose it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProfile {
    /// Its name.
    pub name: String,
    /// Who chose it: `CLI flag`, `action`, `project` or `global`.
    pub source: String,
    /// The profile as it was then.
    pub snapshot: AutomationProfile,
}

/// What a plan was made with. None of it changes afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadeWith {
    /// The action as it was then; nothing for a plan that only owns changesets.
    pub action: Option<Action>,
    /// The values of its arguments.
    pub arguments: Map<String, Value>,
    /// In which order they are told.
    pub arguments_order: Vec<String>,
    /// The projects, in order.
    pub projects: Vec<PlanProject>,
    /// Who does what.
    pub actors: PlanActors,
    /// The automation profile.
    pub profile: PlanProfile,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// The most that it may cost, in millionths of a dollar.
    pub max_cost_micro_usd: Option<u64>,
}

/// What a plan waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waiting {
    /// A gate of its automation profile.
    Gate {
        /// The gate.
        gate: AutomationGate,
        /// What the plan does once it opens.
        opens: GateAction,
        /// How sure the program is.
        confidence: Confidence,
        /// How sure it would have to be.
        threshold: f64,
    },
    /// A call of a tool that a person must allow.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments, as far as they are shown.
        arguments: Value,
        /// Why it is asked.
        reason: String,
        /// By what the answer is found again.
        subject: String,
    },
    /// A question.
    Question {
        /// What is asked.
        text: String,
        /// What can be answered; anything when empty.
        options: Vec<String>,
        /// By what the answer is found again.
        subject: String,
    },
    /// A call that was cut off and may have taken effect.
    Doubt {
        /// What is known of it.
        text: String,
    },
    /// A word of a person on how to go on.
    Guidance {
        /// Why.
        reason: String,
    },
}

impl Waiting {
    /// What is waited for, in a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Gate {
                gate,
                opens: _,
                confidence,
                threshold,
            } => {
                let what = gate.gates();
                let score = confidence.score;
                let why = if *threshold >= 1.0 {
                    "its profile always asks".to_owned()
                } else {
                    format!("its confidence is {score:.2}, and its profile wants {threshold:.2}")
                };
                format!("your word before {what}: {why} (gate `{}`)", gate.as_str())
            }
            Self::Call { tool, reason, .. } => format!("leave to call `{tool}`: {reason}"),
            Self::Question { text, .. } => format!("an answer: {text}"),
            Self::Doubt { text } => format!("a word on what became of a call: {text}"),
            Self::Guidance { reason } => format!("a word on how to go on: {reason}"),
        }
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// What people call it: the action's last name and the beginning of the id.
    pub name: Option<String>,
    /// The action it was made from.
    pub action: String,
    /// The plan it is a part of.
    pub parent: Option<PlanId>,
    /// The plan at the top; itself when it is no part.
    pub root: PlanId,
    /// Where it is.
    pub stage: PlanStage,
    /// The attempt it is at, from 1; another one begins when it goes back to its strategy.
    pub attempt: u64,
    /// What it is to do.
    pub description: String,
    /// When it is done.
    pub definition_of_done: String,
    /// What it was made with.
    pub made_with: MadeWith,
    /// How it is to be done, once that is known.
    pub strategy: Option<PlanStrategy>,
    /// What it is expected to take.
    pub estimate: Option<Value>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// What went wrong.
    pub error: Option<Map<String, Value>>,
    /// The name of its sandbox.
    pub sandbox: Option<String>,
    /// The root of its decisions.
    pub decision_root: Option<DecisionId>,
    /// How often it went back to its strategy.
    pub reversions: u64,
    /// What applying it did.
    pub report: Option<Value>,
    /// Whether somebody asked for its end.
    pub is_cancelled: bool,
    /// How a worker is to drive it, when it waits for one.
    pub queued_for: Option<Value>,
    /// Tokens and money.
    pub usage: TokenUsage,
    /// Whether it asked a model of which nobody knows what it costs, so that there is more to pay.
    pub is_cost_partial: bool,
    /// Questions to models.
    pub model_calls: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// The version of this row.
    pub version: Version,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When work on it began.
    pub started_at: Option<Timestamp>,
    /// When it came to its end.
    pub completed_at: Option<Timestamp>,
}

impl Plan {
    /// The state that people see: a plan that waits for one says so.
    pub fn shown_state(&self) -> PlanState {
        if self.waiting.is_some() && !self.stage.is_terminal() {
            PlanState::AwaitingInput
        } else {
            self.stage.shown_state()
        }
    }

    /// Whether it is a part of another plan.
    pub fn is_subplan(&self) -> bool {
        self.parent.is_some()
    }
}

/// Something that a plan did, from its beginning to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// Its number among all that the plan ever did.
    pub number: u64,
    /// What it is: `step/3`, `fix/1`, `review/1`.
    pub path: String,
    /// What it is called.
    pub title: String,
    /// How far it is.
    pub state: StepState,
    /// The run that did it.
    pub run: Option<crate::RunId>,
    /// The checkpoint before it.
    pub checkpoint: Option<u64>,
    /// How long the history of the sandbox was before it.
    pub position_before: u64,
    /// And after it.
    pub position_after: Option<u64>,
    /// What came of it, in words.
    pub summary: Option<String>,
    /// The decision that tells of it.
    pub decision: Option<DecisionId>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The rollback that took it back.
    pub undone_by: Option<u64>,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// It was begun.
    Running,
    /// It is done.
    Done,
    /// It failed.
    Failed,
}

impl StepState {
    /// The state as stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
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
            confidence: Confidence::of(&ConfidenceInputs::default()),
            threshold,
        }
        .sentence()
    }

    #[test]
    fn a_gate_says_what_it_stands_before_and_why_it_asks() {
        let always = gate(1.0);
        let words = AutomationGate::Apply.gates();
        assert!(always.contains(words), "{always}");
        assert!(always.contains("always asks"), "{always}");
        assert!(gate(0.9).contains("wants 0.90"), "{}", gate(0.9));
    }
}
