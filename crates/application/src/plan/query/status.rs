//! [`PlanStatus`]: progress, usage, pending input and next operations of a plan.

use cleveragents_domain::{
    Lease, Placeholder, Plan, PlanPhase, PlanStage, StepKind, StepRecord, StepState, Suggestion,
    Timestamp, Waiting, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::is_folder;
use super::failures::recovery;
use super::{PlanQueries, PlanQueryError};
use crate::plan::validate::FailedCheck;

/// The state of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressState {
    /// Complete.
    Done,
    /// A process runs the phase.
    Running,
    /// A process stopped before it finished the phase.
    Interrupted,
    /// Not started yet.
    Queued,
    /// Waits for the user.
    AwaitingInput,
    /// Failed.
    Errored,
    /// A precondition blocks the phase.
    Constrained,
    /// Cancelled, or never reached.
    Cancelled,
}

impl ProgressState {
    /// The state as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Queued => "queued",
            Self::AwaitingInput => "awaiting_input",
            Self::Errored => "errored",
            Self::Constrained => "constrained",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The progress of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseProgress {
    pub phase: PlanPhase,
    pub state: ProgressState,
}

#[derive(Debug)]
pub struct PlanStatus {
    pub plan: Plan,
    /// The lease of the process that works on the plan.
    pub owner: Option<Lease>,
    /// The progress of each phase, in order.
    pub progress: [PhaseProgress; 3],
    /// The steps of the plan, without rolled-back ones.
    pub steps: Vec<StepRecord>,
    /// Number of completed steps of the strategy.
    pub steps_done: usize,
    /// Number of steps of the strategy.
    pub steps_total: usize,
    /// Seconds from the start of the plan to its end, or until now; `None` before the start.
    pub elapsed: Option<f64>,
    /// Estimated seconds for the remaining steps, from the average duration of completed steps.
    pub eta: Option<f64>,
    /// Number of recorded changed files; `None` without a sandbox.
    pub files: Option<usize>,
    /// Number of checkpoints.
    pub checkpoints: usize,
    /// Number of finished child plans, and of all child plans.
    pub children: (usize, usize),
    /// Operations to run next, the most useful first.
    pub next: Vec<Suggestion>,
    /// True if the price of every model that the plan called is known.
    pub is_cost_known: bool,
    /// The validations that failed in their last run.
    pub failed_checks: Vec<FailedCheck>,
}

impl PlanStatus {
    /// The step that runs, or that waits for the user.
    pub fn current_step(&self) -> Option<&StepRecord> {
        if !self.plan.stage.is_processing() {
            return None;
        }
        self.steps
            .iter()
            .rev()
            .find(|step| step.state == StepState::Running)
    }

    /// True if a process stopped before it finished the current phase. A plan that waits for the user is not
    /// interrupted.
    pub const fn is_interrupted(&self) -> bool {
        self.plan.stage.is_processing() && self.owner.is_none() && self.plan.waiting.is_none()
    }
}

impl PlanQueries {
    /// The current status of a plan.
    pub fn status(&self, plan: Plan) -> Result<PlanStatus, PlanQueryError> {
        let owner = self.owner(plan.id)?;
        let mut steps = self.steps(plan.id)?;
        steps.retain(|step| step.undone_by.is_none());
        let sandbox = self.sandbox(&plan)?;
        let files = match &sandbox {
            Some(view) => {
                let diff = self.sandboxes.recorded(view, 0)?;
                let changes = diff.parts.iter().flat_map(|part| &part.changes);
                Some(changes.filter(|change| !is_folder(change)).count())
            }
            None => None,
        };
        let children = self.children(plan.id)?;
        let finished = children.iter().filter(|child| child.stage.is_terminal());
        let steps_total = plan
            .strategy
            .as_ref()
            .map_or(0, |strategy| strategy.steps.len());
        let is_done = |step: &&StepRecord| {
            step.state == StepState::Done && step.kind() == Some(StepKind::Step)
        };
        let steps_done = steps.iter().filter(is_done).count();
        let end = plan.completed_at.unwrap_or_else(Timestamp::now);
        Ok(PlanStatus {
            failed_checks: self.failed_checks(plan.id)?,
            is_cost_known: self.is_cost_known(plan.id)?,
            progress: progress(&plan, owner.is_some()),
            elapsed: plan
                .started_at
                .map(|start| end.seconds_since(start).max(0.0)),
            eta: eta(&plan, &steps, steps_done, steps_total),
            next: next_operations(&plan, owner.is_some()),
            children: (finished.count(), children.len()),
            checkpoints: sandbox.map_or(0, |view| view.checkpoints.len()),
            plan,
            owner,
            steps,
            steps_done,
            steps_total,
            files,
        })
    }
}

fn progress(plan: &Plan, is_owned: bool) -> [PhaseProgress; 3] {
    let stage = plan.stage;
    // A gate belongs to the phase that it opens, which may not have started.
    let waits_in = plan
        .waiting
        .as_ref()
        .filter(|_| !stage.is_terminal())
        .map(|waiting| match waiting {
            Waiting::Gate { opens, .. } => opens.phase().unwrap_or_else(|| stage.phase()),
            _ => stage.phase(),
        });
    PlanPhase::ALL.map(|phase| {
        let progress = if waits_in == Some(phase) {
            ProgressState::AwaitingInput
        } else if phase < stage.phase() {
            ProgressState::Done
        } else if phase > stage.phase() {
            match stage {
                stage if stage.is_terminal() => ProgressState::Cancelled,
                _ => ProgressState::Queued,
            }
        } else {
            current_phase_state(stage, is_owned)
        };
        PhaseProgress {
            phase,
            state: progress,
        }
    })
}

const fn current_phase_state(stage: PlanStage, is_owned: bool) -> ProgressState {
    use PlanStage as S;
    match stage {
        S::StrategizeQueued | S::ExecuteQueued | S::ApplyQueued => ProgressState::Queued,
        S::StrategizeProcessing | S::ExecuteProcessing | S::ApplyProcessing if is_owned => {
            ProgressState::Running
        }
        S::StrategizeProcessing | S::ExecuteProcessing | S::ApplyProcessing => {
            ProgressState::Interrupted
        }
        S::StrategizeComplete | S::ExecuteComplete | S::ApplyApplied => ProgressState::Done,
        S::StrategizeErrored | S::ExecuteErrored | S::ApplyErrored => ProgressState::Errored,
        S::ApplyConstrained => ProgressState::Constrained,
        S::StrategizeCancelled | S::ExecuteCancelled | S::ApplyCancelled => {
            ProgressState::Cancelled
        }
    }
}

/// Estimates the remaining seconds; `None` unless the plan executes steps and has completed one.
#[expect(clippy::cast_precision_loss, reason = "an estimate for display")]
fn eta(plan: &Plan, steps: &[StepRecord], done: usize, total: usize) -> Option<f64> {
    if plan.stage != PlanStage::ExecuteProcessing || done == 0 {
        return None;
    }
    let total_seconds: f64 = steps
        .iter()
        .filter(|step| step.state == StepState::Done)
        .filter_map(|step| Some(step.finished_at?.seconds_since(step.started_at)))
        .sum();
    Some(total_seconds / done as f64 * total.saturating_sub(done) as f64)
}

/// The operations that provide the input that a plan waits for.
fn input_operations(plan: &Plan) -> Vec<Suggestion> {
    let id = plan.id;
    match &plan.waiting {
        None => Vec::new(),
        Some(Waiting::Gate { .. } | Waiting::Call { .. }) => {
            vec![suggest::plan_approve(id), suggest::plan_reject(id)]
        }
        Some(Waiting::Question { .. }) => {
            let answer = Placeholder("ANSWER");
            vec![suggest::plan_approve_with_answer(id, answer)]
        }
        Some(Waiting::UnknownOutcome { .. }) => vec![
            suggest::plan_execute_redo(id),
            suggest::plan_execute_skip(id),
        ],
        Some(Waiting::ChildPlans { plans, .. }) => {
            plans.iter().take(3).map(suggest::plan_status).collect()
        }
        Some(Waiting::Conflicts { .. }) => vec![suggest::plan_conflicts(id)],
        Some(Waiting::Guidance { .. }) => {
            vec![suggest::plan_prompt(id, Placeholder("GUIDANCE"))]
        }
    }
}

/// Operations to run next, the most useful first.
fn next_operations(plan: &Plan, is_owned: bool) -> Vec<Suggestion> {
    use PlanStage as S;
    let id = plan.id;
    if plan.stage.is_terminal() {
        return Vec::new();
    }
    if plan.waiting.is_some() {
        return input_operations(plan);
    }
    if is_owned || plan.queued_for.is_some() {
        return vec![suggest::plan_wait(id)];
    }
    match plan.stage {
        S::StrategizeQueued
        | S::StrategizeProcessing
        | S::StrategizeComplete
        | S::ExecuteQueued
        | S::ExecuteProcessing => vec![suggest::plan_execute(id)],
        S::ExecuteComplete | S::ApplyQueued => {
            vec![suggest::plan_diff(id), suggest::plan_apply(id)]
        }
        S::ApplyProcessing => vec![suggest::plan_apply(id)],
        _ => recovery(plan),
    }
}
