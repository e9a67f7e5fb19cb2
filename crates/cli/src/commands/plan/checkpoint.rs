//! `plan checkpoint`: states of a plan that can be returned to.

use cleveragents_application::{PlanBook, checkpoint_name};
use cleveragents_domain::{Checkpoint, Plan};
use serde_json::{Value, json};

use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn list(book: &PlanBook, plan: &Plan) -> Result<Report, CommandError> {
    let checkpoints = book.checkpoints(plan)?;
    Ok(Report::new("plan checkpoint list")
        .data(json!({
            "plan_id": plan.id,
            "sandbox": plan.sandbox,
            "checkpoints": checkpoints.iter().map(described).collect::<Vec<_>>(),
            "summary": {"total": checkpoints.len()},
        }))
        .table(table(&checkpoints))
        .ok(format!(
            "{} listed",
            counted(checkpoints.len(), "checkpoint")
        )))
}

pub(super) fn delete(
    context: &Context,
    book: &PlanBook,
    plan: &Plan,
    references: &[String],
    yes: bool,
) -> Result<Report, CommandError> {
    let mut names = Vec::new();
    for reference in references {
        let name = checkpoint_name(book.checkpoint(plan, reference)?.number);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let question = format!("Remove {} of plan {}?", names.join(", "), plan.id);
    confirm(context, &question, yes)?;
    let left = book.delete_checkpoints(plan, &names)?;
    Ok(Report::new("plan checkpoint delete")
        .data(json!({
            "plan_id": plan.id,
            "deleted": names,
            "checkpoints": left.iter().map(described).collect::<Vec<_>>(),
            "summary": {"deleted": names.len(), "remaining": left.len()},
        }))
        .table(table(&left))
        .ok(format!("{} removed", counted(names.len(), "checkpoint"))))
}

fn described(checkpoint: &Checkpoint) -> Value {
    json!({
        "id": checkpoint_name(checkpoint.number),
        "number": checkpoint.number,
        "label": checkpoint.label,
        "reason": checkpoint.reason,
        "position": checkpoint.position,
        "created": checkpoint.created_at,
    })
}

fn table(checkpoints: &[Checkpoint]) -> Table {
    Table::with_columns("Checkpoints", ["ID", "Label", "Reason"])
        .column("Changes before", Align::Right)
        .column("Created", Align::Left)
        .empty("There is no checkpoint")
        .rows(checkpoints.iter().map(|checkpoint| {
            vec![
                Cell::Id(checkpoint_name(checkpoint.number)),
                checkpoint.label.clone().into(),
                checkpoint.reason.as_str().into(),
                checkpoint.position.into(),
                checkpoint.created_at.into(),
            ]
        }))
}
