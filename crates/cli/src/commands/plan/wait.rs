//! `plan wait`: waits until a plan finishes, needs input or fails.

use std::time::{Duration, Instant};

use cleveragents_application::plan_operations::{AwaitPlan, PlanStatusReport, ReadPlanLog};
use cleveragents_domain::{Code, PlanStage, Position};

use super::log::{POLL_INTERVAL, line, read_new_events};
use super::status::{error_message, view};
use crate::context::Context;
use crate::output::{CommandError, Report, commands, write_err};
use crate::remote::{FAILURES, is_temporary};

/// Poll interval with a server.
const REMOTE_PAUSE: Duration = Duration::from_millis(500);

pub(super) fn run(
    context: &Context,
    reference: Option<String>,
    timeout: Option<u64>,
) -> Result<Report, CommandError> {
    let _notify = context.notify_when_done();
    let deadline =
        timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let is_connected = context.connection.is_some();
    let pause = if is_connected {
        REMOTE_PAUSE
    } else {
        POLL_INTERVAL
    };
    let last = context.call(ReadPlanLog {
        reference,
        limit: 1,
        after: None,
    })?;
    let mut wait = PlanWait {
        context,
        plan: last.plan_id.to_string(),
        position: last.summary.last_position.unwrap_or_default(),
        is_idle_reported: false,
    };
    let mut stage = String::new();
    let mut failures = 0;
    loop {
        match wait.check() {
            Ok(PlanPoll::Stopped(status)) => return Ok(stopped(&status)),
            Ok(PlanPoll::Running(now)) => (stage, failures) = (now, 0),
            // The server may be restarting.
            Err(error) if is_connected && is_temporary(&error) && failures < FAILURES => {
                failures += 1;
            }
            Err(error) => return Err(error),
        }
        let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if remaining.is_some_and(|remaining| remaining.is_zero()) {
            let seconds = timeout.unwrap_or_default();
            return Err(AwaitPlan::still_running(&wait.plan, &stage, seconds).into());
        }
        std::thread::sleep(remaining.map_or(pause, |remaining| remaining.min(pause)));
    }
}

/// Result of one poll.
enum PlanPoll {
    /// Running or queued, with its stage.
    Running(String),
    Stopped(Box<PlanStatusReport>),
}

/// A plan that the command waits for, and the log position shown so far.
struct PlanWait<'a> {
    context: &'a Context,
    plan: String,
    position: Position,
    is_idle_reported: bool,
}

impl PlanWait<'_> {
    /// Reads the status and prints new events.
    fn check(&mut self) -> Result<PlanPoll, CommandError> {
        // The status is read before the log, so that the log includes the event that stopped the plan.
        let status = self.context.call(AwaitPlan {
            reference: Some(self.plan.clone()),
        });
        let details = match status {
            Ok(status) => {
                self.show_log()?;
                return Ok(PlanPoll::Stopped(Box::new(status)));
            }
            Err(error) if error.code() == Code::PlanNotReady => error.details(),
            Err(error) => return Err(error),
        };
        self.show_log()?;
        let stage = details["stage"].as_str().unwrap_or_default().to_owned();
        if details["is_idle"] == true && !self.is_idle_reported {
            self.is_idle_reported = true;
            let plan = &self.plan;
            self.print_line(&format!("no process runs plan {plan} now; it is {stage}"));
        }
        Ok(PlanPoll::Running(stage))
    }

    fn show_log(&mut self) -> Result<(), CommandError> {
        if self.context.printer.format().is_human() {
            let show = |entry: &_| {
                self.print_line(&line(entry));
                Ok(())
            };
            (self.position, _) = read_new_events(self.context, &self.plan, self.position, show)?;
        }
        Ok(())
    }

    /// Prints a line to standard error.
    fn print_line(&self, text: &str) {
        if self.context.printer.format().is_human() {
            write_err(&format!("{text}\n"));
        }
    }
}

fn stopped(status: &PlanStatusReport) -> Report {
    let message = if status.is_terminal {
        "The plan has finished"
    } else {
        "The plan has stopped"
    };
    let report = view("plan wait", status, message);
    let plan = status.plan_id;
    match status.stage {
        PlanStage::ApplyApplied => report,
        // The status view reports the failure.
        stage if stage.is_errored() => report,
        PlanStage::ApplyConstrained => {
            let hint = format!("show the errors: `agents plan errors {plan}`");
            report.failed(Code::PlanConstrained, error_message(status), hint)
        }
        stage if stage.is_terminal() => {
            let message = format!("plan {plan} was cancelled: it is {stage}");
            let hint = format!("show its events: `agents plan log {plan}`");
            report.failed(Code::PlanCancelled, message, hint)
        }
        _ => {
            let waiting = status.waiting.as_ref();
            let sentence = waiting.map_or("", |waiting| waiting.sentence.as_str());
            let commands: Vec<String> = commands(&status.next_steps)
                .iter()
                .map(|command| format!("`{command}`"))
                .collect();
            let message = format!("plan {plan} waits for {sentence}");
            report.failed(
                Code::PlanWaiting,
                message,
                format!("run {}", commands.join(" or ")),
            )
        }
    }
}
