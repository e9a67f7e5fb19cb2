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

fn row(attempt: &CorrectionAttemptInfo) -> Vec<Cell> {
    let mode = match attempt.mode {
        CorrectionForm::Revert => "revert",
        CorrectionForm::Append => "append",
    };
    vec![
        attempt.number.into(),
        mode.into(),
        Cell::Id(attempt.corrects.to_string()),
        attempt.guidance.as_str().into(),
        if attempt.is_undone {
            Cell::Warn("undone".to_owned())
        } else {
            Cell::Good("in effect".to_owned())
        },
        attempt.discarded_decisions.into(),
        attempt.discarded_steps.into(),
        attempt.files_reverted.len().into(),
    ]
}
