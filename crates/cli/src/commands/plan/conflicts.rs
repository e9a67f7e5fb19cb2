//! `plan conflicts`: conflicts between the child plans of a plan.

use cleveragents_application::plan_operations::{
    ConflictSide, PlanConflict, PlanConflicts, ShowConflicts,
};
use cleveragents_domain::PlanId;
use similar::TextDiff;

use super::diff::coloured_lines;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, command};

pub(super) fn run(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let shown = context.call(ShowConflicts { reference })?;
    let mut report = Report::new("plan conflicts");
    for conflict in &shown.conflicts {
        report = report.panel(panel(shown.plan_id, conflict));
        report = with_diff(report, conflict, "ours", conflict.ours.as_ref());
        report = with_diff(report, conflict, "theirs", conflict.theirs.as_ref());
    }
    let message = message(&shown);
    if !shown.conflicts.is_empty() && shown.unresolved == 0 {
        report = report.info(format!(
            "continue with `agents plan execute {}`",
            shown.plan_id
        ));
    }
    Ok(report.data(shown).commands_at(&["/next_steps"]).ok(message))
}

fn message(shown: &PlanConflicts) -> String {
    match (shown.conflicts.len(), shown.unresolved) {
        (0, _) => "The plan has no conflicts between child plans".to_owned(),
        (count, 0) => format!("{} resolved", counted(count, "conflict")),
        (_, open) => format!("{} to resolve", counted(open, "conflict")),
    }
}

/// Panel of a conflict, with the commands that resolve it.
fn panel(plan: PlanId, conflict: &PlanConflict) -> Panel {
    let child = &conflict.child;
    let mut panel = Panel::new(format!("Conflict in {}", conflict.label))
        .row("Child plan", format!("{}, {}", child.number, child.title))
        .row("Reason", conflict.explanation.clone())
        .row("Base", side_text(conflict.base.as_ref()))
        .row("Ours", side_text(conflict.ours.as_ref()))
        .row("Theirs", side_text(conflict.theirs.as_ref()));
    if let Some(resolution) = conflict.resolution {
        return panel.row("Resolved with", Cell::Good(resolution.as_str().to_owned()));
    }
    let [ours, theirs] = conflict.resolve_operations(plan);
    panel = panel
        .row("Take ours", command(&ours))
        .row("Take theirs", command(&theirs));
    panel
}

fn side_text(side: Option<&ConflictSide>) -> String {
    match side {
        None => "does not exist".to_owned(),
        Some(side) => {
            let kind = match (side.mode.as_str(), &side.text) {
                (mode, _) if mode.starts_with("04") => return "folder".to_owned(),
                (mode, _) if mode.starts_with("12") => "link",
                (_, Some(_)) => "text",
                (_, None) => "binary",
            };
            format!("{kind}, {}, mode {}", counted_bytes(side.size), side.mode)
        }
    }
}

fn counted_bytes(size: u64) -> String {
    Cell::Bytes(size).text()
}

/// Adds the difference between the base and one side, if both are text.
fn with_diff(
    report: Report,
    conflict: &PlanConflict,
    name: &str,
    side: Option<&ConflictSide>,
) -> Report {
    let text = |side: Option<&ConflictSide>| match side {
        None => Some(String::new()),
        Some(side) => side.text.clone(),
    };
    let (Some(base), Some(changed)) = (text(conflict.base.as_ref()), text(side)) else {
        return report;
    };
    if conflict.base.is_none() && side.is_none() {
        return report;
    }
    let diff = TextDiff::from_lines(&base, &changed)
        .unified_diff()
        .header(
            &format!("base {}", conflict.label),
            &format!("{name} {}", conflict.label),
        )
        .to_string();
    if diff.is_empty() {
        return report;
    }
    let report = report.lines(coloured_lines(&diff));
    if side.is_some_and(|side| side.is_shortened) {
        report.info(format!("only the beginning of {name} is shown"))
    } else {
        report
    }
}
