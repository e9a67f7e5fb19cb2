//! `plan children`: child plans of a plan.

use cleveragents_application::plan_operations::{ChildPlanInfo, ListChildPlans};
use cleveragents_domain::ChildState;

use super::known_cost;
use crate::commands::{cost_cell, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListChildPlans { reference })?;
    let children = &listed.children;
    let has_reason = children
        .iter()
        .any(|child| child.reason.is_some() || child.waiting_for.is_some());
    let has_owner = children.iter().any(|child| child.owner.is_some());
    let mut table = Table::new("Child Plans")
        .column("#", Align::Right)
        .column("Id", Align::Left)
        .column("Title", Align::Left)
        .column("State", Align::Left)
        .column("Stage", Align::Left)
        .column("Files", Align::Right)
        .column("Cost", Align::Right)
        .column("Elapsed", Align::Right)
        .empty("No child plans");
    if has_owner {
        table = table.column("Run by", Align::Left);
    }
    if has_reason {
        table = table.column("Reason", Align::Left);
    }
    let rows = children
        .iter()
        .map(|child| row(child, has_owner, has_reason));
    let message = format!("{} listed", counted(children.len(), "child plan"));
    let table = table.rows(rows.collect::<Vec<_>>());
    let report = Report::new("plan children").table(table);
    Ok(report.records(listed).ok(message))
}

fn row(child: &ChildPlanInfo, has_owner: bool, has_reason: bool) -> Vec<Cell> {
    let (cost, is_known) = known_cost(child.cost_usd, child.cost_known_part);
    let mut cells = vec![
        child.number.into(),
        Cell::Id(child.id.clone()),
        child.title.as_str().into(),
        state_cell(child.state),
        child.stage.to_string().into(),
        child.files_changed.into(),
        cost_cell(cost, is_known),
        child.elapsed.clone().into(),
    ];
    if has_owner {
        cells.push(child.owner.clone().into());
    }
    if has_reason {
        let waits = child
            .waiting_for
            .as_ref()
            .map(|input| format!("waits for {input}"));
        cells.push(child.reason.clone().or(waits).into());
    }
    cells
}

fn state_cell(state: ChildState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        ChildState::Open => Cell::Text(text),
        ChildState::Complete | ChildState::Merged => Cell::Good(text),
        ChildState::Failed => Cell::Bad(text),
        ChildState::Cancelled => Cell::Muted(text),
    }
}
