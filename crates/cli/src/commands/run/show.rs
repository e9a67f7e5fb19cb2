//! `run show`: a run step by step.

use cleveragents_application::{OpenQuestion, RunService, RunView, StepView};
use cleveragents_domain::{Code, RunId, RunState};
use cleveragents_store::runs::RunFilter;
use serde_json::{Value, json};

use super::{state_cell, summary};
use crate::commands::cost_cell;
use crate::commands::turn_view::short;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// So much of what a step changed is shown on a line.
const SHOWN: usize = 80;

pub(super) fn run(runs: &RunService, reference: Option<&str>) -> Result<Report, CommandError> {
    let id = match reference {
        Some(reference) => runs.resolve(reference)?.id,
        None => newest(runs)?,
    };
    let view = runs.view(id)?;
    let run = &view.run;
    let is_left = run.state == RunState::Running && view.owner.is_none();
    let mut details = Panel::new("Run")
        .row("Id", Cell::Id(run.id.to_string()))
        .row("Actor", run.actor.clone())
        .row("State", state_cell(run.state))
        .row("Worked on by", view.owner.clone())
        .row("Attempts", run.attempts)
        .row("Began", run.started_at)
        .row("Ended", run.ended_at)
        .row(
            "Cost",
            cost_cell(run.usage.cost_micro_usd, view.is_cost_known),
        )
        .row("Model calls", run.model_calls)
        .row("Tool calls", run.tool_calls);
    if let Some(error) = &run.error {
        details = details.row("Error", Cell::Bad(error.clone()));
    }
    let mut report = Report::new("run show")
        .data(data(&view))
        .panel(details)
        .table(steps(&view.steps));
    for question in &view.questions {
        report = report.panel(asks(question));
    }
    if let Some(result) = &run.result {
        report = report.text(text(&result["output"]));
    }
    if is_left {
        report = report.warn(format!(
            "nobody works on it any more: go on with `agents run resume {}`",
            run.id
        ));
    } else if !view.questions.is_empty() {
        let plan = run.options["plan"].as_str();
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
        report = report.info(format!("go on with `agents run resume {}`", run.id));
    }
    Ok(report.ok("Run loaded"))
}

/// What a run that waits asks.
fn asks(question: &OpenQuestion) -> Panel {
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

fn newest(runs: &RunService) -> Result<RunId, CommandError> {
    let page = runs.list(RunFilter {
        limit: 1,
        ..RunFilter::default()
    })?;
    page.runs.first().map(|(run, _)| run.id).ok_or_else(|| {
        CommandError::new(Code::RunNotFound, "there is no run yet")
            .with_hint("`agents actor run NAME 'PROMPT'` makes one")
    })
}

fn steps(steps: &[StepView]) -> Table {
    Table::new("Steps")
        .column("#", Align::Right)
        .column("Step", Align::Left)
        .column("Kind", Align::Left)
        .column("Took", Align::Right)
        .column("Changes", Align::Left)
        .column("Next", Align::Left)
        .empty("No step is finished yet")
        .rows(steps.iter().map(|view| {
            let step = &view.step;
            let changes = match &step.error {
                Some(error) => Cell::Bad(short(error, SHOWN)),
                None => short(&changes(&step.update), SHOWN).into(),
            };
            vec![
                view.number.into(),
                step.path.as_str().into(),
                step.kind.as_str().into(),
                Cell::Seconds(seconds(step.started_ms, step.ended_ms)),
                changes,
                step.next.clone().into(),
            ]
        }))
}

/// What a step changed, on a line.
fn changes(update: &serde_json::Map<String, Value>) -> String {
    let parts: Vec<String> = update
        .iter()
        // The conversation grows with every answer, which stands in its own key too.
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

#[expect(
    clippy::cast_precision_loss,
    reason = "a duration for people needs no more digits"
)]
fn seconds(started: u64, ended: u64) -> f64 {
    ended.saturating_sub(started) as f64 / 1e3
}

fn data(view: &RunView) -> Value {
    let run = &view.run;
    let is_cost_known = view.is_cost_known;
    let told = summary(run, is_cost_known);
    json!({
        "run": told,
        "owner": view.owner,
        "questions": view.questions,
        "input": run.input,
        "options": run.options,
        "result": run.result,
        "steps": view.steps.iter().map(|view| {
            let step = &view.step;
            json!({
                "number": view.number,
                "path": step.path,
                "kind": step.kind,
                "update": step.update,
                "next": step.next,
                "error": step.error,
                "duration_s": seconds(step.started_ms, step.ended_ms),
                "usage": {
                    "tokens": step.taken.usage.input_tokens.0 + step.taken.usage.output_tokens.0,
                    "cost_usd": (is_cost_known || step.taken.model_calls == 0)
                        .then(|| step.taken.usage.cost_micro_usd.as_usd()),
                    "model_calls": step.taken.model_calls,
                    "tool_calls": step.taken.tool_calls,
                },
                "stored": view.stored_at,
            })
        }).collect::<Vec<_>>(),
    })
}
