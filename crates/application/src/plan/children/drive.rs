//! Runs the child plans of a batch: some at the same time, each in a slot of its own, until all are complete or one
//! stops the others.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cleveragents_domain::{
    ChildFailureMode, ChildPlan, ChildSettings, ChildState, FailureCategory, Plan, PlanId,
    PlanStage, StageTransition, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_store::{child_plans, plans};
use serde_json::json;

use super::{BatchMember, ChildPlans, parallelism};
use crate::count::counted;
use crate::observer::{AgentEvent, Observer};
use crate::plan::error::PlanError;
use crate::plan::failure::{FailureFacts, PhaseFailure};
use crate::plan::front_end::PlanFrontEnd;
use crate::plan::service::DriveOptions;
use crate::scheduler::phase_to_execute;
use crate::tool::SandboxWorkspace;

/// Interval between checks of time limits, and of child plans that other processes run.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A child plan that a thread runs.
struct RunningChild {
    plan: PlanId,
    cancel: Cancel,
    deadline: Option<Instant>,
    is_late: bool,
}

/// Outcome of a run of a child plan.
enum ChildOutcome {
    Complete,
    /// It waits for the user.
    Waits,
    /// Another process runs it.
    Busy,
    Stopped,
    Failed(String),
    /// A failure of the program, such as of the database.
    Broken(PlanError),
}

impl ChildPlans<'_> {
    /// Runs the child plans of a batch until all are complete. Returns an error if one failed, waits or was stopped.
    pub(super) fn drive(
        &self,
        plan: &Plan,
        batch: &[BatchMember<'_>],
        settings: &ChildSettings,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let open: VecDeque<ChildPlan> = self
            .states(plan, batch)?
            .into_iter()
            .filter(|child| !child.state.is_over())
            .collect();
        if open.is_empty() {
            return self.check_all(plan, batch);
        }
        // Child plans run in slots, so a plan that waits for them must not keep one.
        if let Some(slot) = self.slot {
            slot.release();
        }
        let broken = self.run_threads(plan, open, settings, workspace);
        if let Some(slot) = self.slot {
            slot.acquire(plan, self.front_end)?;
        }
        broken?;
        self.check_all(plan, batch)
    }

    fn run_threads(
        &self,
        plan: &Plan,
        mut pending: VecDeque<ChildPlan>,
        settings: &ChildSettings,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let group = self.front_end.cancel.child();
        let (sender, receiver) = mpsc::channel();
        let limit = parallelism(settings);
        let mut running: Vec<RunningChild> = Vec::new();
        let mut result = Ok(());
        std::thread::scope(|scope| {
            loop {
                while running.len() < limit && !group.is_cancelled() && result.is_ok() {
                    let Some(child) = pending.pop_front() else {
                        break;
                    };
                    if let Err(error) = self.fork(child.plan, workspace) {
                        result = Err(error);
                        group.cancel();
                        break;
                    }
                    let cancel = group.child();
                    let timeout = settings.timeout_seconds.map(Duration::from_secs);
                    running.push(RunningChild {
                        plan: child.plan,
                        cancel: cancel.clone(),
                        deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
                        is_late: false,
                    });
                    let sender = sender.clone();
                    scope.spawn(move || {
                        let outcome = self.run_child(&child, &cancel);
                        // The receiver lives until all threads have ended.
                        let _sent = sender.send((child, outcome));
                    });
                }
                if running.is_empty() {
                    break;
                }
                match receiver.recv_timeout(CHECK_INTERVAL) {
                    Ok((child, outcome)) => {
                        let is_late = running
                            .iter()
                            .any(|other| other.plan == child.plan && other.is_late);
                        running.retain(|other| other.plan != child.plan);
                        let ended = self.ended(plan, child, outcome, is_late, settings, &group);
                        match ended {
                            Ok(again) => pending.extend(again),
                            Err(error) => {
                                result = Err(error);
                                group.cancel();
                            }
                        }
                    }
                    Err(_) => cancel_late(&mut running),
                }
            }
        });
        // Child plans that did not start because another one failed.
        if group.is_cancelled() && !self.front_end.cancel.is_cancelled() && result.is_ok() {
            for child in pending {
                self.cancel_child(child.plan, "another child plan failed")?;
            }
        }
        result
    }

    /// Runs one child plan as far as it gets.
    fn run_child(&self, child: &ChildPlan, cancel: &Cancel) -> ChildOutcome {
        let observer = ChildObserver {
            child,
            observer: self.front_end.observer,
        };
        let front_end = PlanFrontEnd {
            approver: self.front_end.approver,
            observer: &observer,
            cancel,
        };
        match self.drive_child(child, front_end) {
            Ok(plan) if plan.stage == PlanStage::ExecuteComplete => ChildOutcome::Complete,
            Ok(plan) if plan.waiting.is_some() => ChildOutcome::Waits,
            Ok(plan) => ChildOutcome::Failed(format!("it ended as {}", plan.stage)),
            Err(PlanError::Waits { .. }) => ChildOutcome::Waits,
            Err(PlanError::Busy { .. }) => ChildOutcome::Busy,
            Err(PlanError::Stopped { .. }) => ChildOutcome::Stopped,
            Err(_) if cancel.is_cancelled() => ChildOutcome::Stopped,
            Err(PlanError::Failed { message, .. }) => ChildOutcome::Failed(message),
            Err(error @ (PlanError::Store(_) | PlanError::Lease(_))) => ChildOutcome::Broken(error),
            Err(error) => ChildOutcome::Failed(error.to_string()),
        }
    }

    fn drive_child(
        &self,
        child: &ChildPlan,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Plan, PlanError> {
        let plan = self.service.get(child.plan)?;
        let options = DriveOptions {
            consent: Some(phase_to_execute(&plan)),
            unknown_outcome: self.unknown_outcome,
            ..DriveOptions::default()
        };
        let Some(slot) = self.slot else {
            return self
                .service
                .drive(child.plan, &options, self.runtime, front_end);
        };
        let slot = slot.another(&plan, front_end)?;
        self.service
            .drive_in_slot(child.plan, &options, self.runtime, front_end, Some(&slot))
    }

    /// Stores how a child plan ended. Returns it if it has to run again.
    fn ended(
        &self,
        plan: &Plan,
        child: ChildPlan,
        outcome: ChildOutcome,
        is_late: bool,
        settings: &ChildSettings,
        group: &Cancel,
    ) -> Result<Option<ChildPlan>, PlanError> {
        let (id, open) = (child.plan, [ChildState::Open]);
        match outcome {
            ChildOutcome::Complete => {
                self.progress.write(move |unit| {
                    child_plans::set_state(unit, id, &open, ChildState::Complete, None)
                })?;
                self.note(&child, "complete");
                Ok(None)
            }
            ChildOutcome::Waits => {
                self.note(&child, "waits for you");
                Ok(None)
            }
            ChildOutcome::Busy if group.is_cancelled() => Ok(None),
            ChildOutcome::Busy => {
                std::thread::sleep(CHECK_INTERVAL);
                Ok(Some(child))
            }
            ChildOutcome::Stopped if is_late => {
                let seconds = settings.timeout_seconds.unwrap_or_default();
                let reason = format!("it took longer than {}", counted(seconds, "second"));
                self.failed(plan, child, reason, settings, group)
            }
            ChildOutcome::Stopped if self.front_end.cancel.is_cancelled() => Ok(None),
            ChildOutcome::Stopped => {
                // The user cancelled this child plan, or another one failed.
                let reason = if group.is_cancelled() {
                    "another child plan failed"
                } else {
                    "it was cancelled"
                };
                self.cancel_child(id, reason)?;
                Ok(None)
            }
            ChildOutcome::Failed(message) => self.failed(plan, child, message, settings, group),
            ChildOutcome::Broken(error) => Err(error),
        }
    }

    fn failed(
        &self,
        plan: &Plan,
        child: ChildPlan,
        reason: String,
        settings: &ChildSettings,
        group: &Cancel,
    ) -> Result<Option<ChildPlan>, PlanError> {
        let id = child.plan;
        let tries = self
            .progress
            .write(move |unit| child_plans::count_try(unit, id))?;
        if tries <= u64::from(settings.retries) && !group.is_cancelled() {
            self.note(&child, &format!("failed and is retried: {reason}"));
            return Ok(Some(child));
        }
        self.note(&child, &format!("failed: {reason}"));
        self.progress.write(move |unit| {
            let open = [ChildState::Open];
            child_plans::set_state(unit, id, &open, ChildState::Failed, Some(&reason))
        })?;
        if settings.on_failure == ChildFailureMode::FailFast {
            tracing::info!(plan = %plan.id, child = %id, "a child plan failed; the others are cancelled");
            group.cancel();
        }
        Ok(None)
    }

    /// Cancels a child plan whose thread has ended, and removes its sandbox.
    fn cancel_child(&self, child: PlanId, reason: &str) -> Result<(), PlanError> {
        match self.service.cancel(child, reason) {
            Ok(_) | Err(PlanError::NotReady { .. }) => {}
            Err(error) => return Err(error),
        }
        self.workspaces.remove_fork(child)?;
        let reason = reason.to_owned();
        self.progress.write(move |unit| {
            let open = [ChildState::Open];
            child_plans::set_state(unit, child, &open, ChildState::Cancelled, Some(&reason))
        })?;
        Ok(())
    }

    /// Fails, stops or pauses the plan unless all child plans of the batch are complete.
    fn check_all(&self, plan: &Plan, batch: &[BatchMember<'_>]) -> Result<(), PlanError> {
        let id = plan.id;
        self.progress
            .write(move |unit| plans::record_usage(unit, id))?;
        let children = self.states(plan, batch)?;
        let ended = |state: ChildState| children.iter().filter(move |child| child.state == state);
        let failed: Vec<&ChildPlan> = ended(ChildState::Failed).collect();
        if self.front_end.cancel.is_cancelled() {
            return Err(self.progress.stopped(plan)?);
        }
        if failed.is_empty() && ended(ChildState::Cancelled).next().is_none() {
            let open: Vec<&ChildPlan> = ended(ChildState::Open).collect();
            if open.is_empty() {
                return Ok(());
            }
            let text: Vec<String> = open.iter().map(|child| child_line(child)).collect();
            let plans = open.iter().map(|child| child.plan).collect();
            let text = text.join("; ");
            return self
                .progress
                .wait(plan, Waiting::ChildPlans { plans, text });
        }
        let mut reasons: Vec<String> = failed.iter().map(|child| child_line(child)).collect();
        if reasons.is_empty() {
            reasons.extend(ended(ChildState::Cancelled).map(child_line));
        }
        let count = ended(ChildState::Cancelled).count();
        let mut message = match reasons.len() {
            1 => format!("a child plan failed: {}", reasons[0]),
            number => format!("{number} child plans failed: {}", reasons.join("; ")),
        };
        if count > 0 && !failed.is_empty() {
            let _written = write!(message, ". {count} others were cancelled");
        }
        let ids: Vec<PlanId> = failed.iter().map(|child| child.plan).collect();
        let facts = FailureFacts {
            is_retriable: Some(true),
            details: Some(json!({"failed_subplan_ids": ids, "subplan_execution_failed": true})),
            ..FailureFacts::default()
        };
        let failure = PhaseFailure::new(FailureCategory::Failure, message).with_facts(facts);
        self.progress
            .fail(plan, StageTransition::FailExecute, failure)
    }

    fn note(&self, child: &ChildPlan, text: &str) {
        let number = child.number;
        self.front_end
            .observer
            .note(&format!("child plan {number}, {}: {text}", child.title));
    }
}

fn child_line(child: &ChildPlan) -> String {
    let name = format!("`{}` (child plan {})", child.title, child.number);
    match &child.reason {
        Some(reason) => format!("{name}: {reason}"),
        None => name,
    }
}

/// Cancels the child plans that exceeded their time limit.
fn cancel_late(running: &mut [RunningChild]) {
    let now = Instant::now();
    for child in running {
        if child.deadline.is_some_and(|deadline| deadline <= now) && !child.is_late {
            child.is_late = true;
            child.cancel.cancel();
        }
    }
}

/// Reports the events of a child plan to the observer of its parent.
struct ChildObserver<'a> {
    child: &'a ChildPlan,
    observer: &'a dyn Observer,
}

impl Observer for ChildObserver<'_> {
    fn event(&self, event: &AgentEvent) {
        if let AgentEvent::ChildPlan { .. } = event {
            return self.observer.event(event);
        }
        self.observer.event(&AgentEvent::ChildPlan {
            plan_id: self.child.plan,
            number: self.child.number,
            title: self.child.title.clone(),
            event: Box::new(event.clone()),
        });
    }

    fn is_watching(&self) -> bool {
        self.observer.is_watching()
    }
}
