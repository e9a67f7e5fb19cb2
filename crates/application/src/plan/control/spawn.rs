//! Adds a part to the strategy of a plan, which a child plan executes.

use cleveragents_domain::{
    ChildSettings, DecisionId, DecisionType, EventKind, NewDecision, NewEvent, Plan, PlanId,
    PlanPhase, PlanStep, PlanStrategy, StageTransition, hint, suggest,
};
use cleveragents_store::plans::TransitionDetails;
use cleveragents_store::{UnitOfWork, child_plans, decisions, plans};
use serde_json::json;

use super::PlanControl;
use crate::plan::decision::new_decision;
use crate::plan::error::PlanError;
use crate::plan::lineage::step_question;
use crate::plan::prompt::shortened;
use crate::plan::service::already_finished;

/// Maximum length of a title that is made from the task of a part, in bytes.
const TITLE_LENGTH: usize = 80;

/// A part of the task of a plan that the user adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedPart {
    /// The task of the part. Its first line becomes the title.
    pub task: String,
    /// Paths that the part changes.
    pub files: Vec<String>,
    /// Numbers of the steps that must be done before, from 1.
    pub after: Vec<usize>,
}

impl AddedPart {
    /// The step of the strategy.
    pub(in crate::plan) fn step(&self) -> PlanStep {
        let task = self.task.trim();
        PlanStep {
            title: shortened(task.lines().next().unwrap_or(task), TITLE_LENGTH),
            description: task.to_owned(),
            files: self.files.clone(),
            after: self.after.clone(),
            child_plan: true,
            ..PlanStep::default()
        }
    }
}

/// A part that was added.
#[derive(Debug)]
pub struct PlanPartAdded {
    /// The plan afterwards.
    pub plan: Plan,
    /// Number of the new step, from 1.
    pub number: usize,
    /// The decision that records it.
    pub decision: DecisionId,
}

impl PlanControl {
    /// Adds a part to the strategy of a plan. The plan executes it as a child plan when it continues.
    pub(in crate::plan) fn add_part(
        &self,
        id: PlanId,
        part: &AddedPart,
        max_depth: u64,
    ) -> Result<PlanPartAdded, PlanError> {
        if part.task.trim().is_empty() {
            return Err(PlanError::Usage("the part has no task".to_owned()));
        }
        let lease = self.store.acquire(id)?;
        self.rollback.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        if plan.stage.is_terminal() {
            return Err(already_finished(&plan));
        }
        let (Some(strategy), Some(root)) = (&plan.strategy, plan.decision_root) else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it has no strategy yet".to_owned(),
                hint: hint!("make one with {}", suggest::plan_execute(id)),
            });
        };
        let depth = self.store.read(|reader| child_plans::depth(reader, id))?;
        if depth >= max_depth {
            return Err(PlanError::Usage(format!(
                "the plan has {depth} plans above it, and `plan.max-child-depth` is {max_depth}: it cannot have child \
                 plans"
            )));
        }
        let (strategy, number) = with_part(strategy, part.step())?;
        let decision = NewDecision {
            snapshot: self.snapshots.take(&plan, None)?,
            ..added_step(root, &strategy, number)
        };
        let decision_id = decision.id;
        self.store.write_leased(&lease, move |unit| {
            decisions::insert(unit, id, &decision)?;
            Ok(store_strategy(unit, id, &strategy, "a part was added")?)
        })?;
        Ok(PlanPartAdded {
            plan: self.store.get(id)?,
            number,
            decision: decision_id,
        })
    }
}

/// Appends a step to a strategy. Returns the number of the step.
pub(in crate::plan) fn with_part(
    strategy: &PlanStrategy,
    step: PlanStep,
) -> Result<(PlanStrategy, usize), PlanError> {
    let mut strategy = strategy.clone();
    strategy.steps.push(step);
    strategy.children.get_or_insert_with(ChildSettings::default);
    let number = strategy.steps.len();
    // The new step is last, so that the steps keep their numbers.
    let ordered = strategy.ordered().map_err(|fault| PlanError::Strategy {
        message: fault.message,
        line: fault.line,
    })?;
    Ok((ordered, number))
}

/// The decision that puts an added step into the strategy.
pub(in crate::plan) fn added_step(
    root: DecisionId,
    strategy: &PlanStrategy,
    number: usize,
) -> NewDecision {
    let title = strategy
        .steps
        .get(number - 1)
        .map_or("", |step| step.title.as_str());
    new_decision(
        root,
        DecisionType::StrategyChoice,
        PlanPhase::Strategize,
        step_question(number as u64),
        title,
        "added by the user",
    )
}

/// Stores a strategy with an added step. A plan that was executed is executed again, for the new step only.
pub(in crate::plan) fn store_strategy(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    strategy: &PlanStrategy,
    reason: &str,
) -> Result<(), cleveragents_store::Error> {
    plans::set_strategy(unit, id, Some(strategy))?;
    let details = TransitionDetails {
        clears_error: true,
        reason: Some(reason.to_owned()),
        ..TransitionDetails::default()
    };
    // No transition is needed before the plan was executed.
    plans::advance(unit, id, StageTransition::Rework, &details)?;
    plans::clear_waiting(unit, id)?;
    unit.emit(NewEvent {
        kind: EventKind::PlanEdited,
        subject: id.to_string(),
        payload: json!({"steps": strategy.steps.len()}),
    });
    Ok(())
}
