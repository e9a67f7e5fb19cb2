//! `plan diff` and `plan artifacts`: changes of a plan.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cleveragents_application::ChangeStatus;
use cleveragents_application::plan_operations::{
    ChangedFile, IncompleteChanges, ListArtifacts, PlanArtifacts, PlanDiff, ShowPlanDiff,
};

use super::{by_commits, short_commit};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Format, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    reference: Option<String>,
    stat: bool,
    correction: bool,
) -> Result<Report, CommandError> {
    let request = ShowPlanDiff {
        reference,
        stat,
        correction,
    };
    let diff = context.call(request)?;
    if let Some(patch) = &diff.patch
        && context.printer.format() == Format::Plain
    {
        let mut text = match heading(&diff) {
            Some(heading) => format!("{heading}\n\n").into_bytes(),
            None => Vec::new(),
        };
        text.extend(patch_bytes(&diff, patch)?);
        return Ok(Report::printed("plan diff", text));
    }
    let (summary, risk) = (&diff.diff_summary, &diff.risk_assessment);
    let mut report = Report::new("plan diff")
        .data(&diff)
        .panel(
            Panel::new(heading(&diff).unwrap_or_else(|| "Diff Summary".to_owned()))
                .row("Plan", Cell::Id(summary.plan.to_string()))
                .row("Project", summary.project.clone())
                .row("Files changed", summary.files_changed)
                .row("Insertions", summary.insertions)
                .row("Deletions", summary.deletions)
                .row("Net change", summary.net_change.clone()),
        )
        .table(files(&diff.files));
    if let Some(patch) = diff.patch.as_deref().filter(|patch| !patch.is_empty()) {
        report = report.lines(coloured_lines(patch));
    }
    report = report
        .panel(
            Panel::new("Risk Assessment")
                .row("Test coverage", risk.test_coverage.clone())
                .row(
                    "Validations",
                    format!(
                        "{} of {} passed",
                        risk.validations.passed, risk.validations.ran
                    ),
                ),
        )
        .ok("Diff generated");
    if let Some(note) = made_by_commands(&diff.made_by_commands) {
        report = report.info(note);
    }
    if diff.by_products > 0 {
        report = report.info(format!(
            "{} excluded: by-products and git-ignored files stay in the sandbox",
            counted(diff.by_products, "path")
        ));
    }
    Ok(with_note(report, diff.incomplete))
}

/// Heading of the diff of an applied plan: `Applied as commit 1a2b3c4 on main`. `git apply` ignores it.
fn heading(diff: &PlanDiff) -> Option<String> {
    if diff.applied.is_empty() {
        return None;
    }
    let commits: Vec<String> = diff
        .applied
        .iter()
        .map(|applied| {
            let branch = applied.branch.as_ref();
            let branch = branch.map_or_else(String::new, |branch| {
                let name = branch.strip_prefix("refs/heads/").unwrap_or(branch);
                format!(" on {name}")
            });
            format!("{}{branch}", short_commit(&applied.commit))
        })
        .collect();
    let noun = if commits.len() == 1 {
        "commit"
    } else {
        "commits"
    };
    let undone = diff.undone.as_ref().map_or_else(String::new, |undone| {
        format!(", undone{}", by_commits(&undone.commits))
    });
    Some(format!("Applied as {noun} {}{undone}", commits.join(", ")))
}

/// Bytes of the patch, which may not be UTF-8.
fn patch_bytes(diff: &PlanDiff, patch: &str) -> Result<Vec<u8>, CommandError> {
    let Some(encoded) = &diff.patch_base64 else {
        return Ok(patch.as_bytes().to_vec());
    };
    BASE64.decode(encoded).map_err(|error| {
        CommandError::internal("the bytes of the patch cannot be read").caused_by(&error)
    })
}

/// Adds a note if the diff is incomplete.
fn with_note(report: Report, incomplete: Option<IncompleteChanges>) -> Report {
    match incomplete {
        None => report,
        Some(IncompleteChanges::NoSandbox) => {
            report.info("the plan has no sandbox: no step was executed yet")
        }
        Some(IncompleteChanges::InUse) => report
            .info("a process is working in its sandbox: there may be more changes than recorded"),
        Some(IncompleteChanges::PlanOver) => report.info(
            "the plan is finished: its sandbox was removed, so the changed lines are not available",
        ),
        Some(IncompleteChanges::SandboxClosed) => {
            report.info("its sandbox is closed, so the changed lines are not available")
        }
    }
}

/// Note that lists new files that no file tool wrote; `None` without such files.
pub(in crate::commands) fn made_by_commands(paths: &[String]) -> Option<String> {
    const MAX_LISTED: usize = 10;
    if paths.is_empty() {
        return None;
    }
    let more = match paths.len().checked_sub(MAX_LISTED) {
        Some(more) if more > 0 => format!(" and {more} more"),
        _ => String::new(),
    };
    let listed = paths[..paths.len().min(MAX_LISTED)].join(", ");
    Some(format!(
        "created by commands, not by file tools: {listed}{more}"
    ))
}

pub(super) fn coloured_lines(patch: &str) -> Vec<Vec<Cell>> {
    patch
        .lines()
        .map(|line| {
            // A tab would be printed as an escape sequence.
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

fn status_cell(status: ChangeStatus) -> Cell {
    let text = status.as_str().to_owned();
    match status {
        ChangeStatus::Added => Cell::Good(text),
        ChangeStatus::Deleted => Cell::Bad(text),
        ChangeStatus::Modified | ChangeStatus::Mode => Cell::Warn(text),
    }
}

/// Path of a file, with the name of its part as prefix if the sandbox has several parts.
fn display_path<'a>(mut parts: impl Iterator<Item = &'a str>, part: &str, path: &str) -> String {
    if parts.any(|other| other != part) {
        format!("{part}/{path}")
    } else {
        path.to_owned()
    }
}

fn files(files: &[ChangedFile]) -> Table {
    let parts = || files.iter().map(|file| file.part.as_str());
    Table::with_columns("Files", ["Path", "Change", "Status"])
        .empty("Nothing changed")
        .rows(files.iter().map(|file| {
            vec![
                display_path(parts(), &file.part, &file.path).into(),
                match &file.change {
                    Some(lines) => Cell::Text(lines.clone()),
                    None if file.is_folder => Cell::Muted("folder".to_owned()),
                    None => Cell::Bytes(file.size),
                },
                status_cell(file.status),
            ]
        }))
}

pub(super) fn artifacts(
    context: &Context,
    reference: Option<String>,
) -> Result<Report, CommandError> {
    let listed = context.call(ListArtifacts { reference })?;
    let summary = &listed.summary;
    let report = Report::new("plan artifacts")
        .data(&listed)
        .table(artifact_table(&listed))
        .panel(
            Panel::new("Summary")
                .row("Total", summary.total)
                .row("Writes", summary.writes)
                .row("Edits", summary.edits)
                .row("Deletes", summary.deletes)
                .row("Total size", Cell::Bytes(summary.total_size)),
        )
        .ok(format!("{} listed", counted(summary.total, "artifact")));
    Ok(with_note(report, listed.incomplete))
}

fn artifact_table(listed: &PlanArtifacts) -> Table {
    let artifacts = &listed.artifacts;
    let parts = || artifacts.iter().map(|artifact| artifact.part.as_str());
    Table::with_columns("Artifacts", ["Path", "Type"])
        .column("Size", Align::Right)
        .column("Change", Align::Right)
        .empty("No artifacts")
        .rows(artifacts.iter().map(|artifact| {
            vec![
                display_path(parts(), &artifact.part, &artifact.path).into(),
                artifact.kind.as_str().into(),
                Cell::Bytes(artifact.size),
                artifact.change.clone().into(),
            ]
        }))
}
