//! `sandbox apply`.

use cleveragents_application::{ApplyRequest, ApplyResult, SandboxError, SandboxService};
use cleveragents_sandbox::apply::Conflict;
use cleveragents_sandbox::{BranchUpdate, Error, SCRIPT};
use serde_json::json;

use super::open;
use crate::arguments::{ApplyAs, SandboxApply};
use crate::commands::counted;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    service: &SandboxService,
    arguments: &SandboxApply,
) -> Result<Report, CommandError> {
    if let Some(message) = &arguments.message
        && message.trim().is_empty()
    {
        return Err(CommandError::usage("the message is empty")
            .with_hint("describe the change, or omit --message"));
    }
    let mut sandbox = open(service, &arguments.sandbox.reference)?;
    let name = sandbox.view.sandbox.name.clone();
    let request = ApplyRequest {
        landing: match arguments.form {
            ApplyAs::Commit => BranchUpdate::Commit,
            ApplyAs::Merge => BranchUpdate::Merge,
        },
        branch: arguments.branch.clone(),
        message: arguments.message.clone(),
        keeps_files: false,
    };
    let outcome = if arguments.dry_run {
        service.preview(&mut sandbox, &request)
    } else {
        service.apply(sandbox, &request)
    };
    match outcome {
        Ok(applied) => Ok(report(&name, &applied, arguments.dry_run)),
        Err(SandboxError::Files(Error::Conflicts(conflicts))) => {
            Ok(conflict_report(&name, &conflicts))
        }
        Err(error) => Err(error.into()),
    }
}

fn report(name: &str, applied: &ApplyResult, is_preview: bool) -> Report {
    let mut table = Table::with_columns("Changes", ["Part", "Operation", "Path"]);
    let mut count = 0;
    let mut left_out = 0;
    let mut report = Report::new("sandbox apply").data(json!({
        "sandbox": name,
        "dry_run": is_preview,
        "parts": applied.parts,
    }));
    for part in &applied.parts {
        for file in &part.files {
            count += 1;
            table = table.row([
                Cell::from(part.alias.clone()),
                match file.operation {
                    "create" => Cell::Good(file.operation.to_owned()),
                    "delete" => Cell::Bad(file.operation.to_owned()),
                    other => Cell::Warn(other.to_owned()),
                },
                Cell::from(file.path.to_string()),
            ]);
        }
        if part.database {
            count += 1;
            table = table.row([
                Cell::from(part.alias.clone()),
                Cell::Warn("replace".to_owned()),
                Cell::from("the content of the database"),
            ]);
        }
        count += usize::from(!part.statements.is_empty());
        for statement in &part.statements {
            let rows = statement.rows.map(|rows| counted(rows, "row"));
            table = table.row([
                Cell::from(part.alias.clone()),
                Cell::Warn(statement.word.clone()),
                Cell::from(match rows {
                    Some(rows) => format!("{SCRIPT}, line {}: {rows}", statement.line),
                    None => format!("{SCRIPT}, line {}", statement.line),
                }),
            ]);
        }
        left_out += part.left_out.len();
    }
    report = report.table(table);
    for part in &applied.parts {
        if let Some(commit) = &part.commit {
            let branch = commit
                .branch
                .as_deref()
                .map(|branch| branch.trim_start_matches("refs/heads/").to_owned());
            report = report.panel(
                Panel::new("Commit")
                    .row("Part", part.alias.clone())
                    .row("Branch", branch)
                    .row(
                        "From",
                        Cell::Id(commit.old.get(..10).unwrap_or_default().to_owned()),
                    )
                    .row(
                        "To",
                        commit
                            .new
                            .as_deref()
                            .and_then(|new| new.get(..10))
                            .map(|new| Cell::Id(new.to_owned())),
                    )
                    .row(
                        "Kind",
                        match (commit.is_merge, commit.branch_moved) {
                            _ if commit.is_new_branch => "one commit on a new branch",
                            (true, _) => "a merge commit",
                            (false, true) => "one commit, merged with newer commits",
                            (false, false) => "one commit",
                        },
                    ),
            );
        }
    }
    if left_out > 0 {
        report = report.info(format!(
            "not applied, because git-ignored or in a protected folder: {}",
            counted(left_out, "changed path")
        ));
    }
    match (count, is_preview) {
        (0, true) => report.ok("Nothing would change"),
        (0, false) => report.ok(format!("No changes; sandbox `{name}` is closed")),
        (count, true) => report.ok(format!(
            "{} would change; nothing changed",
            counted(count, "path")
        )),
        (count, false) => report.ok(format!(
            "Sandbox `{name}` applied: {} changed",
            counted(count, "path")
        )),
    }
}

fn conflict_report(name: &str, conflicts: &[Conflict]) -> Report {
    let mut table = Table::with_columns("Conflicts", ["Part", "Path", "Why"]);
    let mut sides = String::new();
    for conflict in conflicts {
        table = table.row([
            Cell::from(conflict.alias.clone()),
            Cell::Bad(conflict.path.to_string()),
            Cell::from(conflict.reason.clone()),
        ]);
        sides.push_str(&both_sides(conflict));
    }
    let code = cleveragents_domain::Code::ApplyConflict;
    let message = format!(
        "{} changed on both sides; nothing was applied",
        counted(conflicts.len(), "path")
    );
    let hint = format!(
        "commit, stash or undo your changes, or roll back the sandbox, then run `agents sandbox apply {name}` again"
    );
    let report = Report::new("sandbox apply")
        .data(json!({"sandbox": name, "conflicts": conflicts}))
        .table(table)
        .failed(code, message, hint);
    if sides.is_empty() {
        report
    } else {
        report.text(sides)
    }
}

/// Both sides of a conflict, each as a short diff against the common base.
fn both_sides(conflict: &Conflict) -> String {
    let text = |side: &Option<cleveragents_sandbox::apply::Side>| {
        side.as_ref()
            .map_or(Some(String::new()), |side| side.text.clone())
    };
    let (Some(base), Some(yours), Some(sandbox)) = (
        text(&conflict.base),
        text(&conflict.yours),
        text(&conflict.sandbox),
    ) else {
        return format!(
            "--- {}: binary, the sides are not shown\n",
            conflict.label()
        );
    };
    let mut diffs = String::new();
    for (name, side) in [("yours", &yours), ("sandbox", &sandbox)] {
        let changes = similar::TextDiff::from_lines(&base, side);
        let unified = changes
            .unified_diff()
            .context_radius(2)
            .header(
                &format!("base/{}", conflict.label()),
                &format!("{name}/{}", conflict.label()),
            )
            .to_string();
        diffs.push_str(&unified);
    }
    diffs
}
