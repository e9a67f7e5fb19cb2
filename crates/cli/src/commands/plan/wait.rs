//! `plan wait`: until a plan is over, needs a person or fails.

use std::time::{Duration, Instant};

use cleveragents_application::{PlanBook, waiting_commands};
use cleveragents_domain::{Code, Plan, PlanStage, Position};
use serde_json::json;

use super::log::{PAUSE, line, read_on};
use super::status::{error_message, shown};
use crate::context::Context;
use crate::output::{CommandError, Report};

pub(super) fn run(
    context: &Context,
    book: &PlanBook,
    plan: &Plan,
    timeout: Option<u64>,
) -> Result<Report, CommandError> {
    // Who waits on another machine asks again.
    let timeout = if context.served.is_some() {
        Some(0)
    } else {
        timeout
    };
    let end = timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let last = book.newest_log(plan.id, 1)?;
    let mut position = last
        .last()
        .map_or_else(Position::default, |event| event.position);
    let tells = context.printer.format().is_human();
    let mut is_told_idle = false;
    loop {
        // Looked at before the log: what ended it is told, too.
        let now = book.get(plan.id)?;
        position = read_on(book, plan.id, position, |event| {
            if tells {
                say(context, &line(event));
            }
            Ok(())
        })?;
        if is_settled(&now) {
            return settled(book, now);
        }
        if tells && !is_told_idle && now.queued_for.is_none() && book.owner(plan.id)?.is_none() {
            is_told_idle = true;
            say(
                context,
                &format!(
                    "nobody works on plan {} right now; it is {}",
                    now.id, now.stage
                ),
            );
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let (plan, stage) = (now.id.to_string(), now.stage.to_string());
            return Err(expired(&plan, &stage, timeout.unwrap_or_default()));
        }
        std::thread::sleep(left.map_or(PAUSE, |left| left.min(PAUSE)));
    }
}

/// What is told when the time is over. Programs find the plan and its stage in the details.
pub(crate) fn expired(plan: &str, stage: &str, seconds: u64) -> CommandError {
    let message = format!("plan {plan} is still {stage} after {seconds} s");
    CommandError::new(Code::PlanNotReady, message)
        .with_hint(format!("look at it: `agents plan status {plan}`"))
        .with_details(json!({"plan_id": plan, "stage": stage}))
}

/// Talk, which nobody has to read.
fn say(context: &Context, text: &str) {
    context.live.err(&format!("{text}\n"));
}

/// Whether nothing happens to it any more unless a person does something.
const fn is_settled(plan: &Plan) -> bool {
    plan.stage.is_terminal()
        || plan.stage.is_errored()
        || plan.waiting.is_some()
        || matches!(plan.stage, PlanStage::ApplyConstrained)
}

fn settled(book: &PlanBook, plan: Plan) -> Result<Report, CommandError> {
    let status = book.status(plan)?;
    let plan = &status.plan;
    let message = if plan.stage.is_terminal() {
        "The plan is over"
    } else {
        "The plan has stopped"
    };
    let report = shown("plan wait", &status, message);
    Ok(match plan.stage {
        PlanStage::ApplyApplied => report,
        // It says so itself.
        stage if stage.is_errored() => report,
        PlanStage::ApplyConstrained => {
            let hint = format!("see why: `agents plan errors {}`", plan.id);
            report.failed(Code::PlanConstrained, error_message(plan), hint)
        }
        stage if stage.is_terminal() => {
            let message = format!("plan {} was given up: it is {stage}", plan.id);
            let hint = format!("see what happened: `agents plan log {}`", plan.id);
            report.failed(Code::PlanCancelled, message, hint)
        }
        _ => {
            let sentence = plan
                .waiting
                .as_ref()
                .map_or_else(String::new, cleveragents_domain::Waiting::sentence);
            let commands: Vec<String> = waiting_commands(plan)
                .into_iter()
                .map(|command| format!("`{command}`"))
                .collect();
            let message = format!("plan {} waits for {sentence}", plan.id);
            report.failed(
                Code::PlanWaiting,
                message,
                format!("run {}", commands.join(" or ")),
            )
        }
    })
}
