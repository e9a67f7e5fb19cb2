//! [`PlanStatus`]: how far a plan is, what it took, what it waits for and what can be done.

use cleveragents_domain::{
    Lease, Plan, PlanPhase, PlanStage, StepRecord, StepState, Timestamp, Waiting,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::is_folder;
use super::trouble::recovery;
use super::{BookError, PlanBook};
use crate::plan::failed_check::FailedCheck;

/// How far a phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressState {
    /// It is done.
    Done,
    /// Somebody is at it.
    Running,
    /// Somebody was at it, and is not any more.
    Interrupted,
    /// Its turn comes.
    Queued,
    /// A person has to say something first.
    AwaitingInput,
    /// It failed.
    Errored,
    /// Something stands in its way.
    Constrained,
    /// It was given up, or is never reached.
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

/// How far one phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseProgress {
    /// The phase.
    pub phase: PlanPhase,
    /// How far it is.
    pub state: ProgressState,
}

/// How far a plan is.
#[derive(Debug)]
pub struct PlanStatus {
    /// The plan.
    pub plan: Plan,
    /// Who works on it.
    pub owner: Option<Lease>,
    /// Phase by phase.
    pub progress: [PhaseProgress; 3],
    /// What it did and was not taken back.
    pub steps: Vec<StepRecord>,
    /// How many steps its strategy has that are done.
    pub steps_done: usize,
    /// How many steps its strategy has.
    pub steps_total: usize,
    /// Seconds since work on it began, up to its end; nothing before.
    pub elapsed: Option<f64>,
    /// Seconds that the steps which are left take, if they take as long as those that are done.
    pub eta: Option<f64>,
    /// How many files it is recorded to have changed; nothing without a sandbox.
    pub files: Option<usize>,
    /// How many checkpoints it has.
    pub checkpoints: usize,
    /// Its child plans that are over, and all of them.
    pub children: (usize, usize),
    /// What to run next, the likeliest first.
    pub next: Vec<String>,
    /// Whether the price of every model that it asked is known.
    pub is_cost_known: bool,
    /// The validations whose last result did not pass.
    pub failed_checks: Vec<FailedCheck>,
}

impl PlanStatus {
    /// The step that is being done, or that waits for a person.
    pub fn current_step(&self) -> Option<&StepRecord> {
        if !self.plan.stage.is_processing() {
            return None;
        }
        self.steps
            .iter()
            .rev()
            .find(|step| step.state == StepState::Running)
    }

    /// Whether somebody was at it, and is not any more. One that waits for a person stopped by itself.
    pub const fn is_interrupted(&self) -> bool {
        self.plan.stage.is_processing() && self.owner.is_none() && self.plan.waiting.is_none()
    }
}

impl PlanBook {
    /// How far a plan is, at this moment.
    pub fn status(&self, plan: Plan) -> Result<PlanStatus, BookError> {
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
        let over = children.iter().filter(|child| child.stage.is_terminal());
        let steps_total = plan.strategy.as_ref().map_or(0, |way| way.steps.len());
        let is_done =
            |step: &&StepRecord| step.state == StepState::Done && step.path.starts_with("step/");
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
            next: next(&plan, owner.is_some()),
            children: (over.count(), children.len()),
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
    // A gate stands before the phase that it opens, which need not have begun.
    let waits_in = plan
        .waiting
        .as_ref()
        .filter(|_| !stage.is_terminal())
        .map(|waiting| match waiting {
            Waiting::Gate { opens, .. } => opens.phase().unwrap_or_else(|| stage.phase()),
            _ => stage.phase(),
        });
    PlanPhase::ALL.map(|phase| {
        let reached = if waits_in == Some(phase) {
            ProgressState::AwaitingInput
        } else if phase < stage.phase() {
            ProgressState::Done
        } else if phase > stage.phase() {
            match stage {
                stage if stage.is_terminal() => ProgressState::Cancelled,
                _ => ProgressState::Queued,
            }
        } else {
            own(stage, is_owned)
        };
        PhaseProgress {
            phase,
            state: reached,
        }
    })
}

const fn own(stage: PlanStage, is_owned: bool) -> ProgressState {
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

/// Only while it is carried out and something is known about how long a step takes.
#[expect(clippy::cast_precision_loss, reason = "a guess for people")]
fn eta(plan: &Plan, steps: &[StepRecord], done: usize, total: usize) -> Option<f64> {
    if plan.stage != PlanStage::ExecuteProcessing || done == 0 {
        return None;
    }
    let took: f64 = steps
        .iter()
        .filter(|step| step.state == StepState::Done)
        .filter_map(|step| Some(step.finished_at?.seconds_since(step.started_at)))
        .sum();
    Some(took / done as f64 * total.saturating_sub(done) as f64)
}

/// The commands that answer what a plan waits for.
pub fn waiting_commands(plan: &Plan) -> Vec<String> {
    let id = plan.id;
    match &plan.waiting {
        None => Vec::new(),
        Some(Waiting::Gate { .. } | Waiting::Call { .. }) => vec![
            format!("agents plan approve {id}"),
            format!("agents plan reject {id}"),
        ],
        Some(Waiting::Question { .. }) => {
            vec![format!("agents plan approve {id} --answer 'ANSWER'")]
        }
        Some(Waiting::Doubt { .. }) => vec![
            format!("agents plan execute {id} --redo"),
            format!("agents plan execute {id} --skip"),
        ],
        Some(Waiting::Guidance { .. }) => vec![format!("agents plan prompt {id} 'GUIDANCE'")],
    }
}

/// What to run next, the likeliest first.
fn next(plan: &Plan, is_owned: bool) -> Vec<String> {
    use PlanStage as S;
    let id = plan.id;
    if plan.stage.is_terminal() {
        return Vec::new();
    }
    if plan.waiting.is_some() {
        return waiting_commands(plan);
    }
    if is_owned || plan.queued_for.is_some() {
        return vec![format!("agents plan wait {id}")];
    }
    match plan.stage {
        S::StrategizeQueued
        | S::StrategizeProcessing
        | S::StrategizeComplete
        | S::ExecuteQueued
        | S::ExecuteProcessing => vec![format!("agents plan execute {id}")],
        S::ExecuteComplete | S::ApplyQueued => vec![
            format!("agents plan diff {id}"),
            format!("agents plan apply {id}"),
        ],
        S::ApplyProcessing => vec![format!("agents plan apply {id}")],
        _ => recovery(plan),
    }
}
