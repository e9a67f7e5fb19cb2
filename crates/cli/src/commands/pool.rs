//! `pool`: workers with one role on the items of a project.

use std::path::Path;

use cleveragents_application::Operation;
use cleveragents_application::pool_operations::{
    AddPool, DrainPool, ListPools, PausePool, PlanPools, PoolBoard, PoolInfo, PoolStateChange,
    PoolStatusRequest, RemovePool, ResumePool, ShowPool, StopPool,
};
use cleveragents_application::pool_role_operations::{
    ListReadyMadePools, PoolRun, ReadyMadePoolFile, RunPools,
};
use cleveragents_domain::{DefinitionKind, MicroUsd, PoolState};

use super::definition::{
    DefinitionInput, listed as listed_sentence, read_input, registered, remove,
};
use super::item::state_cell;
use super::plan::lifecycle::call_interactive;
use super::{counted, write_and_report};
use crate::arguments::{Pool as Command, PoolCommand, PoolStatus};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::Pool;

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "pool add",
    "pool drain",
    "pool library",
    "pool list",
    "pool pause",
    "pool plan",
    "pool remove",
    "pool resume",
    "pool show",
    "pool status",
    "pool stop",
];

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Add { .. } => "pool add",
        Command::Library { .. } => "pool library",
        Command::List => "pool list",
        Command::Show { .. } => "pool show",
        Command::Status(_) => "pool status",
        Command::Plan { .. } | Command::Run { dry_run: true, .. } => "pool plan",
        Command::Run { .. } => "pool run",
        Command::Pause(_) => "pool pause",
        Command::Resume(_) => "pool resume",
        Command::Drain(_) => "pool drain",
        Command::Stop(_) => "pool stop",
        Command::Remove { .. } => "pool remove",
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    let split = |command: PoolCommand| (command.name, command.reason);
    match command {
        Command::Add { config, update } => add(context, &config, update),
        Command::Library { name, project } => library(context, name, project),
        Command::List => list(context),
        Command::Show { name } => {
            let shown = context.call(ShowPool { name })?;
            let report = details(Report::new("pool show"), &shown.pool);
            Ok(report.data(shown).ok("Pool shown"))
        }
        Command::Status(arguments) => status(context, arguments),
        Command::Plan { name, capacity }
        | Command::Run {
            name,
            capacity,
            dry_run: true,
            ..
        } => plan(context, PlanPools { name, capacity }),
        Command::Run {
            name,
            capacity,
            until_idle,
            ..
        } => run_pools(
            context,
            RunPools {
                name,
                capacity,
                keep_waiting: !until_idle,
                ..RunPools::default()
            },
        ),
        Command::Pause(command) => {
            let (name, reason) = split(command);
            change(context, "pool pause", PausePool { name, reason })
        }
        Command::Resume(command) => {
            let (name, reason) = split(command);
            change(context, "pool resume", ResumePool { name, reason })
        }
        Command::Drain(command) => {
            let (name, reason) = split(command);
            change(context, "pool drain", DrainPool { name, reason })
        }
        Command::Stop(command) => {
            let (name, reason) = split(command);
            change(context, "pool stop", StopPool { name, reason })
        }
        Command::Remove { name, deletion } => {
            remove(context, "pool remove", KIND, deletion, |yes, dry_run| {
                RemovePool {
                    name: name.clone(),
                    yes,
                    dry_run,
                }
            })
        }
    }
}

/// The number of attempts of a pool run, by outcome.
pub(in crate::commands) fn attempts_panel(run: &PoolRun) -> Panel {
    Panel::new("Attempts")
        .row("Started", run.started)
        .row("Succeeded", run.succeeded)
        .row("Failed", run.failed)
        .row("Interrupted", run.interrupted)
        .row("Items for you", run.escalated)
}

fn run_pools(context: &Context, request: RunPools) -> Result<Report, CommandError> {
    let run = call_interactive(context, request, false)?;
    let report = Report::new("pool run").panel(attempts_panel(&run));
    let report = if run.active_pools == 0 {
        report.info("no pool is active: `agents pool list` shows the pools, `agents pool library` ready-made ones")
    } else if run.started == 0 {
        report.info("why items wait: `agents pool plan`")
    } else if run.escalated > 0 {
        report.info("see them: `agents item list --state needs_person`")
    } else {
        report
    };
    Ok(report.data(run).ok("Pools stopped"))
}

fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let added = context.call(AddPool {
        text,
        source,
        update,
    })?;
    let sentence = registered(KIND, added.outcome, "added");
    let report = details(Report::new("pool add"), &added.pool);
    Ok(report.data(added).ok(sentence))
}

fn pool_state(state: PoolState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        PoolState::Active => Cell::Good(text),
        PoolState::Draining | PoolState::Paused => Cell::Warn(text),
        PoolState::Stopped => Cell::Bad(text),
    }
}

fn usd(amount: Option<f64>) -> Cell {
    match amount.and_then(MicroUsd::from_usd_rounded_up) {
        Some(amount) => Cell::Money(amount),
        None => Cell::Muted("no limit".to_owned()),
    }
}

fn details(report: Report, pool: &PoolInfo) -> Report {
    let summary = &pool.summary;
    let mut panel = Panel::new("Pool")
        .row("Name", summary.name.clone())
        .row("State", pool_state(summary.state));
    if let Some(reason) = &pool.reason {
        panel = panel.row("Reason", reason.clone());
    }
    let (Some(listed), Some(details)) = (&summary.definition, &pool.details) else {
        let problem = summary.problem.clone().unwrap_or_default();
        return report.panel(panel.row("Problem", Cell::Bad(problem)));
    };
    let states: Vec<&str> = details.states.iter().map(|state| state.as_str()).collect();
    panel = panel
        .row("Role", listed.role.as_str())
        .row("Project", listed.project.clone())
        .row("Description", listed.description.clone())
        .row("Takes items", states.join(", "))
        .row("Workers", u64::from(listed.workers))
        .row("Attempts per tier", u64::from(details.attempts_per_tier));
    if let Some(limit) = details.open_changes {
        panel = panel.row("Open changes", format!("at most {limit}"));
    }
    for limit in &details.downstream {
        panel = panel.row("Stops at", format!("{} {}", limit.count, limit.state));
    }
    #[expect(clippy::cast_precision_loss, reason = "a duration for display")]
    let deadline = details.deadline_seconds as f64;
    panel = panel
        .row("Deadline", Cell::Seconds(deadline))
        .row("Budget of an attempt", usd(Some(details.budget_attempt)))
        .row("Budget of an item", usd(details.budget_item))
        .row("Budget of a day", usd(details.budget_day))
        .row("Budget in total", usd(details.budget_total))
        .row("Config", pool.config.clone())
        .row("Updated", pool.updated);
    report.panel(panel).table(
        Table::with_columns("Tiers", ["Tier", "Actor"]).rows(
            listed
                .tiers
                .iter()
                .map(|tier| vec![tier.name.as_str().into(), tier.actor.as_str().into()]),
        ),
    )
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let listed = context.call(ListPools {})?;
    let table = Table::new("Pools")
        .column("Name", Align::Left)
        .column("State", Align::Left)
        .column("Role", Align::Left)
        .column("Project", Align::Left)
        .column("Workers", Align::Right)
        .column("Description", Align::Left)
        .keep(["Name", "State"])
        .empty("No pool. Register one with `agents pool add --config FILE`")
        .rows(listed.pools.iter().map(|pool| {
            let mut row = vec![pool.name.as_str().into(), pool_state(pool.state)];
            match &pool.definition {
                Some(definition) => row.extend([
                    definition.role.as_str().into(),
                    definition.project.as_str().into(),
                    u64::from(definition.workers).into(),
                    definition.description.as_str().into(),
                ]),
                None => row.extend([
                    Cell::Bad("broken".to_owned()),
                    Cell::Muted(String::new()),
                    Cell::Muted(String::new()),
                    Cell::Bad(pool.problem.clone().unwrap_or_default()),
                ]),
            }
            row
        }));
    let count = listed.pools.len();
    Ok(Report::new("pool list")
        .table(table)
        .data(listed)
        .ok(listed_sentence(KIND, count)))
}

fn change<O: Operation<Response = PoolStateChange>>(
    context: &Context,
    command: &'static str,
    request: O,
) -> Result<Report, CommandError> {
    let changed = context.call(request)?;
    let panel = Panel::new("Pool")
        .row("Name", changed.name.clone())
        .row("State", pool_state(changed.state));
    let sentence = if changed.is_changed {
        format!("Pool is {}", changed.state)
    } else {
        format!("Pool was {} already", changed.state)
    };
    Ok(Report::new(command).panel(panel).data(changed).ok(sentence))
}

fn plan(context: &Context, request: PlanPools) -> Result<Report, CommandError> {
    let planned = context.call(request)?;
    let starts = Table::new("Would start")
        .column("Item", Align::Left)
        .column("Pool", Align::Left)
        .column("Tier", Align::Left)
        .column("Attempt", Align::Right)
        .column("Cost", Align::Right)
        .column("Title", Align::Left)
        .keep(["Item", "Pool", "Tier", "Cost"])
        .empty("Nothing")
        .rows(planned.starts.iter().map(|start| {
            vec![
                Cell::Id(start.item.to_string()),
                start.pool.as_str().into(),
                start.tier.as_str().into(),
                u64::from(start.number).into(),
                usd(Some(start.estimated_cost_usd)),
                start.title.as_str().into(),
            ]
        }));
    let waits = Table::new("Would wait")
        .column("Item", Align::Left)
        .column("State", Align::Left)
        .column("Reason", Align::Left)
        .column("Title", Align::Left)
        .keep(["Item", "Reason"])
        .empty("Nothing")
        .rows(planned.waits.iter().map(|wait| {
            vec![
                Cell::Id(wait.item.to_string()),
                state_cell(wait.state),
                wait.explanation.as_str().into(),
                wait.title.as_str().into(),
            ]
        }));
    let sentence = format!(
        "{} would start, {} would wait",
        counted(planned.starts.len(), "attempt"),
        counted(planned.waits.len(), "item")
    );
    Ok(Report::new("pool plan")
        .table(starts)
        .table(waits)
        .data(planned)
        .ok(sentence))
}

fn status(context: &Context, arguments: PoolStatus) -> Result<Report, CommandError> {
    let board = context.call(PoolStatusRequest {
        name: arguments.name,
        days: arguments.days,
    })?;
    if arguments.drawing.is_some() {
        let svg = board.burn_down_svg();
        return match &arguments.output {
            Some(path) => {
                let report = Report::new("pool status").data(board).ok("Burn-down drawn");
                write_and_report(report, svg, path)
            }
            None => Ok(Report::printed("pool status", svg)),
        };
    }
    let mut report = Report::new("pool status").table(lanes(&board));
    if !board.pools.is_empty() {
        report = with_history(report, &board);
    }
    for alert in &board.alerts {
        report = report.warn(format!("{}: {}", alert.kind, alert.message));
    }
    let sentence = format!("{} shown", counted(board.pools.len(), "pool"));
    Ok(report.data(board).ok(sentence))
}

/// Adds the items per state and the last days.
fn with_history(report: Report, board: &PoolBoard) -> Report {
    let report = report.table(
        Table::with_columns("Items", ["State", "Count"]).rows(
            board
                .items
                .iter()
                .map(|count| vec![state_cell(count.state), count.count.into()]),
        ),
    );
    report.table(
        Table::with_columns("Days", ["Day", "Open", "Opened", "Merged", "Closed"]).rows(
            board.history.iter().rev().take(7).map(|day| {
                vec![
                    day.day.as_str().into(),
                    day.open.into(),
                    day.opened.into(),
                    day.merged.into(),
                    day.closed.into(),
                ]
            }),
        ),
    )
}

fn lanes(board: &PoolBoard) -> Table {
    Table::new("Pools")
        .column("Pool", Align::Left)
        .column("State", Align::Left)
        .column("Queue", Align::Right)
        .column("Oldest", Align::Right)
        .column("Running", Align::Right)
        .column("Success per tier", Align::Left)
        .column("Cost", Align::Right)
        .column("Budget left", Align::Right)
        .keep(["Pool", "State", "Queue"])
        .drop_first(["Budget left", "Cost", "Oldest"])
        .empty("No pool. Register one with `agents pool add --config FILE`")
        .rows(board.pools.iter().map(|pool| {
            let tiers: Vec<String> = pool
                .tiers
                .iter()
                .map(|tier| format!("{} {}/{}", tier.tier, tier.succeeded, tier.attempts))
                .collect();
            #[expect(clippy::cast_precision_loss, reason = "a duration for display")]
            let oldest = pool
                .oldest_seconds
                .map(|seconds| Cell::Seconds(seconds as f64));
            vec![
                pool.name.as_str().into(),
                pool_state(pool.state),
                pool.queue.into(),
                oldest.unwrap_or_else(|| Cell::Muted(String::new())),
                format!("{}/{}", pool.running, pool.workers).into(),
                tiers.join(", ").into(),
                usd(Some(pool.cost_usd)),
                usd(pool.budget_left_usd),
            ]
        }))
}

/// Lists the ready-made pools, or prints the file of one.
fn library(
    context: &Context,
    name: Option<String>,
    project: Option<String>,
) -> Result<Report, CommandError> {
    let is_one = name.is_some();
    let listed = context.call(ListReadyMadePools { name, project })?;
    let report = Report::new("pool library");
    if let (true, [only]) = (is_one, listed.pools.as_slice()) {
        let file = only.file.clone();
        return Ok(report.text(file.trim_end()).data(listed));
    }
    let row = |pool: &ReadyMadePoolFile| {
        vec![pool.name.as_str().into(), pool.description.as_str().into()]
    };
    let table = Table::new("Ready-made pools")
        .column("Name", Align::Left)
        .column("Description", Align::Left)
        .rows(listed.pools.iter().map(row));
    let message = format!("{} listed", counted(listed.pools.len(), "pool"));
    let report = report
        .table(table)
        .info("print one as a file: `agents pool library NAME --project PROJECT > pool.yaml`");
    Ok(report.ok(message).records(listed))
}
