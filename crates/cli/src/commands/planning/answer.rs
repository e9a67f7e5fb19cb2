//! `plan approve|reject|prompt|cancel`: people have a say.

use cleveragents_application::{DETERMINISTIC, Queued};
use cleveragents_domain::{Plan, Timestamp};
use serde_json::json;

use super::Desk;
use super::run::next_steps;
use crate::arguments::PlanChoice;
use crate::output::{Cell, CommandError, Panel, Report};

/// The plan that is meant: the one named, or the only one that waits.
fn waiting(desk: &Desk<'_>, choice: &PlanChoice) -> Result<Plan, CommandError> {
    match &choice.reference {
        Some(reference) => Ok(desk.book.resolve(reference)?),
        None => Ok(desk.book.only_waiting()?),
    }
}

pub(super) fn answer(
    desk: &Desk<'_>,
    choice: &PlanChoice,
    is_yes: bool,
    text: Option<&str>,
) -> Result<Report, CommandError> {
    let before = waiting(desk, choice)?;
    let what = before
        .waiting
        .as_ref()
        .map(cleveragents_domain::Waiting::sentence);
    let person = desk.context.person();
    let plan = desk.service.answer(before.id, is_yes, text, &person)?;
    let (command, word) = if is_yes {
        ("plan approve", "approved")
    } else {
        ("plan reject", "rejected")
    };
    let next = next_steps(&plan);
    // A server that drove it until it had to wait drives it on when it is asked to.
    let is_queued = Queued::of(&plan).is_some_and(|how| how.served.is_none());
    let report = Report::new(command)
        .data(json!({
            "plan_id": plan.id, "phase": plan.stage.phase(), "state": plan.shown_state(),
            "answered": what, "verdict": word, "answer": text, "person": person,
            "queued": is_queued, "next_steps": next,
        }))
        .panel(
            Panel::new(if is_yes { "Approved" } else { "Rejected" })
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("What", what)
                .row("Answer", text.map(str::to_owned))
                .row("By", person),
        );
    let report = if is_queued {
        super::worker::ensure_worker(desk.context)?;
        report.info("a worker goes on with it")
    } else {
        report.info(format!("go on with `agents plan execute {}`", plan.id))
    };
    Ok(report.ok(format!("Plan {word}")))
}

pub(super) fn prompt(desk: &Desk<'_>, plan: &Plan, guidance: &str) -> Result<Report, CommandError> {
    let before = plan.shown_state();
    let (plan, decision) = desk.service.prompt(plan.id, guidance)?;
    let said = desk.book.guidance(plan.id)?;
    let pending = said.iter().filter(|one| one.applied_at.is_none()).count();
    let report = Report::new("plan prompt")
        .data(json!({
            "guidance_added": {
                "plan": plan.id, "guidance": guidance.trim(), "scope": "next step",
                "phase": plan.stage.phase(),
                "state_transition": format!("{before} -> {}", plan.shown_state()),
            },
            "decision_created": {
                "type": decision.kind.as_str(), "id": decision.id, "parent": decision.parent,
            },
            "queue": {"pending": pending, "applied": said.len() - pending},
        }))
        .panel(
            Panel::new("Guidance Added")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Guidance", guidance.trim().to_owned())
                .row("Phase", plan.stage.phase().as_str())
                .row("Pending", pending),
        )
        .panel(
            Panel::new("Decision Created")
                .row("Type", decision.kind.as_str())
                .row("ID", Cell::Id(decision.id.to_string())),
        );
    let report = if plan.made_with.actors.execution == DETERMINISTIC {
        report.warn(format!(
            "`{DETERMINISTIC}` executes this plan and cannot read guidance: it stays pending"
        ))
    } else {
        report.info(format!("go on with `agents plan execute {}`", plan.id))
    };
    Ok(report.ok("Guidance added"))
}

pub(super) fn cancel(desk: &Desk<'_>, plan: &Plan, reason: &str) -> Result<Report, CommandError> {
    let is_over = desk.service.cancel(plan.id, reason)?;
    let plan = desk.book.get(plan.id)?;
    let sandbox = desk.book.sandbox(&plan)?;
    let files = sandbox
        .as_ref()
        .map(|_| desk.book.recorded_changes(&plan))
        .transpose()?;
    let files = files.map_or(0, |changes| changes.files.len());
    let checkpoints = sandbox.as_ref().map_or(0, |view| view.checkpoints.len());
    let state = sandbox.as_ref().map(|view| view.sandbox.state.as_str());
    let recovery: Vec<String> = plan
        .sandbox
        .iter()
        .filter(|_| sandbox.is_some())
        .flat_map(|name| {
            [
                format!("agents sandbox diff {name}"),
                format!("agents sandbox discard {name}"),
            ]
        })
        .collect();
    let report = Report::new("plan cancel")
        .data(json!({
            "plan_id": plan.id, "phase": plan.stage.phase(), "reason": reason,
            "state": if is_over { plan.stage.state() } else { "cancelling" },
            "cancelled_at": if is_over { plan.completed_at } else { Some(Timestamp::now()) },
            "sandbox": {
                "status": if state == Some("active") { Some("preserved") } else { state },
                "files_modified": files, "checkpoints": checkpoints,
            },
            "child_plans": {"completed": 0, "cancelled": 0, "artifacts_preserved": true},
            "recovery": recovery,
        }))
        .panel(
            Panel::new("Plan Cancelled")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Reason", reason.to_owned())
                .row("State", plan.stage.to_string())
                .row("Files in the sandbox", files),
        );
    let report = match recovery.first() {
        Some(first) => report.info(format!("its work is kept: `{first}`")),
        None => report,
    };
    Ok(if is_over {
        report.ok("Plan cancelled")
    } else {
        report.ok("Whoever works on the plan was asked to stop")
    })
}
