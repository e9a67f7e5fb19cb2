//! `plan approve|reject|prompt|cancel`.

use cleveragents_application::DETERMINISTIC;
use cleveragents_application::plan_operations::{
    ApprovePlan, CancelPlan, CancellationState, PlanAnswerReport, PromptPlan, RejectPlan, ShowPlan,
    Verdict,
};
use cleveragents_domain::Code;

use crate::commands::turn_view::short;
use crate::commands::{can_confirm, confirm};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, command};

pub(super) fn approve(
    context: &Context,
    reference: Option<String>,
    answer: Option<String>,
) -> Result<Report, CommandError> {
    let response = context.call(ApprovePlan { reference, answer })?;
    Ok(view("plan approve", response))
}

pub(super) fn reject(
    context: &Context,
    reference: Option<String>,
    reason: Option<String>,
) -> Result<Report, CommandError> {
    let response = context.call(RejectPlan { reference, reason })?;
    Ok(view("plan reject", response))
}

fn view(command: &'static str, response: PlanAnswerReport) -> Report {
    let (title, message) = match response.verdict {
        Verdict::Approved => ("Approved", "Plan approved"),
        Verdict::Rejected => ("Rejected", "Plan rejected"),
    };
    let report = Report::new(command).panel(
        Panel::new(title)
            .row("Plan", Cell::Id(response.plan_id.to_string()))
            .row("Input", response.answered.clone())
            .row("Answer", response.answer.clone())
            .row("By", response.person.clone()),
    );
    let report = if response.queued {
        report.info("a worker continues the plan")
    } else {
        report.info(format!(
            "continue with `agents plan execute {}`",
            response.plan_id
        ))
    };
    let report = report.data(response).commands_at(&["/next_steps"]);
    report.ok(message)
}

pub(super) fn prompt(
    context: &Context,
    reference: String,
    guidance: String,
) -> Result<Report, CommandError> {
    let response = context.call(PromptPlan {
        reference,
        guidance,
    })?;
    let (added, decision) = (&response.guidance_added, &response.decision_created);
    let report = Report::new("plan prompt")
        .data(&response)
        .panel(
            Panel::new("Guidance Added")
                .row("Plan", Cell::Id(added.plan.to_string()))
                .row("Guidance", added.guidance.clone())
                .row("Phase", added.phase.as_str())
                .row("Pending", response.queue.pending),
        )
        .panel(
            Panel::new("Decision Created")
                .row("Type", decision.kind.as_str())
                .row("ID", Cell::Id(decision.id.to_string())),
        );
    let report = if response.is_readable {
        report.info(format!(
            "continue with `agents plan execute {}`",
            added.plan
        ))
    } else {
        report.warn(format!(
            "the guidance stays pending: `{DETERMINISTIC}` executes this plan and cannot read it"
        ))
    };
    Ok(report.ok("Guidance added"))
}

/// Returns the id of the current plan after the user confirmed that this plan is to be cancelled.
pub(super) fn confirm_cancel(context: &Context, yes: bool) -> Result<String, CommandError> {
    let plan = context.call(ShowPlan::default())?;
    let id = plan.plan_id.to_string();
    let mut lines = plan.description.lines().map(str::trim);
    let task = lines.find(|line| !line.is_empty()).unwrap_or(&plan.action);
    let task = short(task, 80);
    let command = format!("agents plan cancel {id}");
    if !yes && !can_confirm() {
        let message = format!("no plan was given; the current one is {id}: {task}");
        return Err(CommandError::new(Code::ConfirmationNeeded, message)
            .with_hint(format!("cancel it: `{command}`")));
    }
    confirm(&format!("Cancel plan {id}: {task}?"), yes)
        .map_err(|error| error.with_hint(format!("cancel it later: `{command}`")))?;
    Ok(id)
}

pub(super) fn cancel(
    context: &Context,
    reference: String,
    reason: String,
) -> Result<Report, CommandError> {
    let cancelled = context.call(CancelPlan { reference, reason })?;
    let report = Report::new("plan cancel").panel(
        Panel::new("Plan Cancelled")
            .row("Plan", Cell::Id(cancelled.plan_id.to_string()))
            .row("Reason", cancelled.reason.clone())
            .row("State", cancelled.stage.to_string())
            .row("Files in the sandbox", cancelled.sandbox.files_modified),
    );
    let report = match cancelled.recovery.first() {
        Some(first) => report.info(format!(
            "its changes stay in the sandbox: `{}`",
            command(first)
        )),
        None => report,
    };
    let message = match cancelled.state {
        CancellationState::Cancelled => "Plan cancelled",
        CancellationState::Cancelling => {
            "Cancellation requested; the process that runs the plan is stopping"
        }
    };
    let report = report.data(cancelled).commands_at(&["/recovery"]);
    Ok(report.ok(message))
}
