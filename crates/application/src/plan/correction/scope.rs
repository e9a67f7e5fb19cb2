//! The scope of a correction: the decision, everything that follows from it, and the steps and files of these.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    ChildState, Decision, DecisionId, DecisionType, MicroUsd, Plan, PlanId, RunId, StepKind,
    StepRecord, ToolInvocationId,
};
use cleveragents_store::{child_plans, decisions, plan_steps, plans, runs};

use super::{PlanCorrection, STRATEGY, refusal};
use crate::plan::error::PlanError;
use crate::plan::lineage::strategy_decision;
use crate::plan::query::downstream;
use crate::sandbox::{ComputedMerge, OpenSandbox, RangesToUndo};

/// Effects of a correction, to show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorrectionPreview {
    /// Discarded decisions, in the order in which they were made.
    pub decisions: Vec<AffectedDecision>,
    /// Steps that run again.
    pub steps: Vec<AffectedStep>,
    /// Child plans of these steps, whose results are discarded.
    pub children: Vec<AffectedChild>,
    /// Tool calls of these steps.
    pub calls: Vec<AffectedCall>,
    /// Cost of the discarded steps and child plans: the estimate for doing them again.
    pub cost: MicroUsd,
    /// Paths that are restored, as `part/path`.
    pub paths: Vec<String>,
    /// Number of decisions that stay.
    pub kept_decisions: usize,
    /// Whether the strategist makes a new strategy.
    pub needs_new_strategy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedDecision {
    pub id: DecisionId,
    pub question: String,
    pub chosen: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedStep {
    pub number: u64,
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedChild {
    pub plan: PlanId,
    /// Position among the child plans, from 1.
    pub number: u64,
    pub title: String,
    pub state: ChildState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedCall {
    pub id: ToolInvocationId,
    pub tool: String,
}

/// Effects of a correction.
pub(super) struct Scope {
    pub(super) decisions: Vec<DecisionId>,
    /// Numbers of step records.
    pub(super) steps: Vec<u64>,
    /// The states of the files.
    pub(super) targets: ComputedMerge,
    pub(super) preview: CorrectionPreview,
    pub(super) is_strategized_again: bool,
}

impl PlanCorrection {
    /// Determines the effects of a correction.
    pub(super) fn scope(
        &self,
        plan: &Plan,
        target: DecisionId,
        mut open: Option<&mut OpenSandbox>,
    ) -> Result<Scope, PlanError> {
        let (all, records) = self.store.read(|reader| {
            Ok((
                decisions::of_plan(reader, plan.id)?,
                plan_steps::of_plan(reader, plan.id)?,
            ))
        })?;
        let is_step = |decision: &Decision| {
            records.iter().any(|record| {
                strategy_decision(plan, &all, &record.path) == Some(decision.content.id)
            })
        };
        let is_strategized_again = all.iter().any(|decision| {
            decision.content.id == target
                && decision.content.phase == STRATEGY
                && decision.content.kind != DecisionType::UserIntervention
                && !is_step(decision)
        });
        let live: Vec<&StepRecord> = records
            .iter()
            .filter(|record| record.undone_by.is_none())
            .filter(|record| {
                matches!(
                    record.kind(),
                    Some(StepKind::Step | StepKind::Fix | StepKind::Guidance)
                )
            })
            .collect();
        let mut roots = BTreeSet::from([target]);
        loop {
            let affected = if is_strategized_again {
                made_with_the_strategy(&all)
            } else {
                affected(&all, &roots)
            };
            let made: Vec<&StepRecord> = live
                .iter()
                .copied()
                .filter(|record| is_affected(plan, &all, record, &affected, is_strategized_again))
                .collect();
            let steps = with_requested_parts(&live, &made);
            let ranges: Vec<Range<u64>> = steps
                .iter()
                .filter_map(|step| {
                    let end = step.position_after.unwrap_or(u64::MAX);
                    Some(step.position_before..end).filter(|range| !range.is_empty())
                })
                .collect();
            let undo = match open.as_deref_mut() {
                Some(open) => self.sandboxes.ranges_to_undo(open, &ranges)?,
                None => RangesToUndo::default(),
            };
            let (mut more, mut foreign) = (false, None);
            for later in &undo.changed_later {
                let step = live.iter().find(|step| {
                    (step.position_before..step.position_after.unwrap_or(u64::MAX))
                        .contains(&later.position)
                });
                // A step that changed the same path later worked with the result, so it is repeated too.
                let decision = step.and_then(|step| step.decision);
                match decision {
                    Some(decision) => more |= roots.insert(decision),
                    None if later.is_reverted => {}
                    None => foreign = foreign.or(Some(later)),
                }
            }
            if more {
                // With further steps in the ranges, a change by a redo may turn out as reverted.
                continue;
            }
            if let Some(later) = foreign {
                let (alias, path) = (&later.alias, &later.path);
                return Err(refusal(
                    plan,
                    format!("`{alias}/{path}` was changed later, outside its steps"),
                ));
            }
            let work = self.discarded_work(plan, &steps)?;
            return Ok(Scope {
                preview: CorrectionPreview {
                    children: work.children,
                    calls: work.calls,
                    cost: work.cost,
                    ..preview(&all, &affected, &steps, &undo, is_strategized_again)
                },
                decisions: in_order(&all, &affected)
                    .map(|decision| decision.content.id)
                    .collect(),
                steps: steps.iter().map(|step| step.number).collect(),
                targets: undo.targets,
                is_strategized_again,
            });
        }
    }
}

/// Steps with the parts that their actors requested, which may not be finished yet.
fn with_requested_parts<'r>(live: &[&'r StepRecord], steps: &[&StepRecord]) -> Vec<&'r StepRecord> {
    let requested_by = |part: &StepRecord, step: &StepRecord| {
        let rest = part.path.strip_prefix(&step.path);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let mut live = live.to_vec();
    live.retain(|record| {
        let mut steps = steps.iter();
        steps.any(|step| step.number == record.number || requested_by(record, step))
    });
    live
}

/// The work of discarded steps.
struct DiscardedWork {
    children: Vec<AffectedChild>,
    calls: Vec<AffectedCall>,
    cost: MicroUsd,
}

impl PlanCorrection {
    /// The child plans, the tool calls and the cost of steps.
    fn discarded_work(
        &self,
        plan: &Plan,
        steps: &[&StepRecord],
    ) -> Result<DiscardedWork, PlanError> {
        let numbers: Vec<u64> = steps.iter().map(|step| step.number).collect();
        let run_ids: Vec<RunId> = steps.iter().filter_map(|step| step.run).collect();
        self.store.read(|reader| {
            let mut children = child_plans::of_plan(reader, plan.id)?;
            children.retain(|child| numbers.contains(&child.step));
            let mut cost = 0;
            for child in &children {
                let plan = plans::get(reader, child.plan)?;
                cost += plan.map_or(0, |plan| plan.usage.cost_micro_usd.0);
            }
            for run in run_ids {
                let run = runs::get(reader, &Namespaces::All, run)?;
                cost += run.map_or(0, |run| run.usage.cost_micro_usd.0);
            }
            let calls = plan_steps::calls_of_steps(reader, plan.id, &numbers)?.into_iter();
            Ok(DiscardedWork {
                children: children
                    .into_iter()
                    .map(|child| AffectedChild {
                        plan: child.plan,
                        number: child.number,
                        title: child.title,
                        state: child.state,
                    })
                    .collect(),
                calls: calls.map(|(id, tool)| AffectedCall { id, tool }).collect(),
                cost: MicroUsd(cost),
            })
        })
    }
}

/// The affected decisions in the order in which they were made.
fn in_order<'a>(
    all: &'a [Decision],
    affected: &'a BTreeSet<DecisionId>,
) -> impl Iterator<Item = &'a Decision> {
    all.iter()
        .filter(|decision| affected.contains(&decision.content.id))
}

fn preview(
    all: &[Decision],
    affected: &BTreeSet<DecisionId>,
    steps: &[&StepRecord],
    undo: &RangesToUndo,
    needs_new_strategy: bool,
) -> CorrectionPreview {
    let stays = |decision: &&Decision| decision.holds() && !affected.contains(&decision.content.id);
    let targets = undo.targets.targets.iter();
    CorrectionPreview {
        kept_decisions: all.iter().filter(stays).count(),
        decisions: in_order(all, affected)
            .map(|decision| AffectedDecision {
                id: decision.content.id,
                question: decision.content.question.clone(),
                chosen: decision.content.chosen.clone(),
            })
            .collect(),
        steps: steps
            .iter()
            .map(|step| AffectedStep {
                number: step.number,
                title: step.title.clone(),
            })
            .collect(),
        paths: targets
            .flat_map(|(alias, targets)| targets.keys().map(move |path| format!("{alias}/{path}")))
            .collect(),
        needs_new_strategy,
        ..CorrectionPreview::default()
    }
}

/// The decisions in effect that a new strategy replaces.
fn made_with_the_strategy(all: &[Decision]) -> BTreeSet<DecisionId> {
    let stays = |kind: DecisionType| {
        matches!(
            kind,
            DecisionType::PromptDefinition
                | DecisionType::InvariantEnforced
                | DecisionType::UserIntervention
                | DecisionType::Reversion
        )
    };
    all.iter()
        .filter(|decision| decision.holds() && !stays(decision.content.kind))
        .map(|decision| decision.content.id)
        .collect()
}

/// The decisions in effect that follow from some decisions, with these decisions.
pub(super) fn affected(all: &[Decision], roots: &BTreeSet<DecisionId>) -> BTreeSet<DecisionId> {
    let index: HashMap<DecisionId, usize> = all
        .iter()
        .enumerate()
        .map(|(at, decision)| (decision.content.id, at))
        .collect();
    let mut affected = BTreeSet::new();
    for at in roots.iter().filter_map(|root| index.get(root)) {
        affected.insert(all[*at].content.id);
        affected.extend(
            downstream(all, *at)
                .into_iter()
                .map(|at| all[at].content.id),
        );
    }
    affected.retain(|id| index.get(id).is_some_and(|at| all[*at].holds()));
    affected
}

/// Whether a step runs again: its result or its place in the strategy is affected.
fn is_affected(
    plan: &Plan,
    all: &[Decision],
    record: &StepRecord,
    affected: &BTreeSet<DecisionId>,
    is_strategized_again: bool,
) -> bool {
    is_strategized_again
        || record.decision.is_some_and(|id| affected.contains(&id))
        || strategy_decision(plan, all, &record.path).is_some_and(|id| affected.contains(&id))
}
