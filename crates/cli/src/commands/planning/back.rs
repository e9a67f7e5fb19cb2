//! `plan rollback|redo|revert`: plans are taken back, and forward again.

use cleveragents_application::{PlanRolledBack, checkpoint_name};
use cleveragents_domain::Plan;
use serde_json::json;

use super::Desk;
use super::run::next_steps;
use crate::commands::confirm;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn rollback(
    desk: &Desk<'_>,
    plan: &Plan,
    checkpoint: Option<&str>,
    is_preview: bool,
    is_confirmed: bool,
) -> Result<Report, CommandError> {
    let Some(checkpoint) = checkpoint else {
        return crate::commands::plan::checkpoints(&desk.book, plan);
    };
    let preview = desk.service.preview_rollback(plan.id, checkpoint)?;
    let name = checkpoint_name(preview.checkpoint.number);
    if is_preview {
        return Ok(Report::new("plan rollback")
            .data(json!({
                "preview": true,
                "rollback_summary": {
                    "plan": plan.id, "checkpoint": name, "label": preview.checkpoint.label,
                    "files_reverted": preview.paths.len(),
                },
                "changes_reverted": preview.paths,
                "impact": {
                    "child_plans_invalidated": 0, "sandbox": plan.sandbox,
                    "decisions_after_cp": preview.undone.decisions,
                    "tool_calls_after_cp": preview.undone.calls,
                    "steps_after_cp": preview.undone.steps,
                },
            }))
            .panel(
                Panel::new("Rollback Preview")
                    .row("Plan", Cell::Id(plan.id.to_string()))
                    .row("Checkpoint", name)
                    .row("Label", preview.checkpoint.label.clone())
                    .row("Files", preview.paths.join(", "))
                    .row("Steps", preview.undone.steps)
                    .row("Decisions", preview.undone.decisions)
                    .row("Tool calls", preview.undone.calls),
            )
            .ok("Nothing was changed"));
    }
    confirm(
        desk.context,
        &format!(
            "Take plan {} back to {name}: {} files, {} steps, {} decisions, {} calls?",
            plan.id,
            preview.paths.len(),
            preview.undone.steps,
            preview.undone.decisions,
            preview.undone.calls
        ),
        is_confirmed,
    )?;
    let done = desk.service.rollback(plan.id, checkpoint)?;
    Ok(shown("plan rollback", "Rollback Complete", desk, &done)?
        .info(format!("take it back with `agents plan redo {}`", plan.id))
        .ok("Plan rolled back"))
}

pub(super) fn redo(desk: &Desk<'_>, plan: &Plan) -> Result<Report, CommandError> {
    let done = desk.service.redo(plan.id)?;
    Ok(shown("plan redo", "Redo Complete", desk, &done)?.ok("Rollback taken back"))
}

fn shown(
    command: &'static str,
    title: &'static str,
    desk: &Desk<'_>,
    done: &PlanRolledBack,
) -> Result<Report, CommandError> {
    let plan = &done.plan;
    let name = checkpoint_name(done.checkpoint.number);
    let left = desk.book.checkpoints(plan)?.len();
    Ok(Report::new(command)
        .data(json!({
            "rollback_summary": {
                "plan": plan.id, "checkpoint": name, "label": done.checkpoint.label,
                "files_reverted": done.paths.len(),
            },
            "changes_reverted": done.paths,
            "impact": {
                "child_plans_invalidated": 0, "sandbox": plan.sandbox,
                "decisions_after_cp": done.undone.decisions,
                "tool_calls_after_cp": done.undone.calls,
                "steps_after_cp": done.undone.steps,
            },
            "post_rollback_state": {
                "phase": plan.stage.phase(), "state": plan.shown_state(),
                "checkpoints_remaining": left,
            },
        }))
        .panel(
            Panel::new(title)
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Checkpoint", name)
                .row("Label", done.checkpoint.label.clone())
                .row("Files", done.paths.len())
                .row(
                    "State",
                    format!("{}/{}", plan.stage.phase(), plan.shown_state()),
                ),
        )
        .panel(
            Panel::new("Side Effects")
                .row("Steps", done.undone.steps)
                .row("Decisions", done.undone.decisions)
                .row("Tool calls", done.undone.calls),
        )
        .info(format!("go on with `agents plan execute {}`", plan.id)))
}

pub(super) fn revert(desk: &Desk<'_>, plan: &Plan, reason: &str) -> Result<Report, CommandError> {
    let from = plan.stage;
    let plan = desk.service.revert(plan.id, reason)?;
    let left = cleveragents_domain::REVERSION_LIMIT.saturating_sub(plan.reversions);
    Ok(Report::new("plan revert")
        .data(json!({
            "plan_id": plan.id, "from": from, "to": plan.stage, "reason": reason,
            "attempt": plan.attempt, "reversion_count": plan.reversions,
            "reversions_left": left, "next_steps": next_steps(&plan),
        }))
        .panel(
            Panel::new("Plan Reverted")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("From", from.to_string())
                .row("To", plan.stage.to_string())
                .row("Attempt", plan.attempt)
                .row("Reversions left", left),
        )
        .info(format!(
            "make a new strategy with `agents plan execute {}`",
            plan.id
        ))
        .ok("Plan reverted"))
}
