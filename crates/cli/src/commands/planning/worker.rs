//! `agents worker`, and plans that are left to one.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_application::plan_operations::next_steps;
use cleveragents_application::{
    OperationError, Queued, SafetySelection, Scheduler, Worker, WorkerEvent, WorkerOptions,
    WorkerStarter, WorkerSummary,
};
use cleveragents_domain::{Code, Diagnose as _, Plan};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use serde_json::json;

use super::Desk;
use crate::arguments::Worker as Arguments;
use crate::commands::{counted, signals};
use crate::config::Home;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, visible_lines};

/// Leaves a plan to a worker, and begins one when there is none.
pub(super) fn leave(desk: &Desk<'_>, plan: &Plan, queued: &Queued) -> Result<Report, CommandError> {
    let plan = desk.service.queue(plan.id, queued)?;
    let is_begun = ensure_worker(desk.context)?;
    Ok(Report::new("plan execute")
        .data(json!({
            "plan_id": plan.id, "phase": plan.stage.phase(), "state": plan.shown_state(),
            "queued": true, "worker_begun": is_begun, "next_steps": next_steps(&plan),
        }))
        .panel(
            Panel::new("Execution")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Queued", "for a worker")
                .row("Worker", if is_begun { "begun" } else { "at work" }),
        )
        .info(format!("watch it with `agents plan wait {}`", plan.id))
        .ok("Plan left to a worker"))
}

/// Starts a worker when none is alive; returns whether it did.
pub(super) fn ensure_worker(context: &Context) -> Result<bool, CommandError> {
    let concurrency = context.settings.plan_concurrency();
    let scheduler = Scheduler::new(context.engine()?, concurrency);
    start_unless_running(&scheduler, &context.home)
}

/// Starts workers for operations that queue plans.
pub(crate) fn worker_starter(context: &Context) -> Result<WorkerStarter, CommandError> {
    let (engine, home) = (context.engine()?, context.home.clone());
    let concurrency = context.settings.plan_concurrency();
    Ok(Arc::new(move || {
        let scheduler = Scheduler::new(Arc::clone(&engine), concurrency);
        start_unless_running(&scheduler, &home)?;
        Ok(())
    }))
}

fn start_unless_running(scheduler: &Scheduler, home: &Home) -> Result<bool, CommandError> {
    let has_worker = scheduler.has_worker()?;
    if !has_worker {
        begin_worker(home)?;
    }
    Ok(!has_worker)
}

/// Begins a worker that ends when there is nothing to do.
fn begin_worker(home: &Home) -> Result<(), CommandError> {
    use std::os::unix::process::CommandExt as _;
    let failed = |error: &std::io::Error| {
        CommandError::new(Code::CommandNotStarted, "no worker can be begun")
            .caused_by(error)
            .with_hint("begin one by hand: `agents worker`")
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    home.create()?;
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(home.path().join("worker.log"))
        .map_err(|error| failed(&error))?;
    let errors = log.try_clone().map_err(|error| failed(&error))?;
    std::process::Command::new(program)
        .args(["--format", "plain", "worker", "--until-idle"])
        .stdin(std::process::Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Not a child of the terminal: it outlives this command.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(&error))?;
    Ok(())
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Report, CommandError> {
    let desk = Desk::new(context)?;
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = signals::stop_on_signals(context, &cancel, &stop)?;
    let started = Instant::now();
    let runtime = || {
        let runtime = context.runtime(&SafetySelection::default(), None);
        runtime.map_err(OperationError::from)
    };
    let worker = Worker::new(
        context.engine()?,
        &desk.service,
        context.settings.plan_concurrency(),
        WorkerOptions {
            concurrency: arguments.concurrency,
            until_idle: arguments.until_idle,
            runtime: &runtime,
            observer: &print_event,
            cancel: &cancel,
        },
    );
    let id = worker.id();
    let summary = worker.run();
    signals.end();
    Ok(report(id, &summary?, started.elapsed()))
}

/// One line on standard error for each plan; nobody may be there to read it.
fn print_event(event: &WorkerEvent<'_>) {
    let line = match event {
        WorkerEvent::Ran(plan) => format!("plan {}: {}", plan.id, plan.stage),
        WorkerEvent::Ended {
            plan,
            error,
            is_failure: false,
        } => format!("plan {plan}: {error}"),
        WorkerEvent::Ended { plan, error, .. } => {
            format!("plan {plan}: {error} ({})", error.code().as_str())
        }
    };
    let _printed = writeln!(std::io::stderr(), "{}", visible_lines(&line));
}

/// What a worker did, and whether all of it came to its end.
fn report(id: cleveragents_domain::ProcessId, tally: &WorkerSummary, elapsed: Duration) -> Report {
    let report = Report::new("worker")
        .data(json!({
            "worker": id, "processed": tally.done, "failed": tally.failed,
            "waiting": tally.waiting, "stopped": tally.stopped, "duration_s": elapsed.as_secs_f64(),
        }))
        .panel(
            Panel::new("Worker")
                .row("Done", tally.done)
                .row("Failed", tally.failed)
                .row("Wait for a person", tally.waiting)
                .row("Stopped", tally.stopped),
        );
    if tally.stopped > 0 {
        let message = format!(
            "{} stopped; the next worker goes on",
            counted(tally.stopped, "plan")
        );
        let hint = "begin one: `agents worker`";
        report
            .failed(Code::PlanCancelled, message, hint)
            .interrupted()
    } else if tally.failed > 0 {
        let message = format!("{} failed", counted(tally.failed, "plan"));
        let hint = "see which: `agents plan list --state errored`";
        report.failed(Code::PlanFailed, message, hint)
    } else {
        // Ending a worker that has nothing to do is what signals are for.
        report.ok("Worker ended")
    }
}
