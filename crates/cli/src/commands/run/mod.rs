//! `run`: shows, resumes, cancels and replays runs of actors.

mod show;

use cleveragents_application::run_operations::{CancelRun, ListRuns, ListedRun, ReplayRun};
use cleveragents_domain::RunState;

use crate::arguments::{Run, RunList, RunStateName};
use crate::commands::actor::launch;
use crate::commands::turn_view::short;
use crate::commands::{cost_cell, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "run cancel",
    "run list",
    "run replay",
    "run resume",
    "run show",
];

pub(super) fn run(context: &Context, command: Run) -> Result<Report, CommandError> {
    match command {
        Run::List(filter) => list(context, filter),
        Run::Show { run } => show::run(context, run),
        Run::Resume(arguments) => launch::resume(context, arguments),
        Run::Cancel { run } => cancel(context, run.run),
        Run::Replay { run } => replay(context, run.run),
    }
}

fn row(listed: &ListedRun) -> Vec<Cell> {
    let run = &listed.run;
    let (cost, is_cost_known) = run.usage.known_cost();
    vec![
        Cell::Id(run.id.to_string()),
        run.actor.as_str().into(),
        state_cell(run.state),
        listed.steps.into(),
        cost_cell(cost, is_cost_known),
        run.started.into(),
    ]
}

fn list(context: &Context, arguments: RunList) -> Result<Report, CommandError> {
    let offset = arguments.offset;
    let listed = context.call(ListRuns {
        actor: arguments.actor,
        state: arguments.state.map(RunStateName::state),
        limit: arguments.limit,
        offset,
    })?;
    let (count, matching) = (listed.summary.shown, listed.summary.matching);
    let table = Table::new("Runs")
        .column("Id", Align::Left)
        .column("Actor", Align::Left)
        .column("State", Align::Left)
        .column("Steps", Align::Right)
        .column("Cost", Align::Right)
        .column("Began", Align::Left)
        .keep(["Actor", "State"])
        .drop_first(["Steps", "Cost"])
        .empty("No run matches")
        .rows(listed.runs.iter().map(row));
    let mut report = Report::new("run list").table(table);
    let next = offset.saturating_add(count);
    if count > 0 && next < matching {
        report = report.info(format!(
            "older runs: repeat the command with --offset {next}"
        ));
    }
    for waiting in &listed.runs {
        if let Some(question) = &waiting.question {
            let id = waiting.run.id;
            let text = short(&question.sentence(), 200);
            report = report.info(format!(
                "{id} asks: {text} — `agents run resume {id} --answer TEXT`"
            ));
        }
    }
    Ok(report
        .data(listed)
        .ok(format!("{} listed", counted(count, "run"))))
}

fn state_cell(state: RunState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        RunState::Complete => Cell::Good(text),
        RunState::Running | RunState::Waiting => Cell::Warn(text),
        RunState::Failed | RunState::Cancelled => Cell::Bad(text),
    }
}

fn cancel(context: &Context, run: String) -> Result<Report, CommandError> {
    let cancelled = context.call(CancelRun { run })?;
    let (run, is_over) = (&cancelled.run, cancelled.is_over);
    let report = Report::new("run cancel")
        .panel(
            Panel::new("Run")
                .row("Id", Cell::Id(run.id.to_string()))
                .row("Actor", run.actor.clone())
                .row("State", state_cell(run.state)),
        )
        .data(cancelled);
    Ok(if is_over {
        report.ok("Run cancelled")
    } else {
        report.ok("Asked the process of the run to stop")
    })
}

fn replay(context: &Context, run: String) -> Result<Report, CommandError> {
    let replayed = context.call(ReplayRun { run })?;
    let run = &replayed.run;
    Ok(Report::new("run replay")
        .panel(
            Panel::new("Replay")
                .row("Run", Cell::Id(run.id.to_string()))
                .row("Actor", run.actor.clone())
                .row("Steps", replayed.replay.steps)
                .row("Result", Cell::Good("identical".to_owned())),
        )
        .data(replayed)
        .ok("Replayed from stored steps; the final state is identical"))
}
