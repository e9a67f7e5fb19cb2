//! The scheduler: limits how many plans run at the same time, and runs queued plans.

mod concurrency;
mod worker;

use std::time::Duration;

use cleveragents_domain::{Code, Plan, PlanPhase, PlanStage};

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

/// Whether a queued plan stays queued after a run that failed with this code: another process works on it, there is no
/// free slot, or the process that ran it stops.
pub const fn stays_queued(code: Code, is_stopping: bool) -> bool {
    match code {
        Code::PlanBusy | Code::ServerBusy | Code::ServerEnding => true,
        Code::PlanCancelled => is_stopping,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::stays_queued;
    use cleveragents_domain::Code;

    #[test]
    fn only_a_plan_that_could_not_run_now_stays_queued() {
        for code in Code::ALL.iter().copied() {
            let is_temporary =
                matches!(code, Code::PlanBusy | Code::ServerBusy | Code::ServerEnding);
            assert_eq!(stays_queued(code, false), is_temporary, "{code:?}");
            let is_interrupted = is_temporary || code == Code::PlanCancelled;
            assert_eq!(stays_queued(code, true), is_interrupted, "{code:?}");
        }
    }
}
