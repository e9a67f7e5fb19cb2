//! `plan rollback|redo|revert`.

use cleveragents_application::plan_operations::{
    RedoRollback, RevertPlan, RollBackPlan, RollbackReport,
};
use cleveragents_domain::PlanPhase;

use crate::commands::plan::list_checkpoints;
use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn rollback(
    context: &Context,
    reference: String,
    checkpoint: Option<String>,
    is_preview: bool,
    yes: bool,
) -> Result<Report, CommandError> {
    let Some(checkpoint) = checkpoint else {
        return list_checkpoints(context, Some(reference));
    };
    let request = RollBackPlan {
        reference,
        checkpoint,
        preview: true,
        yes: false,
    };
    if is_preview {
        return Ok(preview(context.call(request)?));
    }
    if !yes {
        let preview = context.call(request.clone())?;
        let (summary, impact) = (&preview.rollback_summary, &preview.impact);
        let question = format!(
            "Roll plan {} back to {}: {}, {}, {}, {}?",
            summary.plan,
            summary.checkpoint.as_deref().unwrap_or_default(),
            counted(summary.files_reverted, "file"),
            counted(impact.steps_after_cp, "step"),
            counted(impact.decisions_after_cp, "decision"),
            counted(impact.tool_calls_after_cp, "call")
        );
        confirm(&question, yes)?;
    }
    let result = context.call(RollBackPlan {
        preview: false,
        yes: true,
        ..request
    })?;
    let plan = result.rollback_summary.plan;
    Ok(view("plan rollback", "Rollback Complete", result)
        .info(format!("undo the rollback with `agents plan redo {plan}`"))
        .ok("Plan rolled back"))
}

fn preview(preview: RollbackReport) -> Report {
    let (summary, impact) = (&preview.rollback_summary, &preview.impact);
    Report::new("plan rollback")
        .panel(
            Panel::new("Rollback Preview")
                .row("Plan", Cell::Id(summary.plan.to_string()))
                .row("Checkpoint", summary.checkpoint.clone())
                .row("Label", summary.label.clone())
                .row("Files", preview.changes_reverted.join(", "))
                .row("Steps", impact.steps_after_cp)
                .row("Decisions", impact.decisions_after_cp)
                .row("Tool calls", impact.tool_calls_after_cp),
        )
        .data(preview)
        .ok("Nothing changed")
}

pub(super) fn redo(context: &Context, reference: String) -> Result<Report, CommandError> {
    let result = context.call(RedoRollback { reference })?;
    Ok(view("plan redo", "Redo Complete", result).ok("Rollback undone"))
}

fn view(command: &'static str, title: &'static str, result: RollbackReport) -> Report {
    let (summary, impact) = (&result.rollback_summary, &result.impact);
    let plan = summary.plan;
    let restored = summary
        .checkpoint
        .clone()
        .unwrap_or_else(|| "the state before the correction".to_owned());
    let state = result.post_rollback_state.as_ref();
    Report::new(command)
        .panel(
            Panel::new(title)
                .row("Plan", Cell::Id(plan.to_string()))
                .row("Restored", restored)
                .row("Label", summary.label.clone())
                .row("Files", summary.files_reverted)
                .row(
                    "State",
                    state.map(|stage| format!("{}/{}", stage.phase, stage.state)),
                ),
        )
        .panel(
            Panel::new("Side Effects")
                .row("Steps", impact.steps_after_cp)
                .row("Decisions", impact.decisions_after_cp)
                .row("Tool calls", impact.tool_calls_after_cp),
        )
        .data(result)
        .info(format!("continue with `agents plan execute {plan}`"))
}

pub(super) fn revert(
    context: &Context,
    reference: String,
    reason: String,
) -> Result<Report, CommandError> {
    let reverted = context.call(RevertPlan {
        reference,
        to_phase: PlanPhase::Strategize,
        reason,
    })?;
    let plan = reverted.plan_id;
    Ok(Report::new("plan revert")
        .panel(
            Panel::new("Plan Reverted")
                .row("Plan", Cell::Id(plan.to_string()))
                .row("From", reverted.from.to_string())
                .row("To", reverted.to.to_string())
                .row("Attempt", reverted.attempt)
                .row("Reversions left", reverted.reversions_left),
        )
        .data(reverted)
        .commands_at(&["/next_steps"])
        .info(format!(
            "create a new strategy with `agents plan execute {plan}`"
        ))
        .ok("Plan reverted"))
}
