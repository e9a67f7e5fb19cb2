//! `plan show`: the strategy of a plan.

use cleveragents_application::plan_operations::{PlanDetails, ShowPlan, StrategyFormat};
use cleveragents_domain::{PlanStep, criteria};

use super::state_or_undone_cell;
use crate::arguments::StrategyDocument;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    reference: Option<String>,
    document: Option<StrategyDocument>,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowPlan {
        reference,
        document: document.map(|document| match document {
            StrategyDocument::Markdown => StrategyFormat::Markdown,
            StrategyDocument::Json => StrategyFormat::Json,
        }),
    })?;
    if let Some(text) = shown.document {
        return Ok(Report::printed("plan show", text));
    }
    let mut report = Report::new("plan show").panel(header(&shown));
    let arguments = shown.arguments.iter().map(|(name, value)| {
        let text = value.as_str().map(str::to_owned);
        (name, text.unwrap_or_else(|| value.to_string()))
    });
    if !shown.arguments.is_empty() {
        let panel = arguments.fold(Panel::new("Arguments"), |panel, (name, value)| {
            panel.row(name.clone(), value)
        });
        report = report.panel(panel);
    }
    let message = match &shown.strategy {
        None => "Plan loaded; no strategy yet".to_owned(),
        Some(strategy) => {
            report = report
                .panel(
                    Panel::new("Strategy")
                        .row("Summary", strategy.summary.clone())
                        .row("Risk", strategy.risk.map(|risk| format!("{risk:.2}"))),
                )
                .table(steps(&strategy.steps));
            format!("Strategy with {}", counted(strategy.steps.len(), "step"))
        }
    };
    Ok(report.data(shown).ok(message))
}

fn header(shown: &PlanDetails) -> Panel {
    let mut panel = Panel::new("Plan").row("Plan ID", Cell::Id(shown.plan_id.to_string()));
    if let Some(parent) = &shown.parent {
        panel = panel
            .row("Child plan", format!("{}, {}", parent.number, parent.title))
            .row("Parent plan", Cell::Id(parent.plan_id.to_string()))
            .row("Task of the parent", parent.task.clone());
    }
    panel
        .row("Name", shown.name.clone())
        .row("Phase", shown.phase.as_str())
        .row(
            "State",
            state_or_undone_cell(shown.state, shown.undone.as_ref()),
        )
        .row("Action", shown.action.clone())
        .row("Project", shown.project.clone())
        .row("Description", shown.description.clone())
        .row(
            "Definition of done",
            criteria(&shown.definition_of_done).join("; "),
        )
        .row("Automation", shown.automation.profile.clone())
        .row("Attempt", shown.attempt)
}

fn steps(steps: &[PlanStep]) -> Table {
    Table::new("Steps")
        .column("#", Align::Right)
        .column("Step", Align::Left)
        .column("Files", Align::Left)
        .column("After", Align::Left)
        .column("Risk", Align::Right)
        .rows((1_u64..).zip(steps).map(|(number, step)| {
            let after: Vec<String> = step.after.iter().map(ToString::to_string).collect();
            let list_cell = |list: &[String]| {
                if list.is_empty() {
                    Cell::Muted(String::new())
                } else {
                    Cell::Text(list.join(", "))
                }
            };
            vec![
                number.into(),
                step.title.as_str().into(),
                list_cell(&step.files),
                list_cell(&after),
                step.risk.map_or_else(
                    || Cell::Muted(String::new()),
                    |risk| format!("{risk:.2}").into(),
                ),
            ]
        }))
}
