//! `run`: runs of actors, to be looked at, gone on with, stopped and walked again.

mod show;

use cleveragents_application::{OpenQuestion, RunService, RunServiceError};
use cleveragents_domain::{ActorName, Run as StoredRun, RunState};
use cleveragents_store::runs::RunFilter;
use serde_json::{Value, json};

use crate::arguments::{Run, RunList, RunStateName};
use crate::commands::actor::launch;
use crate::commands::turn_view::short;
use crate::commands::{cost_cell, counted, put_cost};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: Run) -> Result<Report, CommandError> {
    let runs = context.runs()?;
    match command {
        Run::List(filter) => list(&runs, &filter),
        Run::Show { run } => show::run(&runs, run.as_deref()),
        Run::Resume(arguments) => launch::resume(context, &runs, &arguments),
        Run::Cancel { run } => cancel(&runs, &run.run),
        Run::Replay { run } => replay(context, &runs, &run.run),
    }
}

fn list(runs: &RunService, arguments: &RunList) -> Result<Report, CommandError> {
    let page = runs.list(RunFilter {
        actor: arguments.actor.as_deref().map(whole_name),
        state: arguments.state.map(RunStateName::state),
        offset: arguments.offset,
        limit: arguments.limit,
        ..RunFilter::default()
    })?;
    let (count, matching) = (page.runs.len(), page.matching);
    let known: Vec<bool> = page
        .runs
        .iter()
        .map(|(run, _)| runs.is_cost_known(run.id))
        .collect::<Result<_, _>>()?;
    let questions: Vec<Option<OpenQuestion>> = page
        .runs
        .iter()
        .map(|(run, _)| Ok(runs.questions(run)?.pop()))
        .collect::<Result<_, RunServiceError>>()?;
    let table = Table::new("Runs")
        .column("Id", Align::Left)
        .column("Actor", Align::Left)
        .column("State", Align::Left)
        .column("Steps", Align::Right)
        .column("Cost", Align::Right)
        .column("Began", Align::Left)
        .empty("No run matches")
        .rows(page.runs.iter().zip(&known).map(|((run, steps), known)| {
            vec![
                Cell::Id(run.id.to_string()),
                run.actor.as_str().into(),
                state_cell(run.state),
                (*steps).into(),
                cost_cell(run.usage.cost_micro_usd, *known),
                run.started_at.into(),
            ]
        }));
    let entries: Vec<Value> = page
        .runs
        .iter()
        .zip(&known)
        .zip(&questions)
        .map(|(((run, steps), known), question)| {
            let mut entry = summary(run, *known);
            entry["steps"] = json!(steps);
            entry["question"] = json!(question);
            entry
        })
        .collect();
    let report = Report::new("run list")
        .data(json!({"runs": entries, "summary": {"shown": count, "matching": matching}}))
        .table(table);
    let next = arguments.offset.saturating_add(count as u64);
    let report = if count > 0 && next < matching {
        report.info(format!(
            "older ones: repeat the command with --offset {next}"
        ))
    } else {
        report
    };
    let waiting = page.runs.iter().zip(&questions);
    let report = waiting.fold(report, |report, ((run, _), question)| match question {
        Some(question) => report.info(format!(
            "{} asks: {} — `agents run resume {} --answer TEXT`",
            run.id,
            short(&question.sentence(), 200),
            run.id
        )),
        None => report,
    });
    Ok(report.ok(format!("{} listed", counted(count, "run"))))
}

/// The name under which runs of an actor are stored: without a namespace it is one of ours.
fn whole_name(name: &str) -> String {
    match name.parse::<ActorName>() {
        Ok(whole) if !name.contains('/') => whole.to_string(),
        _ => name.to_owned(),
    }
}

pub(super) fn state_cell(state: RunState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        RunState::Complete => Cell::Good(text),
        RunState::Running | RunState::Waiting => Cell::Warn(text),
        RunState::Failed | RunState::Cancelled => Cell::Bad(text),
    }
}

/// A run as programs read it, without its steps.
pub(in crate::commands) fn summary(run: &StoredRun, is_cost_known: bool) -> Value {
    let mut data = json!({
        "id": run.id,
        "namespace": run.namespace,
        "actor": run.actor,
        "config_hash": run.actor_hash,
        "state": run.state,
        "error": run.error,
        "error_code": run.error_code,
        "attempts": run.attempts,
        "started": run.started_at,
        "updated": run.updated_at,
        "ended": run.ended_at,
        "usage": {
            "tokens": run.usage.input_tokens.0 + run.usage.output_tokens.0,
            "input_tokens": run.usage.input_tokens,
            "output_tokens": run.usage.output_tokens,
            "cost_usd": null,
            "model_calls": run.model_calls,
            "tool_calls": run.tool_calls,
        },
    });
    let cost = run.usage.cost_micro_usd;
    put_cost(&mut data["usage"], "cost_usd", cost, is_cost_known);
    data
}

fn cancel(runs: &RunService, reference: &str) -> Result<Report, CommandError> {
    let id = runs.resolve(reference)?.id;
    let is_over = runs.cancel(id)?;
    let run = runs.get(id)?;
    let report = Report::new("run cancel")
        .data(json!({"run": summary(&run, runs.is_cost_known(id)?), "is_over": is_over}))
        .panel(
            Panel::new("Run")
                .row("Id", Cell::Id(id.to_string()))
                .row("Actor", run.actor.clone())
                .row("State", state_cell(run.state)),
        );
    Ok(if is_over {
        report.ok("Run cancelled")
    } else {
        report.ok("Whoever works on the run was asked to stop")
    })
}

fn replay(context: &Context, runs: &RunService, reference: &str) -> Result<Report, CommandError> {
    let run = runs.resolve(reference)?;
    if run.state != RunState::Complete {
        let message = format!(
            "the run {} is {}: only one that came to its end can be replayed",
            run.id,
            run.state.as_str()
        );
        return Err(
            CommandError::new(cleveragents_domain::Code::RunOver, message)
                .with_hint(format!("go on with it: `agents run resume {}`", run.id)),
        );
    }
    let actor = launch::stored_actor(context, runs, run.id)?;
    let outcome = runs.replay(run.id, &actor).map_err(|error| match error {
        RunServiceError::Stopped(stopped) => CommandError::new(
            cleveragents_domain::Code::ReplayDiffers,
            format!("the replay of {} stopped: {}", run.id, stopped.why),
        )
        .with_hint("the program walks the graph in another way than the one that ran it"),
        other => other.into(),
    })?;
    Ok(Report::new("run replay")
        .data(json!({
            "run": summary(&run, runs.is_cost_known(run.id)?),
            "replay": {
                "steps": outcome.steps,
                "recalled": outcome.recalled,
                "is_identical": true,
                "output": outcome.output,
            },
        }))
        .panel(
            Panel::new("Replay")
                .row("Run", Cell::Id(run.id.to_string()))
                .row("Actor", run.actor.clone())
                .row("Steps", outcome.steps)
                .row("Result", Cell::Good("identical".to_owned())),
        )
        .ok("Replayed: every step came from the store, and the last state is the same"))
}
