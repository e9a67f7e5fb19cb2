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
        && !diff
            .parts
            .iter()
            .any(|candidate| candidate.member.alias == *part)
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
            .is_none_or(|alias| part.member.alias == *alias)
    };
    let temporary = sandbox.view.folders().state();
    let mut parts = Vec::new();
    let mut table = Table::with_columns("Changes", ["Part", "Operation", "Path", "Size"])
        .keep(["Part"])
        .shorten(["Path"]);
    let mut full_patch = Vec::new();
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
        full_patch.extend_from_slice(&patch);
    }
    if context.printer.format() == Format::Plain && !arguments.stat {
        return Ok(Some(Report::printed("sandbox diff", full_patch)));
    }
    let report = Report::new("sandbox diff")
        .data(json!({"parts": parts, "count": count}))
        .table(table)
        .ok(format!("{} changed", counted(count, "path")));
    Ok(Some(if full_patch.is_empty() {
        report
    } else {
        report.text(String::from_utf8_lossy(&full_patch))
    }))
}

fn cells(alias: &str, change: &Change) -> [Cell; 4] {
    let operation_name = operation(change);
    let size = change.after.or(change.before).map_or(0, |state| state.size);
    [
        Cell::from(alias.to_owned()),
        match operation_name {
            "create" => Cell::Good(operation_name.to_owned()),
            "delete" => Cell::Bad(operation_name.to_owned()),
            _ => Cell::Warn(operation_name.to_owned()),
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
    let created = sandbox
        .view
        .checkpoints
        .iter()
        .find(|checkpoint| checkpoint.number == number)
        .map(checkpoint_json);
    Ok(Report::new("sandbox checkpoint")
        .data(json!({"sandbox": sandbox.view.sandbox.name, "checkpoint": created}))
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
        let preview = service.rollback_preview(&mut sandbox, &target)?;
        return Ok(
            rollback_report("sandbox rollback", &name, &preview, true).ok(format!(
                "Checkpoint {} would change {}; nothing changed",
                preview.checkpoint.number,
                counted(preview.changes.len(), "path")
            )),
        );
    }
    let result = service.rollback(&mut sandbox, &target)?;
    Ok(rollback_report("sandbox rollback", &name, &result, false)
        .ok(format!(
            "Rolled back to checkpoint {}: {} changed",
            result.checkpoint.number,
            counted(result.changes.len(), "path")
        ))
        .info(format!(
            "undo the rollback with `agents sandbox redo {name}`"
        )))
}

pub(super) fn redo(service: &SandboxService, reference: &str) -> Result<Report, CommandError> {
    let mut sandbox = open(service, reference)?;
    let name = sandbox.view.sandbox.name.clone();
    let result = service.redo(&mut sandbox)?;
    Ok(
        rollback_report("sandbox redo", &name, &result, false).ok(format!(
            "Rollback undone: {} changed",
            counted(result.changes.len(), "path")
        )),
    )
}

fn rollback_report(
    command: &'static str,
    name: &str,
    result: &RolledBack,
    is_preview: bool,
) -> Report {
    let mut table = Table::with_columns("Changes", ["Part", "Operation", "Path", "Size"])
        .keep(["Part"])
        .shorten(["Path"]);
    for (alias, change) in &result.changes {
        table = table.row(cells(alias, change));
    }
    Report::new(command)
        .data(json!({
            "sandbox": name,
            "dry_run": is_preview,
            "checkpoint": checkpoint_json(&result.checkpoint),
            "before": result.before,
            "changes": result.changes.iter().map(|(alias, change)| change_json(alias, change)).collect::<Vec<_>>(),
        }))
        .table(table)
}
