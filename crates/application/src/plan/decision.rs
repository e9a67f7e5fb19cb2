//! Decisions that the program records on its own, without an actor.

use cleveragents_domain::{ContextSnapshot, DecisionId, DecisionType, NewDecision, PlanPhase};

/// Creates a decision below `parent`, without snapshot, alternatives and reasoning.
pub(super) fn new_decision(
    parent: DecisionId,
    kind: DecisionType,
    phase: PlanPhase,
    question: impl Into<String>,
    chosen: impl Into<String>,
    rationale: impl Into<String>,
) -> NewDecision {
    NewDecision {
        id: DecisionId::generate(),
        parent: Some(parent),
        kind,
        phase,
        question: question.into(),
        chosen: chosen.into(),
        alternatives: Vec::new(),
        confidence: None,
        rationale: rationale.into(),
        reasoning: None,
        snapshot: ContextSnapshot::default(),
        artifacts: Vec::new(),
        influenced_by: Vec::new(),
    }
}
