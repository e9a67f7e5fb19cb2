//! `plan checkpoint`: states of a plan to roll back to.

use cleveragents_application::plan_operations::{
    CheckpointInfo, CheckpointList, DeleteCheckpoints, ListCheckpoints,
};

use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

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
    reference: String,
    checkpoints: Vec<String>,
    yes: bool,
) -> Result<Report, CommandError> {
    if !yes {
        let listed = context.call(ListCheckpoints {
            reference: Some(reference.clone()),
        })?;
        let mut names: Vec<&str> = Vec::new();
        for checkpoint in &checkpoints {
            let name = checkpoint_id(&listed, checkpoint);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let question = format!("Remove {} of plan {}?", names.join(", "), listed.plan_id);
        confirm(&question, yes)?;
    }
    let deleted = context.call(DeleteCheckpoints {
        reference,
        checkpoints,
        yes: true,
    })?;
    let count = deleted.summary.deleted;
    Ok(Report::new("plan checkpoint delete")
        .table(table(&deleted.checkpoints))
        .data(deleted)
        .ok(format!("{} removed", counted(count, "checkpoint"))))
}

/// Id of the checkpoint that a reference resolves to; the reference itself if there is none.
fn checkpoint_id<'a>(listed: &'a CheckpointList, reference: &'a str) -> &'a str {
    let number = reference.strip_prefix("cp_").unwrap_or(reference);
    let checkpoints = &listed.checkpoints;
    let by_number = checkpoints
        .iter()
        .find(|checkpoint| checkpoint.number.to_string() == number);
    let by_label = || {
        let mut newest = checkpoints.iter().rev();
        newest.find(|checkpoint| checkpoint.label.as_deref() == Some(reference))
    };
    by_number
        .or_else(by_label)
        .map_or(reference, |checkpoint| checkpoint.id.as_str())
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
