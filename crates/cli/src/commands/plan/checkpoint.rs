//! `plan checkpoint`: states of a plan to roll back to.

use cleveragents_application::plan_operations::{
    CheckpointInfo, CheckpointList, DeleteCheckpoints, ListCheckpoints,
};

use crate::arguments::Deletion;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(crate) fn list(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListCheckpoints { reference })?;
    Ok(Report::new("plan checkpoint list")
        .table(table(&listed.checkpoints))
        .ok(format!(
            "{} listed",
            counted(listed.summary.total, "checkpoint")
        ))
        .data(listed))
}

pub(super) fn delete(
    context: &Context,
    words: Vec<String>,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    let (listed, checkpoints) = plan_and_checkpoints(context, words)?;
    if !deletion.yes && !deletion.dry_run() {
        let mut names: Vec<&str> = Vec::new();
        for checkpoint in &checkpoints {
            let name = checkpoint_id(&listed, checkpoint);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let question = format!("Remove {} of plan {}?", names.join(", "), listed.plan_id);
        deletion.confirm(&question)?;
    }
    let deleted = context.call(DeleteCheckpoints {
        reference: listed.plan_id.to_string(),
        checkpoints,
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let done = format!("{} removed", counted(deleted.summary.deleted, "checkpoint"));
    let report = Report::new("plan checkpoint delete");
    let report = if deletion.dry_run() {
        let panel = Panel::new("Checkpoints");
        report.panel(
            panel
                .row("Removed", deleted.deleted.join(", "))
                .row("Kept", deleted.summary.remaining),
        )
    } else {
        report.table(table(&deleted.checkpoints))
    };
    Ok(deletion.conclude(report.data(deleted), done))
}

/// Splits `[PLAN] CHECKPOINT...`: the first word is a plan unless the current plan has such a checkpoint.
fn plan_and_checkpoints(
    context: &Context,
    mut words: Vec<String>,
) -> Result<(CheckpointList, Vec<String>), CommandError> {
    let current = context.call(ListCheckpoints { reference: None });
    match (words.as_slice(), current) {
        ([first, ..], Ok(listed)) if find(&listed, first).is_some() => Ok((listed, words)),
        // The operation reports that the plan has no such checkpoint.
        ([_], current) => Ok((current?, words)),
        _ => {
            let plan = words.remove(0);
            let listed = context.call(ListCheckpoints {
                reference: Some(plan),
            })?;
            Ok((listed, words))
        }
    }
}

/// Id of the checkpoint that a reference resolves to; the reference itself if there is none.
fn checkpoint_id<'a>(listed: &'a CheckpointList, reference: &'a str) -> &'a str {
    find(listed, reference).map_or(reference, |checkpoint| checkpoint.id.as_str())
}

/// The checkpoint that a number, such as `cp_3` or `3`, or a label refers to.
fn find<'a>(listed: &'a CheckpointList, reference: &str) -> Option<&'a CheckpointInfo> {
    let number = reference.strip_prefix("cp_").unwrap_or(reference);
    let checkpoints = &listed.checkpoints;
    let by_number = checkpoints
        .iter()
        .find(|checkpoint| checkpoint.number.to_string() == number);
    let by_label = || {
        let mut newest = checkpoints.iter().rev();
        newest.find(|checkpoint| checkpoint.label.as_deref() == Some(reference))
    };
    by_number.or_else(by_label)
}

fn table(checkpoints: &[CheckpointInfo]) -> Table {
    Table::with_columns("Checkpoints", ["ID", "Label", "Reason"])
        .column("Changes before", Align::Right)
        .column("Created", Align::Left)
        .empty("No checkpoints")
        .rows(checkpoints.iter().map(|checkpoint| {
            vec![
                Cell::Id(checkpoint.id.clone()),
                checkpoint.label.clone().into(),
                checkpoint.reason.as_str().into(),
                checkpoint.position.into(),
                checkpoint.created.into(),
            ]
        }))
}
