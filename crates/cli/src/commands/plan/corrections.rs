//! `plan corrections`: history of the corrections of a plan.

use cleveragents_application::plan_operations::{
    CorrectionAttemptInfo, CorrectionForm, ListCorrections,
};

use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListCorrections { reference })?;
    let table = Table::new("Corrections")
        .column("#", Align::Right)
        .column("Mode", Align::Left)
        .column("Corrects", Align::Left)
        .column("Guidance", Align::Left)
        .column("State", Align::Left)
        .column("Decisions", Align::Right)
        .column("Steps", Align::Right)
        .column("Files", Align::Right)
        .empty("No corrections")
        .rows(listed.corrections.iter().map(row).collect::<Vec<_>>());
    let message = format!("{} listed", counted(listed.corrections.len(), "correction"));
    let report = Report::new("plan corrections").table(table);
    Ok(report.records(listed).ok(message))
}

fn row(made: &CorrectionAttemptInfo) -> Vec<Cell> {
    let mode = match made.mode {
        CorrectionForm::Revert => "revert",
        CorrectionForm::Append => "append",
    };
    vec![
        made.number.into(),
        mode.into(),
        Cell::Id(made.corrects.to_string()),
        made.guidance.as_str().into(),
        if made.is_undone {
            Cell::Warn("undone".to_owned())
        } else {
            Cell::Good("in effect".to_owned())
        },
        made.discarded_decisions.into(),
        made.discarded_steps.into(),
        made.files_reverted.len().into(),
    ]
}
