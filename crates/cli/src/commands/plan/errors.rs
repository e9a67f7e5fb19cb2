//! `plan errors`: what went wrong for a plan, and what can be done about it.

use cleveragents_application::{PlanBook, PlanTrouble, Trouble, TroubleKind};
use cleveragents_domain::Plan;
use serde_json::{Value, json};

use super::state_cell;
use super::status::title;
use crate::commands::counted;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(book: &PlanBook, plan: Plan) -> Result<Report, CommandError> {
    let trouble = book.trouble(plan)?;
    let plan = &trouble.plan;
    let mut panel = Panel::new("Error Detail")
        .row("Plan", Cell::Id(plan.id.to_string()))
        .row("Phase", plan.stage.phase().as_str())
        .row("State", state_cell(plan));
    for (key, value) in trouble.error.iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        panel = panel.row(title(&key.replace('_', " ")), text);
    }
    let count = trouble.history.len() + usize::from(trouble.error.is_some());
    let mut report = Report::new("plan errors")
        .data(data(&trouble))
        .panel(panel)
        .table(history(&trouble.history));
    for one in &trouble.history {
        if let Some(text) = printed(one) {
            report = report.text(text);
        }
    }
    if !trouble.recovery.is_empty() {
        let commands = trouble
            .recovery
            .iter()
            .fold(Panel::new("Recovery"), |panel, command| {
                panel.row("Run", Cell::Id(command.clone()))
            });
        report = report.panel(commands);
    }
    Ok(report.ok(if count == 0 {
        "Nothing went wrong".to_owned()
    } else {
        format!("{} listed", counted(count, "error"))
    }))
}

/// What a check or a call printed, below the command that did.
fn printed(trouble: &Trouble) -> Option<String> {
    let output = trouble.output.as_deref()?;
    let ended = trouble
        .exit_code
        .map(|code| format!(" (exit code {code})"))
        .unwrap_or_default();
    let command = trouble
        .command
        .as_ref()
        .map(|command| format!("$ {command}\n"))
        .unwrap_or_default();
    Some(format!(
        "Output of {}{ended}:\n{command}{}",
        trouble.what,
        output.trim_end()
    ))
}

fn history(history: &[Trouble]) -> Table {
    Table::with_columns("History", ["Time", "Kind", "What", "Message"])
        .empty("No step or call failed")
        .rows(history.iter().map(|trouble| {
            let kind = trouble.kind.as_str().to_owned();
            vec![
                trouble.at.into(),
                match trouble.kind {
                    _ if trouble.is_undone => Cell::Muted(format!("{kind} (taken back)")),
                    TroubleKind::Step | TroubleKind::Call | TroubleKind::Refusal => Cell::Bad(kind),
                    TroubleKind::Recovery | TroubleKind::Validation => Cell::Warn(kind),
                },
                trouble.what.as_str().into(),
                trouble.message.as_str().into(),
            ]
        }))
}

fn data(trouble: &PlanTrouble) -> Value {
    let plan = &trouble.plan;
    json!({
        "plan_id": plan.id,
        "phase": plan.stage.phase(),
        "state": plan.shown_state(),
        "current": trouble.error,
        "history": trouble.history.iter().map(|one| json!({
            "kind": one.kind, "time": one.at, "what": one.what, "message": one.message,
            "id": one.id, "taken_back": one.is_undone,
            "command": one.command, "exit_code": one.exit_code, "output": one.output,
        })).collect::<Vec<_>>(),
        "recovery": trouble.recovery,
        "summary": {"total": trouble.history.len() + usize::from(trouble.error.is_some())},
    })
}
