//! `plan diff` and `plan artifacts`: what a plan changes.

use cleveragents_application::{ChangeStatus, FileChange, PlanBook, PlanChanges};
use cleveragents_domain::Plan;
use serde_json::{Value, json};

use super::projects;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Format, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    book: &PlanBook,
    plan: &Plan,
    is_stat: bool,
) -> Result<Report, CommandError> {
    let changes = book.changes(plan)?;
    let patch = changes.patch.as_deref().filter(|_| !is_stat);
    if let Some(patch) = patch
        && context.printer.format() == Format::Plain
    {
        return Ok(Report::printed("plan diff", patch));
    }
    let validations = book.validations(plan.id)?;
    let passed = validations
        .iter()
        .filter(|found| found.result.passed)
        .count();
    let knows_lines = changes.patch.is_some();
    let net = net(&changes);
    let report = Report::new("plan diff")
        .data(json!({
            "diff_summary": {
                "plan": plan.id,
                "project": projects(plan),
                "files_changed": changes.file_count(),
                "insertions": knows_lines.then(|| changes.insertions()),
                "deletions": knows_lines.then(|| changes.deletions()),
                "net_change": knows_lines.then_some(&net),
            },
            "files": changes.files.iter().map(|file| json!({
                "part": file.part, "path": file.path, "change": file.lines(),
                "status": file.status, "is_folder": file.is_folder, "size": file.size,
                "is_made_by_command": file.is_made_by_command,
            })).collect::<Vec<_>>(),
            "made_by_commands": changes.made_by_commands(),
            "by_products": changes.by_products,
            "patch_preview": patch.map(|_| preview(&changes)),
            "patch": patch.map(String::from_utf8_lossy),
            "risk_assessment": {
                "api_compatibility": Value::Null,
                "test_coverage": tests(&changes),
                "breaking_changes": Value::Null,
                "validations": {"ran": validations.len(), "passed": passed},
            },
            "is_moving": changes.is_moving,
        }))
        .panel(
            Panel::new("Diff Summary")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Project", projects(plan))
                .row("Files changed", changes.file_count())
                .row("Insertions", knows_lines.then(|| changes.insertions()))
                .row("Deletions", knows_lines.then(|| changes.deletions()))
                .row("Net change", knows_lines.then_some(net)),
        )
        .table(files(&changes));
    let report = match patch {
        Some(patch) if !patch.is_empty() => report.lines(painted(patch)),
        _ => report,
    };
    let report = report
        .panel(
            Panel::new("Risk Assessment")
                .row("Test coverage", tests(&changes))
                .row(
                    "Validations",
                    format!("{passed} of {} passed", validations.len()),
                ),
        )
        .ok("Diff generated");
    Ok(with_notes(with_left_out(report, &changes), plan, &changes))
}

/// Names what a person should look at before an apply, and what an apply leaves behind.
fn with_left_out(report: Report, changes: &PlanChanges) -> Report {
    let report = match made_by_commands(changes) {
        Some(note) => report.info(note),
        None => report,
    };
    match changes.by_products {
        0 => report,
        count => report.info(format!(
            "{} left out: by-products and files that git ignores stay in the sandbox",
            counted(count, "path")
        )),
    }
}

/// Says what the reader might miss.
fn with_notes(report: Report, plan: &Plan, changes: &PlanChanges) -> Report {
    if !changes.has_sandbox {
        return report.info("the plan has no sandbox: nothing was carried out yet");
    }
    if changes.is_moving {
        return report.info("somebody works in its sandbox: there may be more than is recorded");
    }
    if changes.patch.is_none() && !changes.files.is_empty() {
        let why = if plan.stage.is_terminal() {
            "the plan is over"
        } else {
            "its sandbox is not in use"
        };
        return report.info(format!(
            "{why}: the lines themselves are gone with the sandbox"
        ));
    }
    report
}

/// Names new files that no file tool wrote; nothing when there are none.
pub(in crate::commands) fn made_by_commands(changes: &PlanChanges) -> Option<String> {
    const SHOWN: usize = 10;
    let made = changes.made_by_commands();
    if made.is_empty() {
        return None;
    }
    let more = match made.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!(" and {more} more"),
        _ => String::new(),
    };
    let shown = made[..made.len().min(SHOWN)].join(", ");
    Some(format!(
        "made by commands, not by file tools: {shown}{more}"
    ))
}

/// A patch with the colours people know.
fn painted(patch: &[u8]) -> Vec<Vec<Cell>> {
    let text = String::from_utf8_lossy(patch);
    text.lines()
        .map(|line| {
            // A tab would be shown as an escape on a line of its own.
            let line = line.replace('\t', "    ");
            vec![match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Cell::Muted(line),
                [b'+', ..] => Cell::Good(line),
                [b'-', ..] => Cell::Bad(line),
                [b'@', b'@', ..] => Cell::Id(line),
                [b' ', ..] => Cell::Text(line),
                _ => Cell::Muted(line),
            }]
        })
        .collect()
}

fn net(changes: &PlanChanges) -> String {
    let (more, fewer) = (changes.insertions(), changes.deletions());
    let (sign, lines) = match more.checked_sub(fewer) {
        Some(lines) => ('+', lines),
        None => ('-', fewer - more),
    };
    format!("{sign}{}", counted(lines, "line"))
}

/// What is known about tests: whether any changed along.
fn tests(changes: &PlanChanges) -> Option<String> {
    (!changes.files.is_empty()).then(|| match changes.tests() {
        0 => "no test file changed".to_owned(),
        count => format!("{} changed", counted(count, "test file")),
    })
}

fn status_cell(status: ChangeStatus) -> Cell {
    let text = status.as_str().to_owned();
    match status {
        ChangeStatus::Added => Cell::Good(text),
        ChangeStatus::Deleted => Cell::Bad(text),
        ChangeStatus::Modified | ChangeStatus::Mode => Cell::Warn(text),
    }
}

/// A path; in a sandbox of several parts it begins with the part.
fn place(changes: &PlanChanges, file: &FileChange) -> String {
    let is_several = changes.files.iter().any(|other| other.part != file.part);
    if is_several {
        format!("{}/{}", file.part, file.path)
    } else {
        file.path.clone()
    }
}

fn files(changes: &PlanChanges) -> Table {
    Table::with_columns("Files", ["Path", "Change", "Status"])
        .empty("Nothing changed")
        .rows(changes.files.iter().map(|file| {
            vec![
                place(changes, file).into(),
                match file.lines() {
                    Some(lines) => Cell::Text(lines),
                    None if file.is_folder => Cell::Muted("folder".to_owned()),
                    None => Cell::Bytes(file.size),
                },
                status_cell(file.status),
            ]
        }))
}

fn preview(changes: &PlanChanges) -> Vec<Value> {
    changes
        .files
        .iter()
        .filter(|file| !file.hunks.is_empty())
        .map(|file| json!({"part": file.part, "file": file.path, "hunks": file.hunks}))
        .collect()
}

/// What was done to a path: `write`, `edit` or `delete`.
const fn deed(status: ChangeStatus) -> &'static str {
    match status {
        ChangeStatus::Added => "write",
        ChangeStatus::Modified | ChangeStatus::Mode => "edit",
        ChangeStatus::Deleted => "delete",
    }
}

pub(super) fn artifacts(book: &PlanBook, plan: &Plan) -> Result<Report, CommandError> {
    let mut changes = book.changes(plan)?;
    // A folder is there for what is in it.
    changes.files.retain(|file| !file.is_folder);
    let count = |wanted: &str| {
        let such = |file: &&FileChange| deed(file.status) == wanted;
        changes.files.iter().filter(such).count()
    };
    let total_size: u64 = changes
        .files
        .iter()
        .filter(|file| file.status != ChangeStatus::Deleted)
        .map(|file| file.size)
        .sum();
    let table = Table::with_columns("Artifacts", ["Path", "Type"])
        .column("Size", Align::Right)
        .column("Change", Align::Right)
        .empty("Nothing was written")
        .rows(changes.files.iter().map(|file| {
            vec![
                place(&changes, file).into(),
                deed(file.status).into(),
                Cell::Bytes(file.size),
                file.lines().into(),
            ]
        }));
    let name = plan.name.clone().unwrap_or_else(|| plan.id.to_string());
    let report = Report::new("plan artifacts")
        .data(json!({
            "plan_id": plan.id,
            "artifacts": changes.files.iter().map(|file| json!({
                "part": file.part, "path": file.path, "type": deed(file.status),
                "size": file.size, "change": file.lines(), "child_plan": Value::Null,
            })).collect::<Vec<_>>(),
            "summary": {
                "total": changes.files.len(), "writes": count("write"), "edits": count("edit"),
                "deletes": count("delete"), "total_size": total_size,
            },
            "by_plan": {name: changes.files.len()},
        }))
        .table(table)
        .panel(
            Panel::new("Summary")
                .row("Total", changes.files.len())
                .row("Writes", count("write"))
                .row("Edits", count("edit"))
                .row("Deletes", count("delete"))
                .row("Total size", Cell::Bytes(total_size)),
        )
        .ok(format!(
            "{} listed",
            counted(changes.files.len(), "artifact")
        ));
    Ok(with_notes(report, plan, &changes))
}
