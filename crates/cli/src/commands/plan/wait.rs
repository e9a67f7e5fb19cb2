//! `plan wait`: until a plan is over, needs input or fails.

use std::time::{Duration, Instant};

use cleveragents_application::plan_operations::{AwaitPlan, PlanStatusReport, ReadPlanLog};
use cleveragents_domain::{Code, PlanStage, Position};

use super::log::{PAUSE, line, read_on};
use super::status::{error_message, view};
use crate::context::Context;
use crate::output::{CommandError, Report};
use crate::remote::{FAILURES, is_temporary};

/// Poll interval when a server is asked.
const REMOTE_PAUSE: Duration = Duration::from_millis(500);

pub(super) fn run(
    context: &Context,
    reference: Option<String>,
    timeout: Option<u64>,
) -> Result<Report, CommandError> {
    let end = timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let is_connected = context.connection.is_some();
    let pause = if is_connected { REMOTE_PAUSE } else { PAUSE };
    let last = context.call(ReadPlanLog {
        reference,
        limit: 1,
        after: None,
    })?;
    let mut watch = Watch {
        context,
        plan: last.plan_id.to_string(),
        position: last.summary.last_position.unwrap_or_default(),
        is_idle_said: false,
    };
    let mut stage = String::new();
    let mut failures = 0;
    loop {
        match watch.check() {
            Ok(Progress::Stopped(status)) => return Ok(stopped(&status)),
            Ok(Progress::Running(now)) => (stage, failures) = (now, 0),
            // A server that restarts is back in a moment.
            Err(error) if is_connected && is_temporary(&error) && failures < FAILURES => {
                failures += 1;
            }
            Err(error) => return Err(error),
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let seconds = timeout.unwrap_or_default();
            return Err(AwaitPlan::still_running(&watch.plan, &stage, seconds).into());
        }
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
    }
}

/// Where a plan is when it is looked at.
enum Progress {
    /// It goes on; its stage.
    Running(String),
    Stopped(Box<PlanStatusReport>),
}

/// A plan that is waited for, and how much of its log was shown.
struct Watch<'a> {
    context: &'a Context,
    plan: String,
    position: Position,
    is_idle_said: bool,
}

impl Watch<'_> {
    /// Looks at the plan, and shows people what happened since the last time.
    fn check(&mut self) -> Result<Progress, CommandError> {
        // Before the log is read: what stopped the plan is shown, too.
        let status = self.context.call(AwaitPlan {
            reference: Some(self.plan.clone()),
        });
        let running = match status {
            Ok(status) => {
                self.show_log()?;
                return Ok(Progress::Stopped(Box::new(status)));
            }
            Err(error) if error.code() == Code::PlanNotReady => error.details(),
            Err(error) => return Err(error),
        };
        self.show_log()?;
        let stage = running["stage"].as_str().unwrap_or_default().to_owned();
        if running["is_idle"] == true && !self.is_idle_said {
            self.is_idle_said = true;
            let plan = &self.plan;
            self.say(&format!(
                "nobody works on plan {plan} right now; it is {stage}"
            ));
        }
        Ok(Progress::Running(stage))
    }

    fn show_log(&mut self) -> Result<(), CommandError> {
        if self.context.printer.format().is_human() {
            let show = |entry: &_| {
                self.say(&line(entry));
                Ok(())
            };
            (self.position, _) = read_on(self.context, &self.plan, self.position, show)?;
        }
        Ok(())
    }

    /// Tells people something on standard error.
    fn say(&self, text: &str) {
        if self.context.printer.format().is_human() {
            self.context.live.err(&format!("{text}\n"));
        }
    }
}

fn stopped(status: &PlanStatusReport) -> Report {
    let message = if status.is_terminal {
        "The plan is over"
    } else {
        "The plan has stopped"
    };
    let report = view("plan wait", status, message);
    let plan = status.plan_id;
    match status.stage {
        PlanStage::ApplyApplied => report,
        // The view of the status says so.
        stage if stage.is_errored() => report,
        PlanStage::ApplyConstrained => {
            let hint = format!("see why: `agents plan errors {plan}`");
            report.failed(Code::PlanConstrained, error_message(status), hint)
        }
        stage if stage.is_terminal() => {
            let message = format!("plan {plan} was given up: it is {stage}");
            let hint = format!("see what happened: `agents plan log {plan}`");
            report.failed(Code::PlanCancelled, message, hint)
        }
        _ => {
            let waiting = status.waiting.as_ref();
            let sentence = waiting.map_or("", |waiting| waiting.sentence.as_str());
            let commands: Vec<String> = status
                .next_steps
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
