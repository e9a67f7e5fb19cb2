//! `run show`: steps of a run.

use cleveragents_application::OpenQuestion;
use cleveragents_application::run_operations::{RunStep, ShowRun};
use cleveragents_domain::RunState;
use serde_json::Value;

use super::state_cell;
use crate::commands::cost_cell;
use crate::commands::turn_view::short;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Maximum number of characters of a step's changes or error.
const MAX_CHANGE_CHARS: usize = 80;

pub(super) fn run(context: &Context, run: Option<String>) -> Result<Report, CommandError> {
    let shown = context.call(ShowRun { run })?;
    let run = &shown.run;
    let is_orphaned = run.state == RunState::Running && shown.owner.is_none();
    let (cost, is_cost_known) = run.usage.known_cost();
    let mut details = Panel::new("Run")
        .row("Id", Cell::Id(run.id.to_string()))
        .row("Actor", run.actor.clone())
        .row("State", state_cell(run.state))
        .row("Owner", shown.owner.clone())
        .row("Attempts", run.attempts)
        .row("Began", run.started)
        .row("Ended", run.ended)
        .row("Cost", cost_cell(cost, is_cost_known))
        .row("Model calls", run.usage.model_calls)
        .row("Tool calls", run.usage.tool_calls);
    if let Some(error) = &run.error {
        details = details.row("Error", Cell::Bad(error.clone()));
    }
    let mut report = Report::new("run show")
        .panel(details)
        .table(steps(&shown.steps));
    for question in &shown.questions {
        report = report.panel(question_panel(question));
    }
    if let Some(result) = &shown.result {
        report = report.text(text(&result["output"]));
    }
    if is_orphaned {
        report = report.warn(format!(
            "no process runs it: continue with `agents run resume {}`",
            run.id
        ));
    } else if !shown.questions.is_empty() {
        let plan = shown.options["plan"].as_str();
        report = report.info(match plan {
            Some(plan) => format!(
                "answer with `agents plan approve {plan} --answer TEXT`, then `agents plan execute {plan}`"
            ),
            None => format!("answer with `agents run resume {} --answer TEXT`", run.id),
        });
    } else if matches!(
        run.state,
        RunState::Waiting | RunState::Failed | RunState::Cancelled
    ) {
        report = report.info(format!("continue with `agents run resume {}`", run.id));
    }
    Ok(report.data(shown).ok("Run loaded"))
}

/// Panel of a question that a waiting run asks.
fn question_panel(question: &OpenQuestion) -> Panel {
    match question {
        OpenQuestion::Question { text, options } => {
            let panel = Panel::new("Question").row("Question", Cell::Warn(text.clone()));
            (1_u64..)
                .zip(options)
                .fold(panel, |panel, (number, option)| {
                    panel.row(format!("Option {number}"), option.clone())
                })
        }
        OpenQuestion::Approval {
            tool,
            arguments,
            reason,
        } => Panel::new("Question")
            .row("Approve", Cell::Warn(tool.clone()))
            .row("Arguments", arguments.to_string())
            .row("Reason", reason.clone()),
    }
}

fn steps(steps: &[RunStep]) -> Table {
    Table::new("Steps")
        .column("#", Align::Right)
        .column("Step", Align::Left)
        .column("Kind", Align::Left)
        .column("Took", Align::Right)
        .column("Changes", Align::Left)
        .column("Next", Align::Left)
        .empty("No finished step")
        .rows(steps.iter().map(|step| {
            let changes = match &step.error {
                Some(error) => Cell::Bad(short(error, MAX_CHANGE_CHARS)),
                None => short(&changes(&step.update), MAX_CHANGE_CHARS).into(),
            };
            vec![
                step.number.into(),
                step.path.as_str().into(),
                step.kind.as_str().into(),
                Cell::Seconds(step.duration_s),
                changes,
                step.next.clone().into(),
            ]
        }))
}

/// State that a step changed, on one line.
fn changes(update: &serde_json::Map<String, Value>) -> String {
    let parts: Vec<String> = update
        .iter()
        // `messages` repeats every answer, which also has its own key.
        .filter(|(key, _)| *key != "messages")
        .map(|(key, value)| format!("{key} = {}", text(value)))
        .collect();
    parts.join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
