//! `agents worker`, and queueing plans for workers.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_application::plan_operations::{QueuePlan, QueuedPlan, ShowPlanStatus};
use cleveragents_application::pool_role_operations::{PoolRun, RunPools};
use cleveragents_application::{
    AgentEvent, FrontEnd, NoApprover, Observer, OperationError, PlanService, SafetySelection,
    Scheduler, Worker, WorkerEvent, WorkerOptions, WorkerStarter, WorkerSummary,
};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use serde_json::json;

use crate::arguments::Worker as Arguments;
use crate::commands::pool::attempts_panel;
use crate::commands::{counted, signals};
use crate::config::Home;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, visible_lines};
use crate::remote::Connection;

/// Queues a plan for a worker. If a server is connected, the server runs the plan itself.
pub(super) fn queue(
    context: &Context,
    reference: Option<String>,
    redo: bool,
    skip: bool,
) -> Result<Report, CommandError> {
    if let Some(connection) = &context.connection {
        return queue_on_server(context, connection, reference, redo || skip);
    }
    let queued = context.call(QueuePlan {
        reference,
        redo,
        skip,
    })?;
    let plan = queued.plan_id;
    let worker = if queued.worker_begun {
        "started"
    } else {
        "running"
    };
    Ok(Report::new("plan execute")
        .panel(
            Panel::new("Execution")
                .row("Plan", Cell::Id(plan.to_string()))
                .row("Queued", "for a worker")
                .row("Worker", worker),
        )
        .data(queued)
        .commands_at(&["/next_steps"])
        .info(format!("watch it with `agents plan wait {plan}`"))
        .ok("Plan queued for a worker"))
}

/// Queues a plan on the server, which stores the request before it responds.
fn queue_on_server(
    context: &Context,
    connection: &Connection,
    reference: Option<String>,
    sets_call_outcome: bool,
) -> Result<Report, CommandError> {
    if sets_call_outcome {
        let message =
            "--retry and --skip are not available for plans that a server runs in the background";
        return Err(CommandError::new(Code::LocalOnly, message)
            .with_hint("repeat the command without --background"));
    }
    let plan = context.call(ShowPlanStatus { reference })?.plan_id;
    connection.post(&format!("/api/v1/plans/{plan}/execute"), &json!({}))?;
    let status = context.call(ShowPlanStatus {
        reference: Some(plan.to_string()),
    })?;
    Ok(Report::new("plan execute")
        .data(QueuedPlan {
            plan_id: plan,
            phase: status.phase,
            state: status.state,
            queued: true,
            worker_begun: false,
            next_steps: status.next_steps,
        })
        .commands_at(&["/next_steps"])
        .panel(
            Panel::new("Execution")
                .row("Plan", Cell::Id(plan.to_string()))
                .row("Queued", "for the server"),
        )
        .info(format!("watch it with `agents plan wait {plan}`"))
        .ok("Plan queued on the server"))
}

/// Starts workers for operations that queue plans.
pub(crate) fn worker_starter(context: &Context) -> Result<WorkerStarter, CommandError> {
    let (engine, home) = (context.engine()?, context.home.clone());
    let concurrency = context.settings.plan_concurrency();
    Ok(Arc::new(move || {
        let scheduler = Scheduler::new(Arc::clone(&engine), concurrency);
        Ok(start_unless_running(&scheduler, &home)?)
    }))
}

fn start_unless_running(scheduler: &Scheduler, home: &Home) -> Result<bool, CommandError> {
    let has_worker = scheduler.has_worker()?;
    if !has_worker {
        start_worker(home)?;
    }
    Ok(!has_worker)
}

/// Starts a worker that exits when the queue is empty.
fn start_worker(home: &Home) -> Result<(), CommandError> {
    use std::os::unix::process::CommandExt as _;
    let failed = |error: &std::io::Error| {
        CommandError::new(Code::CommandNotStarted, "cannot start a worker")
            .caused_by(error)
            .with_hint("start one: `agents worker`")
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
        // A new process group: the worker outlives this command and its terminal.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(&error))?;
    Ok(())
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Report, CommandError> {
    let plans = PlanService::new(
        context.engine()?,
        context.sessions()?,
        context.sandboxes()?,
        Arc::new(context.variables()),
    )
    .with_policy(context.settings.sandbox_policy().clone())
    .with_max_child_depth(context.settings.max_child_depth());
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = signals::stop_on_signals(&cancel, &stop)?;
    let started = Instant::now();
    let runtime = || {
        let runtime = context.runtime(&SafetySelection::default(), None);
        runtime.map_err(OperationError::from)
    };
    let worker = Worker::new(
        context.engine()?,
        &plans,
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
    let (summary, attempts) = std::thread::scope(|scope| {
        let pools = (!arguments.until_idle).then(|| {
            scope.spawn(|| {
                let attempts = run_pools(context, arguments.concurrency, &cancel);
                if attempts.is_err() {
                    cancel.cancel();
                }
                attempts
            })
        });
        let summary = worker.run();
        // Nothing remains to do for the pools if the worker failed.
        cancel.cancel();
        let attempts = pools.map(|pools| {
            let ended = pools.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (summary, attempts)
    });
    signals.end();
    Ok(report(
        id,
        &summary?,
        attempts.transpose()?.as_ref(),
        started.elapsed(),
    ))
}

/// Starts attempts of active pools until it is cancelled.
fn run_pools(
    context: &Context,
    own_limit: Option<u64>,
    cancel: &Cancel,
) -> Result<PoolRun, CommandError> {
    let request = RunPools {
        own_limit,
        keep_waiting: true,
        ..RunPools::default()
    };
    let front_end = FrontEnd {
        approver: Arc::new(NoApprover),
        observer: Arc::new(NotePrinter),
    };
    context.call_observed(request, &front_end, cancel)
}

/// Prints the notes of pools to standard error, one line each.
struct NotePrinter;

impl Observer for NotePrinter {
    fn event(&self, event: &AgentEvent) {
        if let AgentEvent::Note { text } = event {
            let _printed = writeln!(std::io::stderr(), "{}", visible_lines(text));
        }
    }

    fn is_watching(&self) -> bool {
        false
    }
}

/// Prints one line per plan to standard error, which may be closed.
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

/// Report of a worker; fails if a plan failed.
fn report(
    id: cleveragents_domain::ProcessId,
    summary: &WorkerSummary,
    attempts: Option<&PoolRun>,
    elapsed: Duration,
) -> Report {
    let mut report = Report::new("worker")
        .data(json!({
            "worker": id, "processed": summary.done, "failed": summary.failed,
            "waiting": summary.waiting, "stopped": summary.stopped, "attempts": attempts,
            "duration_s": elapsed.as_secs_f64(),
        }))
        .panel(
            Panel::new("Plans")
                .row("Done", summary.done)
                .row("Failed", summary.failed)
                .row("Waiting for input", summary.waiting)
                .row("Stopped", summary.stopped),
        );
    if let Some(attempts) = attempts.filter(|attempts| attempts.started > 0) {
        report = report.panel(attempts_panel(attempts));
        if attempts.escalated > 0 {
            report = report.info("items for you: `agents item list --state needs_person`");
        }
    }
    if summary.stopped > 0 {
        let message = format!(
            "{} stopped; the next worker continues",
            counted(summary.stopped, "plan")
        );
        let hint = "start one: `agents worker`";
        report
            .failed(Code::PlanCancelled, message, hint)
            .interrupted()
    } else if summary.failed > 0 {
        let message = format!("{} failed", counted(summary.failed, "plan"));
        let hint = "list them: `agents plan list --state errored`";
        report.failed(Code::PlanFailed, message, hint)
    } else {
        // Stopping an idle worker by a signal is not an error.
        report.ok("Worker stopped")
    }
}
