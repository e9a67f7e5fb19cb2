//! `sandbox diff`, `checkpoint`, `rollback` and `redo`.

use cleveragents_application::{
    MemberChanges, RollbackTarget, RolledBack, SandboxError, SandboxService,
};
use cleveragents_domain::CheckpointReason;
use cleveragents_sandbox::Change;
use serde_json::{Value, json};

use super::manage::checkpoint_json;
use super::{change_json, open, operation};
use crate::arguments::{SandboxDiff, SandboxRollback};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Format, Report, Table};

pub(super) fn diff(
    context: &Context,
    service: &SandboxService,
    arguments: &SandboxDiff,
) -> Result<Option<Report>, CommandError> {
    let mut sandbox = open(service, &arguments.sandbox.reference)?;
    let mut diff = service.diff(&mut sandbox)?;
    if let Some(since) = &arguments.since {
        let target = service.checkpoint_named(&sandbox, since)?;
        diff = service.net(&sandbox, target.position)?;
    }
    if let Some(part) = &arguments.part
        && !diff.parts.iter().any(|there| there.member.alias == *part)
    {
        return Err(SandboxError::PartNotFound {
            name: sandbox.view.sandbox.name.clone(),
            part: part.clone(),
        }
        .into());
    }
    let is_shown = |part: &&MemberChanges| {
        arguments
            .part
            .as_ref()
            .is_none_or(|wanted| part.member.alias == *wanted)
    };
    let temporary = sandbox.view.folders().state();
    let mut parts = Vec::new();
    let mut table = Table::with_columns("Changes", ["Part", "Operation", "Path", "Size"]);
    let mut whole = Vec::new();
    let mut count = 0;
    for part in diff.parts.iter().filter(is_shown) {
        let patch = if arguments.stat {
            Vec::new()
        } else {
            diff.patch(part, &temporary)?
        };
        count += part.changes.len();
        for change in &part.changes {
            table = table.row(cells(&part.member.alias, change));
        }
        parts.push(json!({
            "part": part.member.alias,
            "changes": part.changes.iter().map(|change| change_json(&part.member.alias, change)).collect::<Vec<Value>>(),
            "patch": (!arguments.stat).then(|| String::from_utf8_lossy(&patch).into_owned()),
        }));
        whole.extend_from_slice(&patch);
    }
    if context.printer.format() == Format::Plain && !arguments.stat {
        return Ok(Some(Report::printed("sandbox diff", whole)));
    }
    let report = Report::new("sandbox diff")
        .data(json!({"parts": parts, "count": count}))
        .table(table)
        .ok(format!("{} changed", counted(count, "path")));
    Ok(Some(if whole.is_empty() {
        report
    } else {
        report.text(String::from_utf8_lossy(&whole))
    }))
}

fn cells(alias: &str, change: &Change) -> [Cell; 4] {
    let word = operation(change);
    let size = change.after.or(change.before).map_or(0, |state| state.size);
    [
        Cell::from(alias.to_owned()),
        match word {
            "create" => Cell::Good(word.to_owned()),
            "delete" => Cell::Bad(word.to_owned()),
            _ => Cell::Warn(word.to_owned()),
        },
        Cell::from(change.path.to_string()),
        Cell::Bytes(size),
    ]
}

pub(super) fn checkpoint(
    service: &SandboxService,
    reference: &str,
    label: Option<&str>,
) -> Result<Report, CommandError> {
    let mut sandbox = open(service, reference)?;
    let number = service.checkpoint(&mut sandbox, CheckpointReason::Manual, label)?;
    let made = sandbox
        .view
        .checkpoints
        .iter()
        .find(|checkpoint| checkpoint.number == number)
        .map(checkpoint_json);
    Ok(Report::new("sandbox checkpoint")
        .data(json!({"sandbox": sandbox.view.sandbox.name, "checkpoint": made}))
        .ok(format!("Checkpoint {number} created")))
}

pub(super) fn rollback(
    service: &SandboxService,
    arguments: &SandboxRollback,
) -> Result<Report, CommandError> {
    let mut sandbox = open(service, &arguments.sandbox.reference)?;
    let target = match &arguments.to {
        Some(checkpoint) => RollbackTarget::Checkpoint(checkpoint.clone()),
        None => RollbackTarget::Previous,
    };
    let name = sandbox.view.sandbox.name.clone();
    if arguments.dry_run {
        let would = service.rollback_preview(&mut sandbox, &target)?;
        return Ok(
            rollback_report("sandbox rollback", &name, &would, true).ok(format!(
                "Checkpoint {} would change {}; nothing changed",
                would.checkpoint.number,
                counted(would.changes.len(), "path")
            )),
        );
    }
    let done = service.rollback(&mut sandbox, &target)?;
    Ok(rollback_report("sandbox rollback", &name, &done, false)
        .ok(format!(
            "Rolled back to checkpoint {}: {} changed",
            done.checkpoint.number,
            counted(done.changes.len(), "path")
        ))
        .info(format!(
            "undo the rollback with `agents sandbox redo {name}`"
        )))
}

pub(super) fn redo(service: &SandboxService, reference: &str) -> Result<Report, CommandError> {
    let mut sandbox = open(service, reference)?;
    let name = sandbox.view.sandbox.name.clone();
    let done = service.redo(&mut sandbox)?;
    Ok(
        rollback_report("sandbox redo", &name, &done, false).ok(format!(
            "Rollback undone: {} changed",
            counted(done.changes.len(), "path")
        )),
    )
}

fn rollback_report(
    command: &'static str,
    name: &str,
    done: &RolledBack,
    is_preview: bool,
) -> Report {
    let mut table = Table::with_columns("Changes", ["Part", "Operation", "Path", "Size"]);
    for (alias, change) in &done.changes {
        table = table.row(cells(alias, change));
    }
    Report::new(command)
        .data(json!({
            "sandbox": name,
            "dry_run": is_preview,
            "checkpoint": checkpoint_json(&done.checkpoint),
            "before": done.before,
            "changes": done.changes.iter().map(|(alias, change)| change_json(alias, change)).collect::<Vec<_>>(),
        }))
        .table(table)
}
