//! [`Lineage`]: the decisions from which the decision of a step follows.

use std::collections::BTreeMap;

use cleveragents_domain::{
    Decision, DecisionId, DecisionType, Plan, PlanPhase, StepKind, StepRecord,
};

use super::children::is_requested_part;

/// The question of the decision about the approach, which is answered by the summary of the strategy.
pub(super) const APPROACH_QUESTION: &str = "Which approach is taken?";

/// The question of the decision that puts a step into the strategy. Steps are numbered from 1.
pub(super) fn step_question(number: u64) -> String {
    format!("What is step {number}?")
}

/// Whether a question is the question of a step.
pub(super) fn is_step_question(question: &str) -> bool {
    let digits: String = question.chars().filter(char::is_ascii_digit).collect();
    let number = digits.parse().ok();
    number.is_some_and(|number| step_question(number) == question)
}

/// Whether a decision in effect put a step into the strategy.
pub(super) fn is_step_decision(decision: &Decision) -> bool {
    let content = &decision.content;
    decision.holds()
        && content.kind == DecisionType::StrategyChoice
        && content.phase == PlanPhase::Strategize
        && is_step_question(&content.question)
}

/// The parent of a decision, and the other decisions that influenced it.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// The decision that put the step into the strategy; `None` for steps that are not part of it.
    pub(super) parent: Option<DecisionId>,
    pub(super) influences: Vec<DecisionId>,
}

impl Lineage {
    /// The lineage of the decision of a step: it follows from the step of the strategy, from the results of the steps
    /// before which it may not run, and from everything in the conversation that its actor continues.
    pub(super) fn of_step(
        plan: &Plan,
        decisions: &[Decision],
        records: &[StepRecord],
        path: &str,
    ) -> Self {
        let results = results_by_path(plan, records);
        let mut lineage = Self {
            parent: strategy_decision(plan, decisions, path),
            influences: Vec::new(),
        };
        let is_in_conversation =
            step_of(plan, path).is_none_or(|step| step.call.is_none() && !step.child_plan);
        for (other, decision) in &results {
            let is_before = step_of(plan, path).is_some_and(|step| {
                step.after
                    .iter()
                    .any(|number| step_path(plan, *number as u64) == **other)
            });
            let was_in_conversation = !is_requested_part(other)
                && step_of(plan, other).is_none_or(|step| step.call.is_none() && !step.child_plan);
            if is_before || (is_in_conversation && was_in_conversation) {
                lineage.influences.push(*decision);
            }
        }
        lineage.influences.retain(|id| Some(*id) != lineage.parent);
        lineage.influences.sort_unstable();
        lineage.influences.dedup();
        lineage
    }
}

/// The decisions of the completed steps that are in effect, by path.
fn results_by_path<'r>(plan: &Plan, records: &'r [StepRecord]) -> BTreeMap<&'r str, DecisionId> {
    let attempt = [
        StepKind::Step.path(&[plan.attempt]),
        StepKind::Fix.path(&[plan.attempt]),
        StepKind::Guidance.as_str().to_owned(),
    ]
    .map(|prefix| format!("{prefix}/"));
    records
        .iter()
        .filter(|record| record.is_done())
        .filter(|record| attempt.iter().any(|prefix| record.path.starts_with(prefix)))
        .filter_map(|record| Some((record.path.as_str(), record.decision?)))
        .collect()
}

fn step_path(plan: &Plan, number: u64) -> String {
    StepKind::Step.path(&[plan.attempt, number])
}

/// The step of the strategy that a path belongs to; `None` for fixes and guidance.
fn step_of<'p>(plan: &'p Plan, path: &str) -> Option<&'p cleveragents_domain::PlanStep> {
    let strategy = plan.strategy.as_ref()?;
    (1..)
        .zip(&strategy.steps)
        .find(|(number, _)| step_path(plan, *number) == path)
        .map(|(_, step)| step)
}

/// The decision that put the step at a path into the strategy.
pub(super) fn strategy_decision(
    plan: &Plan,
    decisions: &[Decision],
    path: &str,
) -> Option<DecisionId> {
    let strategy = plan.strategy.as_ref()?;
    let (number, _) = (1..)
        .zip(&strategy.steps)
        .find(|(number, _)| step_path(plan, *number) == path)?;
    let question = step_question(number);
    let is_step = |decision: &&Decision| {
        decision.holds()
            && decision.content.kind == DecisionType::StrategyChoice
            && decision.content.phase == PlanPhase::Strategize
            && decision.content.question == question
    };
    decisions
        .iter()
        .rev()
        .find(is_step)
        .map(|decision| decision.content.id)
}
