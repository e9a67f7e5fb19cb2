//! `plan list`.

use cleveragents_application::plan_operations::{ListPlans, PlanEntry};

use super::state_cell;
use crate::arguments::{PhaseName, PlanList, StateName};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, arguments: PlanList) -> Result<Report, CommandError> {
    let listed = context.call(ListPlans {
        phase: arguments.phase.map(PhaseName::phase),
        state: arguments.state.map(StateName::state),
        project: arguments.project,
        action: arguments.action,
        pattern: arguments.pattern,
        tree: arguments.tree,
    })?;
    let count = listed.plans.len();
    let row = |plan: &PlanEntry| {
        vec![
            Cell::Id(indented(plan)),
            plan.phase.as_str().into(),
            match &plan.undone {
                Some(_) => Cell::Warn("undone".to_owned()),
                None => state_cell(plan.state),
            },
            plan.task.as_str().into(),
            plan.project.clone().into(),
            plan.elapsed.clone().into(),
        ]
    };
    let table = Table::new("Plans")
        .column("Id", Align::Left)
        .column("Phase", Align::Left)
        .column("State", Align::Left)
        .column("Task", Align::Left)
        .column("Project", Align::Left)
        .column("Elapsed", Align::Right)
        .keep(["Id"])
        .drop_first(["Elapsed", "Phase"])
        .empty("No plan matches")
        .rows(listed.plans.iter().map(row));
    Ok(Report::new("plan list")
        .table(table)
        .ok(format!("{} listed", counted(count, "plan")))
        .records(listed))
}

/// Id of a plan, indented below the parent in a tree.
fn indented(plan: &PlanEntry) -> String {
    match plan.depth {
        None | Some(0) => plan.id.clone(),
        Some(depth) => format!("{}└ {}", "  ".repeat(depth - 1), plan.id),
    }
}
