//! `plan show`: the strategy of a plan.

use cleveragents_application::{FailedCheck, PlanBook};
use cleveragents_domain::{Code, Plan, PlanStep, criteria};
use serde_json::{Value, json};

use super::{projects, state_cell};
use crate::arguments::StrategyDocument;
use crate::commands::counted;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    book: &PlanBook,
    plan: &Plan,
    document: Option<StrategyDocument>,
) -> Result<Report, CommandError> {
    if let Some(document) = document {
        let Some(strategy) = &plan.strategy else {
            let message = format!("plan {} has no strategy yet: it is {}", plan.id, plan.stage);
            return Err(CommandError::new(Code::PlanNotReady, message)
                .with_hint(format!("let it think: `agents plan execute {}`", plan.id)));
        };
        let text = match document {
            StrategyDocument::Markdown => strategy.to_markdown(),
            StrategyDocument::Json => {
                let json = serde_json::to_string_pretty(strategy);
                json.map_err(|error| CommandError::internal(error.to_string()))? + "\n"
            }
        };
        return Ok(Report::printed("plan show", text));
    }
    let made = &plan.made_with;
    let failed_checks = book.failed_checks(plan.id)?;
    let mut report = Report::new("plan show")
        .data(data(plan, &failed_checks))
        .panel(
            Panel::new("Plan")
                .row("Plan ID", Cell::Id(plan.id.to_string()))
                .row("Name", plan.name.clone())
                .row("Phase", plan.stage.phase().as_str())
                .row("State", state_cell(plan))
                .row("Action", plan.action.clone())
                .row("Project", projects(plan))
                .row("Description", plan.description.clone())
                .row(
                    "Definition of done",
                    criteria(&plan.definition_of_done).join("; "),
                )
                .row("Automation", made.profile.name.clone())
                .row("Attempt", plan.attempt),
        );
    let arguments = made.arguments_order.iter().filter_map(|name| {
        let value = made.arguments.get(name)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some((name.clone(), text))
    });
    let arguments: Vec<(String, String)> = arguments.collect();
    if !arguments.is_empty() {
        let panel = arguments
            .into_iter()
            .fold(Panel::new("Arguments"), |panel, (name, value)| {
                panel.row(name, value)
            });
        report = report.panel(panel);
    }
    let Some(strategy) = &plan.strategy else {
        return Ok(report.ok("Plan loaded; it has no strategy yet"));
    };
    report = report
        .panel(
            Panel::new("Strategy")
                .row("Summary", strategy.summary.clone())
                .row("Risk", strategy.risk.map(|risk| format!("{risk:.2}"))),
        )
        .table(steps(&strategy.steps));
    Ok(report.ok(format!(
        "Strategy with {}",
        counted(strategy.steps.len(), "step")
    )))
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
            let of_list = |list: &[String]| {
                if list.is_empty() {
                    Cell::Muted(String::new())
                } else {
                    Cell::Text(list.join(", "))
                }
            };
            vec![
                number.into(),
                step.title.as_str().into(),
                of_list(&step.files),
                of_list(&after),
                step.risk.map_or_else(
                    || Cell::Muted(String::new()),
                    |risk| format!("{risk:.2}").into(),
                ),
            ]
        }))
}

fn data(plan: &Plan, failed_checks: &[FailedCheck]) -> Value {
    let made = &plan.made_with;
    json!({
        "plan_id": plan.id,
        "name": plan.name,
        "phase": plan.stage.phase(),
        "state": plan.shown_state(),
        "action": plan.action,
        "project": projects(plan),
        "projects": made.projects,
        "description": plan.description,
        "definition_of_done": plan.definition_of_done,
        "arguments": made.arguments,
        "actors": made.actors,
        "automation": {
            "profile": made.profile.name, "source": made.profile.source, "read_only": made.read_only,
        },
        "attempt": plan.attempt,
        "strategy": plan.strategy,
        "estimate": plan.estimate,
        "failed_checks": failed_checks,
        "markdown": plan.strategy.as_ref().map(cleveragents_domain::PlanStrategy::to_markdown),
        "version": plan.version,
        "created": plan.created_at,
        "updated": plan.updated_at,
    })
}
