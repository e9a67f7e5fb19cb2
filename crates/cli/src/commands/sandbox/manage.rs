//! `sandbox create`, `list`, `show` and `discard`.

use cleveragents_application::{SandboxService, SandboxView};
use cleveragents_domain::Checkpoint;
use cleveragents_sandbox::{Base, DependencyPresence, Member, SCRIPT};
use serde_json::{Value, json};

use super::open;
use crate::arguments::{Deletion, SandboxCreate};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

fn sandbox_json(view: &SandboxView) -> Value {
    let members: Vec<Value> = view
        .members
        .iter()
        .zip(&view.stored)
        .map(|(member, stored)| {
            json!({
                "part": member.alias,
                "resource": stored.resource,
                "strategy": stored.strategy,
                "location": member.location.display().to_string(),
                "folder": member.root.display().to_string(),
                "read_only": member.is_read_only,
                "base": member.base,
            })
        })
        .collect();
    json!({
        "id": view.sandbox.id,
        "name": view.sandbox.name,
        "state": view.sandbox.state,
        "origin": view.sandbox.origin,
        "machine": view.sandbox.machine,
        "folder": view.folders().work_dir().display().to_string(),
        "changeset_id": view.sandbox.changeset,
        "entries": view.position,
        "parts": members,
        "result": view.sandbox.result.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()),
        "created": view.sandbox.created_at,
        "updated": view.sandbox.updated_at,
    })
}

pub(super) fn checkpoint_json(checkpoint: &Checkpoint) -> Value {
    json!({
        "number": checkpoint.number,
        "reason": checkpoint.reason,
        "label": checkpoint.label,
        "position": checkpoint.position,
        "target": checkpoint.target,
        "created": checkpoint.created_at,
    })
}

fn panel(view: &SandboxView) -> Panel {
    let folder = match view.members.as_slice() {
        [only] => only.root.clone(),
        _ => view.folders().work_dir(),
    };
    Panel::new("Sandbox")
        .row("Name", view.sandbox.name.clone())
        .row("Id", Cell::Id(view.sandbox.id.to_string()))
        .row("State", view.sandbox.state.as_str())
        .row("From", view.sandbox.origin.clone())
        .row("Folder", folder.display().to_string())
        .row("Created", view.sandbox.created_at)
}

fn parts(view: &SandboxView) -> Table {
    let mut table = Table::with_columns("Parts", ["Part", "Strategy", "Location", "Base"])
        .keep(["Part", "Strategy"])
        .shorten(["Location"]);
    for (member, stored) in view.members.iter().zip(&view.stored) {
        let base = match &member.base {
            Base::Git(base) => {
                let branch = base
                    .branch
                    .as_deref()
                    .map(|name| name.trim_start_matches("refs/heads/"));
                format!(
                    "{} {}",
                    branch.unwrap_or("detached"),
                    base.commit.get(..10).unwrap_or_default()
                )
            }
            Base::Directory => "copy of the folder".to_owned(),
            Base::File => "copy of the file".to_owned(),
            Base::Sqlite { .. } => "copy of the database".to_owned(),
            Base::Postgres => "the real database; write `changes.sql`".to_owned(),
        };
        table = table.row([
            Cell::from(member.alias.clone()),
            Cell::from(stored.strategy.clone()),
            Cell::from(member.location.display().to_string()),
            Cell::Muted(if member.is_read_only {
                format!("{base} (read-only)")
            } else {
                base
            }),
        ]);
    }
    table
}

pub(super) fn create(
    context: &Context,
    service: &SandboxService,
    arguments: &SandboxCreate,
) -> Result<Report, CommandError> {
    service.check_free(&arguments.name)?;
    let (origin, targets) = super::targets::resolve(context, arguments)?;
    let view = service.create(&arguments.name, &origin, &targets)?;
    let (mut included, mut left_out) = (0, Vec::new());
    for member in &view.members {
        let edits = member.included_edits();
        included += edits
            .map_err(cleveragents_application::SandboxError::from)?
            .len();
        if let Base::Git(base) = &member.base {
            left_out.extend(base.left_out.iter().cloned());
        }
    }
    let report = Report::new("sandbox create")
        .data(json!({
            "sandbox": sandbox_json(&view),
            "uncommitted_included": included,
            "uncommitted_left_out": left_out.len(),
        }))
        .panel(panel(&view))
        .table(parts(&view))
        .ok("Sandbox created");
    let mut report = with_script_notes(report, &view).info(format!(
        "next: `agents sandbox exec {} -- COMMAND`",
        view.sandbox.name
    ));
    if included > 0 {
        report = report.info(format!(
            "it contains your uncommitted edits of {}",
            counted(included, "file")
        ));
    }
    if !left_out.is_empty() {
        report = report.warn(format!(
            "it does not contain {}: {}",
            counted(left_out.len(), "uncommitted file"),
            left_out.join(", ")
        ));
    }
    Ok(view.members.iter().fold(report, with_untracked_notes))
}

/// Names the dependency folders of a copy, and the ignored files that it lacks.
fn with_untracked_notes(mut report: Report, member: &Member) -> Report {
    let Base::Git(base) = &member.base else {
        return report;
    };
    let present = |presence: DependencyPresence| {
        let folders = base.dependencies.iter();
        let folders = folders.filter(|folder| folder.presence == presence);
        let paths: Vec<String> = folders.map(|folder| folder.path.to_string()).collect();
        paths.join(", ")
    };
    let copied = present(DependencyPresence::Copied);
    if !copied.is_empty() {
        report = report.info(format!("it contains copies of your {copied}"));
    }
    let linked = present(DependencyPresence::Linked);
    if !linked.is_empty() {
        report = report.info(format!(
            "it reads your {linked}, which commands cannot change"
        ));
    }
    if !base.ignored.is_empty() {
        report = report.info(format!(
            "it does not contain ignored files: {}",
            base.ignored.join(", ")
        ));
    }
    report
}

pub(super) fn list(service: &SandboxService, all: bool) -> Result<Report, CommandError> {
    let mut views = service.list(all)?;
    if !all {
        views.extend(service.kept()?);
    }
    let mut table =
        Table::with_columns("Sandboxes", ["Name", "State", "From", "Changes", "Updated"])
            .keep(["Name", "State"])
            .shorten(["From"])
            .drop_first(["From"]);
    for view in &views {
        table = table.row([
            Cell::from(view.sandbox.name.clone()),
            Cell::from(view.sandbox.state.as_str()),
            Cell::from(view.sandbox.origin.clone()),
            Cell::from(view.position),
            Cell::from(view.sandbox.updated_at),
        ]);
    }
    Ok(Report::new("sandbox list")
        .data(json!({"sandboxes": views.iter().map(sandbox_json).collect::<Vec<_>>()}))
        .table(table)
        .ok(match views.len() {
            1 => "1 sandbox".to_owned(),
            count => format!("{count} sandboxes"),
        }))
}

pub(super) fn show(service: &SandboxService, reference: &str) -> Result<Report, CommandError> {
    let view = service.find(reference)?;
    let mut table = Table::with_columns(
        "Checkpoints",
        ["Number", "Reason", "Label", "Changes before", "Created"],
    );
    for checkpoint in &view.checkpoints {
        table = table.row([
            Cell::from(checkpoint.number.0),
            Cell::from(checkpoint.reason.as_str()),
            Cell::from(checkpoint.label.clone()),
            Cell::from(checkpoint.position),
            Cell::from(checkpoint.created_at),
        ]);
    }
    let report = Report::new("sandbox show")
        .data(json!({
            "sandbox": sandbox_json(&view),
            "checkpoints": view.checkpoints.iter().map(checkpoint_json).collect::<Vec<_>>(),
        }))
        .panel(panel(&view))
        .table(parts(&view))
        .table(table)
        .ok(format!("Sandbox {}", view.sandbox.state.as_str()));
    Ok(with_script_notes(report, &view))
}

/// Explains how to change databases that are not copied.
fn with_script_notes(report: Report, view: &SandboxView) -> Report {
    let databases = view
        .members
        .iter()
        .filter(|member| member.base == Base::Postgres && !view.sandbox.state.is_over());
    databases.fold(report, |report, member| {
        let (name, part) = (&view.sandbox.name, &member.alias);
        let advice = if member.is_read_only {
            format!("is read-only: `agents sandbox query {name} --part {part} SQL`")
        } else {
            format!(
                "changes when you apply the sandbox: the SQL in `{part}/{SCRIPT}` runs in one transaction; try statements with `agents sandbox query {name} --part {part} SQL`, add them with --record"
            )
        };
        report.info(format!("the database `{part}` {advice}"))
    })
}

pub(super) fn discard(
    service: &SandboxService,
    reference: &str,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    let existing = service.find(reference)?;
    if existing.sandbox.state.is_over() && !SandboxService::has_kept_files(&existing.sandbox) {
        // Fails with the reason why the sandbox cannot be opened.
        open(service, reference)?;
    }
    if deletion.dry_run() {
        let report = Report::new("sandbox discard")
            .data(json!({"sandbox": sandbox_json(&existing)}))
            .panel(panel(&existing).row("Recorded changes", existing.position))
            .table(parts(&existing));
        return Ok(deletion.conclude(report, "Sandbox discarded"));
    }
    let name = &existing.sandbox.name;
    deletion.confirm(&format!("Discard sandbox {name} and its changes?"))?;
    let view = service.discard(reference)?;
    let id = view.sandbox.id.to_string();
    let staged_folders = view
        .members
        .iter()
        .filter_map(|member| member.interrupted_staging(&id));
    let report = Report::new("sandbox discard")
        .data(json!({"sandbox": sandbox_json(&view)}))
        .ok(format!("Sandbox `{}` discarded", view.sandbox.name));
    Ok(staged_folders.fold(report, |report, path| {
        report.warn(format!(
            "its apply was interrupted: `{}` may contain files of yours; check them, then remove it",
            path.display()
        ))
    }))
}
