//! [`Worker`]: runs queued plans until it is stopped or idle.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::{Code, Diagnose as _, Kind, LeaseSubject, Plan, PlanId, ProcessId, Ttl};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;

use super::concurrency::{PlanSlot, Scheduler, pause};
use super::{phase_to_execute, stays_queued};
use crate::lease::LeaseService;
use crate::observer::{NoApprover, NoObserver};
use crate::operation::OperationError;
use crate::plan::{DriveOptions, PlanFrontEnd, PlanQueue, PlanService, QueueEntry};
use crate::runtime::AgentRuntime;

pub struct WorkerOptions<'a> {
    /// Maximum number of plans that this worker runs at the same time; `None` for only the limit of the database.
    pub concurrency: Option<u64>,
    /// Whether the worker stops when no plan runs or can run.
    pub until_idle: bool,
    /// Builds the runtime for a plan.
    pub runtime: &'a (dyn Fn() -> Result<AgentRuntime, OperationError> + Sync),
    /// Receives the events of the worker.
    pub observer: &'a (dyn Fn(&WorkerEvent<'_>) + Sync),
    /// Stops the worker and the plans that it runs.
    pub cancel: &'a Cancel,
}

/// Result of a plan that a worker ran.
pub enum WorkerEvent<'a> {
    /// The plan ran as far as its automation profile allows.
    Ran(&'a Plan),
    /// The plan waits for the user, is run by another process, was stopped, or failed.
    Ended {
        plan: PlanId,
        /// The reason why the plan stopped.
        error: &'a OperationError,
        /// Whether the plan failed; otherwise it waits or was interrupted.
        is_failure: bool,
    },
}

/// Number of plans that a worker ran, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerSummary {
    /// Plans that ran as far as their profiles allow.
    pub done: u64,
    /// Plans that failed.
    pub failed: u64,
    /// Plans that wait for the user.
    pub waiting: u64,
    /// Plans that were stopped by a signal; they stay queued.
    pub stopped: u64,
}

/// Runs queued plans. Its lease shows other processes that a worker is alive.
pub struct Worker<'a> {
    id: ProcessId,
    engine: Arc<Engine>,
    plans: &'a PlanService,
    queue: PlanQueue,
    slots: Scheduler,
    options: WorkerOptions<'a>,
    concurrency: u64,
    state: Mutex<WorkerState>,
}

#[derive(Default)]
struct WorkerState {
    running: BTreeSet<PlanId>,
    summary: WorkerSummary,
    /// An error that stops the worker itself.
    error: Option<OperationError>,
}

impl<'a> Worker<'a> {
    /// Creates a worker for the queue of a database. At most `concurrency` plans run on the database at the same time.
    pub fn new(
        engine: Arc<Engine>,
        plans: &'a PlanService,
        concurrency: u64,
        options: WorkerOptions<'a>,
    ) -> Self {
        let worker_limit = options.concurrency.unwrap_or(concurrency);
        Self {
            id: ProcessId::generate(),
            queue: PlanQueue::new(Arc::clone(&engine)),
            slots: Scheduler::new(Arc::clone(&engine), concurrency.max(worker_limit)),
            engine,
            plans,
            options,
            concurrency: worker_limit,
            state: Mutex::default(),
        }
    }

    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// Runs queued plans until the worker is stopped, is idle, or fails.
    pub fn run(self) -> Result<WorkerSummary, OperationError> {
        let leases = LeaseService::new(Arc::clone(&self.engine));
        let presence = leases.acquire(LeaseSubject::new("worker", self.id), Ttl::default())?;
        std::thread::scope(|scope| -> Result<(), OperationError> {
            while !self.options.cancel.is_cancelled() && self.state().error.is_none() {
                let is_idle = self.start_plans(scope)?;
                if is_idle && self.options.until_idle {
                    break;
                }
                pause(self.options.cancel);
            }
            Ok(())
        })?;
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.error {
            return Err(error);
        }
        presence.release()?;
        Ok(state.summary)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the queued plans that can run now, oldest first. Returns whether the worker is idle.
    fn start_plans<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
    ) -> Result<bool, OperationError> {
        let mut is_idle = self.state().running.is_empty();
        for (plan, queued) in self.queue.all()?.into_iter().rev() {
            let state = self.state();
            if state.running.contains(&plan.id) {
                is_idle = false;
                continue;
            }
            let is_full = state.running.len() as u64 >= self.concurrency;
            drop(state);
            // A live server runs the plans that it claimed itself.
            if is_full || plan.waiting.is_some() || self.queue.is_served(&queued)? {
                continue;
            }
            is_idle = false;
            // Another worker or the user may already run the plan.
            if self.plans.owner(plan.id)?.is_some() {
                continue;
            }
            let Some(slot) = self.slots.free_slot()? else {
                break;
            };
            self.state().running.insert(plan.id);
            tracing::info!(worker = %self.id, plan = %plan.id, slot = %slot.subject(), "plan started by the worker");
            let slot = PlanSlot::new(self.slots.clone(), slot);
            scope.spawn(move || {
                self.run_plan(&plan, &slot);
                drop(slot);
                self.state().running.remove(&plan.id);
            });
        }
        Ok(is_idle)
    }

    fn run_plan(&self, plan: &Plan, slot: &PlanSlot) {
        let outcome = self.drive(plan, slot);
        let unqueued = self.unqueue_unless_pending(plan, &outcome);
        let mut state = self.state();
        if let Err(error) = unqueued {
            // Stop the worker, because a plan that stays queued would run again and again.
            state.error.get_or_insert(error);
        }
        let summary = &mut state.summary;
        match &outcome {
            Ok(plan) => {
                summary.done += 1;
                (self.options.observer)(&WorkerEvent::Ran(plan));
            }
            Err(error) => {
                let mut is_failure = false;
                match error.code() {
                    // Another process runs the plan.
                    Code::PlanBusy => {}
                    Code::PlanCancelled if self.options.cancel.is_cancelled() => {
                        summary.stopped += 1;
                    }
                    code if code.kind() == Kind::HumanNeeded => summary.waiting += 1,
                    _ => {
                        summary.failed += 1;
                        is_failure = true;
                    }
                }
                (self.options.observer)(&WorkerEvent::Ended {
                    plan: plan.id,
                    error,
                    is_failure,
                });
            }
        }
    }

    fn drive(&self, plan: &Plan, slot: &PlanSlot) -> Result<Plan, OperationError> {
        let queued = QueueEntry::from_plan(plan).unwrap_or_default();
        let options = DriveOptions {
            consent: Some(phase_to_execute(plan)),
            unknown_outcome: queued.unknown_outcome(),
            ..DriveOptions::default()
        };
        let runtime = (self.options.runtime)()?;
        let front_end = PlanFrontEnd {
            approver: &NoApprover,
            observer: &NoObserver,
            cancel: self.options.cancel,
        };
        Ok(self
            .plans
            .drive_in_slot(plan.id, &options, &runtime, front_end, Some(slot))?)
    }

    /// Removes a plan from the queue, unless it must run again.
    fn unqueue_unless_pending(
        &self,
        plan: &Plan,
        outcome: &Result<Plan, OperationError>,
    ) -> Result<(), OperationError> {
        // A plan that a server claimed is queued for one run only.
        let runs_often = QueueEntry::from_plan(plan).is_none_or(|queued| queued.served.is_none());
        match outcome {
            // Another process runs the plan, or the plan was interrupted.
            Err(error) if stays_queued(error.code(), true) => Ok(()),
            // The plan waits for the user. It runs again after the answer.
            Err(error) if runs_often && error.code() == Code::PlanWaiting => Ok(()),
            Ok(plan) if runs_often && plan.waiting.is_some() && !plan.stage.is_terminal() => Ok(()),
            _ => Ok(self.plans.unqueue(plan.id)?),
        }
    }
}
