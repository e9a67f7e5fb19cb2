//! The decisions of a strategy: the approach, the choices of the strategist, and the steps.

use cleveragents_domain::{
    ContextSnapshot, DecisionId, DecisionType, NewDecision, PlanPhase, PlanStrategy,
};

use super::strategy_parser::StrategyResponse;
use crate::plan::decision::new_decision;
use crate::plan::lineage::{APPROACH_QUESTION, step_question};
use crate::plan::snapshot::with_resources;

/// The decisions to store for a strategy. The first decision is the approach, the parent of all others.
pub(super) fn strategy_decisions(
    root: DecisionId,
    response: &StrategyResponse,
    strategy: &PlanStrategy,
    snapshot: &ContextSnapshot,
) -> Vec<NewDecision> {
    let approach = NewDecision {
        confidence: strategy.risk.map(|risk| 1.0 - risk),
        snapshot: snapshot.clone(),
        ..new_decision(
            root,
            DecisionType::StrategyChoice,
            PlanPhase::Strategize,
            APPROACH_QUESTION,
            &strategy.summary,
            format!("{} steps", strategy.steps.len()),
        )
    };
    let parent = approach.id;
    let mut all = vec![approach];
    let choices = choices(parent, response, snapshot);
    let made: Vec<DecisionId> = choices.iter().map(|choice| choice.id).collect();
    all.extend(choices);
    all.extend(step_decisions(parent, strategy, &made, snapshot));
    all
}

fn choices(
    parent: DecisionId,
    response: &StrategyResponse,
    snapshot: &ContextSnapshot,
) -> Vec<NewDecision> {
    let mut chosen: Vec<NewDecision> = Vec::new();
    for choice in &response.decisions {
        let decision = NewDecision {
            alternatives: choice.alternatives.clone(),
            confidence: choice.confidence,
            snapshot: with_resources(snapshot, &choice.resources),
            influenced_by: ids_by_number(&chosen, &choice.depends_on),
            ..new_decision(
                parent,
                choice.kind,
                PlanPhase::Strategize,
                &choice.question,
                &choice.chosen,
                &choice.rationale,
            )
        };
        chosen.push(decision);
    }
    chosen
}

/// The decisions of the steps. The choices of the strategist precede them in the same answer, so they influence each.
pub(in crate::plan) fn step_decisions(
    parent: DecisionId,
    strategy: &PlanStrategy,
    choices: &[DecisionId],
    snapshot: &ContextSnapshot,
) -> Vec<NewDecision> {
    let mut steps: Vec<NewDecision> = Vec::new();
    for (number, step) in (1..).zip(&strategy.steps) {
        let decision = NewDecision {
            confidence: step.risk.map(|risk| 1.0 - risk),
            snapshot: with_resources(snapshot, &step.files),
            influenced_by: choices
                .iter()
                .copied()
                .chain(ids_by_number(&steps, &step.after))
                .collect(),
            ..new_decision(
                parent,
                DecisionType::StrategyChoice,
                PlanPhase::Strategize,
                step_question(number),
                &step.title,
                &step.description,
            )
        };
        steps.push(decision);
    }
    steps
}

/// The ids of earlier decisions with these numbers, from 1. Unknown numbers are ignored.
fn ids_by_number(earlier: &[NewDecision], numbers: &[usize]) -> Vec<DecisionId> {
    numbers
        .iter()
        .filter_map(|number| Some(earlier.get(number.checked_sub(1)?)?.id))
        .collect()
}
