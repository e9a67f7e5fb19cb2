//! [`CorrectionAttempt`]: the history of the corrections of a plan.

use cleveragents_domain::{DecisionId, DecisionType, PlanId, Timestamp};
use cleveragents_store::plan_steps::{Rollback, RollbackState};
use cleveragents_store::{Error, Reader, decisions, plan_steps};

use super::CorrectionMode;

/// A correction that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectionAttempt {
    /// Number of the correction in the plan, from 1.
    pub number: usize,
    pub mode: CorrectionMode,
    /// The corrected decision.
    pub target: DecisionId,
    /// The decision that records the correction.
    pub decision: DecisionId,
    pub guidance: String,
    /// Whether the correction was undone.
    pub is_undone: bool,
    /// Numbers of the discarded decisions, steps and tool calls.
    pub discarded_decisions: u64,
    pub discarded_steps: u64,
    pub discarded_calls: u64,
    /// Restored paths, as `part/path`.
    pub paths: Vec<String>,
    /// Length of the history of the sandbox before the correction; `None` if it changed no files.
    pub position: Option<u64>,
    pub created_at: Timestamp,
}

/// The corrections of a plan, oldest first.
pub(in crate::plan) fn of_plan(
    reader: &mut dyn Reader,
    plan: PlanId,
) -> Result<Vec<CorrectionAttempt>, Error> {
    let rollbacks = plan_steps::rollbacks(reader, plan)?;
    let corrections = decisions::of_plan(reader, plan)?.into_iter();
    let corrections = corrections.filter_map(|decision| {
        let target = decision.corrects?;
        (decision.content.kind == DecisionType::UserIntervention).then_some((decision, target))
    });
    let attempts = (1..).zip(corrections).map(|(number, (decision, target))| {
        let id = decision.content.id;
        let recorded = rollbacks.iter().find(|rollback| records(rollback, id));
        let report = recorded.and_then(|rollback| rollback.report.clone());
        let report = report.unwrap_or_default();
        let is_redone = recorded.is_some_and(|rollback| rollback.state == RollbackState::Redone);
        CorrectionAttempt {
            number,
            mode: match recorded {
                Some(_) => CorrectionMode::Revert,
                None => CorrectionMode::Append,
            },
            target,
            decision: id,
            guidance: decision.content.chosen,
            is_undone: is_redone || decision.undone_by.is_some(),
            discarded_decisions: report.undone.decisions,
            discarded_steps: report.undone.steps,
            discarded_calls: report.undone.calls,
            paths: report.paths,
            position: recorded.map(|rollback| rollback.origin.position),
            created_at: decision.created_at,
        }
    });
    Ok(attempts.collect())
}

fn records(rollback: &Rollback, correction: DecisionId) -> bool {
    let scope = rollback.origin.correction.as_ref();
    scope.is_some_and(|scope| scope.correction == correction)
}
