//! The scheduler: limits how many plans run at the same time, and runs queued plans.

mod concurrency;
mod worker;

use std::time::Duration;

use cleveragents_domain::{Plan, PlanPhase, PlanStage};

pub(crate) use concurrency::PlanSlot;
pub use concurrency::Scheduler;
pub use worker::{Worker, WorkerEvent, WorkerOptions, WorkerSummary};

/// Poll interval for free slots and queued plans.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Stages in which `plan execute` can run a plan.
pub const EXECUTABLE_STAGES: [PlanStage; 9] = [
    PlanStage::StrategizeQueued,
    PlanStage::StrategizeProcessing,
    PlanStage::StrategizeComplete,
    PlanStage::StrategizeErrored,
    PlanStage::ExecuteQueued,
    PlanStage::ExecuteProcessing,
    PlanStage::ExecuteErrored,
    PlanStage::ApplyConstrained,
    PlanStage::ApplyErrored,
];

/// Stages in which `plan apply` can apply a plan.
pub const APPLICABLE_STAGES: [PlanStage; 5] = [
    PlanStage::ExecuteComplete,
    PlanStage::ApplyQueued,
    PlanStage::ApplyProcessing,
    PlanStage::ApplyConstrained,
    PlanStage::ApplyErrored,
];

/// The phase to run when a plan is executed: `Strategize` if the plan has no strategy yet.
pub const fn phase_to_execute(plan: &Plan) -> PlanPhase {
    match plan.stage {
        PlanStage::StrategizeQueued
        | PlanStage::StrategizeProcessing
        | PlanStage::StrategizeErrored => PlanPhase::Strategize,
        _ => PlanPhase::Execute,
    }
}

/// The phase to run when a plan is resumed.
pub const fn phase_to_resume(plan: &Plan) -> PlanPhase {
    match plan.stage.phase() {
        PlanPhase::Apply => PlanPhase::Apply,
        PlanPhase::Strategize | PlanPhase::Execute => phase_to_execute(plan),
    }
}
