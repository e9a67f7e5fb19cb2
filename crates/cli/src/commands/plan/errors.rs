//! `plan errors`: errors of a plan and how to recover.

use cleveragents_application::PlanFailureKind;
use cleveragents_application::plan_operations::{ListPlanErrors, PlanErrorInfo};
use serde_json::Value;

use super::state_cell;
use super::status::title;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table, commands, write_recovery};

pub(super) fn run(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let mut errors = context.call(ListPlanErrors { reference })?;
    if let Some(current) = &mut errors.current {
        write_recovery(current);
    }
    let mut panel = Panel::new("Error Detail")
        .row("Plan", Cell::Id(errors.plan_id.to_string()))
        .row("Phase", errors.phase.as_str())
        .row("State", state_cell(errors.state));
    for (key, value) in errors.current.iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        panel = panel.row(title(&key.replace('_', " ")), text);
    }
    let mut report = Report::new("plan errors")
        .data(&errors)
        .commands_at(&["/recovery"])
        .panel(panel)
        .table(history(&errors.history));
    for error in &errors.history {
        if let Some(text) = output_text(error) {
            report = report.text(text);
        }
    }
    if !errors.recovery.is_empty() {
        let recovery = commands(&errors.recovery).into_iter();
        let panel = recovery.fold(Panel::new("Recovery"), |panel, command| {
            panel.row("Run", Cell::Id(command))
        });
        report = report.panel(panel);
    }
    Ok(report.ok(match errors.summary.total {
        0 => "No errors".to_owned(),
        count => format!("{} listed", counted(count, "error")),
    }))
}

/// Command and output of a failed validation or tool call.
fn output_text(error: &PlanErrorInfo) -> Option<String> {
    let output = error.output.as_deref()?;
    let exit_code = error
        .exit_code
        .map(|code| format!(" (exit code {code})"))
        .unwrap_or_default();
    let command = error
        .command
        .as_ref()
        .map(|command| format!("$ {command}\n"))
        .unwrap_or_default();
    Some(format!(
        "Output of {}{exit_code}:\n{command}{}",
        error.what,
        output.trim_end()
    ))
}

fn history(history: &[PlanErrorInfo]) -> Table {
    Table::with_columns("History", ["Time", "Kind", "Step or call", "Message"])
        .empty("No step or call failed")
        .rows(history.iter().map(|error| {
            let kind = error.kind.as_str().to_owned();
            vec![
                error.time.into(),
                match error.kind {
                    _ if error.is_rolled_back => Cell::Muted(format!("{kind} (rolled back)")),
                    PlanFailureKind::Step | PlanFailureKind::Call | PlanFailureKind::Refusal => {
                        Cell::Bad(kind)
                    }
                    PlanFailureKind::Recovery | PlanFailureKind::Validation => Cell::Warn(kind),
                },
                error.what.as_str().into(),
                error.message.as_str().into(),
            ]
        }))
}
