//! `agents worker`: plans that wait for a worker are driven; and slots, of which there are as many as plans
//! may run at the same time.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{
    DriveOptions, HeldLease, LeaseError, LeaseService, PlanQueue, Queued,
};
use cleveragents_domain::{Code, LeaseSubject, Plan, PlanId, PlanPhase, PlanStage, Ttl};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use cleveragents_store::leases;
use serde_json::json;

use super::Desk;
use super::run::{doubt, next_steps};
use super::watcher::Watcher;
use super::world::World;
use crate::arguments::Worker;
use crate::commands::{counted, tooling};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, visible_lines};

/// How often is looked whether there is something to do.
const PAUSE: Duration = Duration::from_millis(250);

/// A slot in which a plan may run; waits for one when all are taken.
pub(super) fn slot(
    desk: &Desk<'_>,
    watcher: &Watcher,
    cancel: &Cancel,
) -> Result<HeldLease, CommandError> {
    use cleveragents_application::PlanWatcher as _;
    let leases = LeaseService::new(desk.context.engine()?);
    let count = desk.context.settings.plan_concurrency();
    let mut is_told = false;
    loop {
        if let Some(slot) = free_slot(&leases, count)? {
            return Ok(slot);
        }
        if cancel.is_cancelled() {
            return Err(CommandError::new(
                Code::PlanCancelled,
                "it was stopped before it began",
            ));
        }
        if !is_told {
            is_told = true;
            watcher.note(&format!(
                "{count} plans are at work, which is the most (plan.concurrency); this one waits"
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

fn free_slot(leases: &LeaseService, count: u64) -> Result<Option<HeldLease>, CommandError> {
    for number in 0..count {
        match leases.acquire(LeaseSubject::new("plan-slot", number), Ttl::default()) {
            Ok(slot) => return Ok(Some(slot)),
            Err(LeaseError::Held { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

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

/// Begins a worker when there is none; says whether it did.
pub(super) fn ensure_worker(context: &Context) -> Result<bool, CommandError> {
    let engine = context.engine()?;
    let held = engine.read(|reader| leases::held(reader))?;
    let stale: BTreeSet<String> = LeaseService::new(engine)
        .stale()?
        .into_iter()
        .map(|lease| lease.subject.to_string())
        .collect();
    let is_worked = held
        .iter()
        .any(|lease| lease.subject.kind == "worker" && !stale.contains(&lease.subject.to_string()));
    if !is_worked {
        begin_worker(context)?;
    }
    Ok(!is_worked)
}

/// Begins a worker that ends when there is nothing to do.
fn begin_worker(context: &Context) -> Result<(), CommandError> {
    use std::os::unix::process::CommandExt as _;
    let failed = |error: &std::io::Error| {
        CommandError::new(Code::CommandNotStarted, "no worker can be begun")
            .caused_by(error)
            .with_hint("begin one by hand: `agents worker`")
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    context.home.create()?;
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(context.home.path().join("worker.log"))
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

/// What a worker did.
#[derive(Default)]
struct Tally {
    done: u64,
    failed: u64,
    waiting: u64,
    /// Stopped by a signal; they stay queued.
    stopped: u64,
    /// What keeps the worker itself from going on.
    trouble: Option<CommandError>,
}

pub(crate) fn run(context: &Context, arguments: &Worker) -> Result<Report, CommandError> {
    let desk = Desk::new(context)?;
    let engine = context.engine()?;
    let service = LeaseService::new(Arc::clone(&engine));
    let queue = PlanQueue::new(engine);
    let id = cleveragents_domain::ProcessId::generate();
    let presence = service.acquire(LeaseSubject::new("worker", id), Ttl::default())?;
    let count = arguments
        .concurrency
        .unwrap_or_else(|| context.settings.plan_concurrency());
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = tooling::stop_on_signals(desk.context, &cancel, &stop)?;
    let tally = Mutex::new(Tally::default());
    let busy: Mutex<BTreeSet<PlanId>> = Mutex::default();
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<(), CommandError> {
        while !cancel.is_cancelled() && !is_troubled(&tally) {
            let wanted = queue.all()?;
            let mut is_idle = busy
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty();
            // Oldest first.
            for (plan, how) in wanted.into_iter().rev() {
                let at_work = busy.lock().unwrap_or_else(PoisonError::into_inner);
                if at_work.contains(&plan.id) {
                    is_idle = false;
                    continue;
                }
                let is_full = at_work.len() as u64 >= count;
                drop(at_work);
                if is_full || plan.waiting.is_some() {
                    continue;
                }
                // What a server drives is its own while it lives.
                if queue.is_served(&how)? {
                    continue;
                }
                // Somebody else may be at it: another worker, or a person.
                if desk.service.owner(plan.id)?.is_some() {
                    is_idle = false;
                    continue;
                }
                let Some(slot) =
                    free_slot(&service, context.settings.plan_concurrency().max(count))?
                else {
                    is_idle = false;
                    break;
                };
                is_idle = false;
                busy.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(plan.id);
                let (busy, tally, cancel) = (&busy, &tally, &cancel);
                scope.spawn(move || {
                    let told = work(context, &plan, cancel, tally);
                    // Nobody may be there to read it.
                    let _told = writeln!(std::io::stderr(), "{}", visible_lines(&told));
                    drop(slot);
                    busy.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(&plan.id);
                });
            }
            if is_idle && arguments.until_idle {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    })?;
    signals.end();
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(trouble) = tally.trouble {
        return Err(trouble);
    }
    presence.release()?;
    Ok(told(id, &tally, started.elapsed()))
}

/// What a worker did, and whether all of it came to its end.
fn told(id: cleveragents_domain::ProcessId, tally: &Tally, elapsed: Duration) -> Report {
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

fn is_troubled(tally: &Mutex<Tally>) -> bool {
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.trouble.is_some()
}

/// Drives one plan and says what came of it.
fn work(context: &Context, plan: &Plan, cancel: &Cancel, tally: &Mutex<Tally>) -> String {
    let id = plan.id;
    let driven = drive_one(context, plan, cancel);
    let kept = keep(context, plan, &driven);
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    // It would be driven again and again.
    tally.trouble = tally.trouble.take().or_else(|| kept.err());
    match driven {
        Ok(plan) => {
            tally.done += 1;
            format!("plan {id}: {}", plan.stage)
        }
        Err(error) if error.exit_code() == 5 => {
            tally.waiting += 1;
            format!("plan {id}: {}", error.message())
        }
        // Another worker was faster.
        Err(error) if error.code() == Code::PlanBusy => {
            format!("plan {id}: {}", error.message())
        }
        Err(error) if cancel.is_cancelled() && error.code() == Code::PlanCancelled => {
            tally.stopped += 1;
            format!("plan {id}: {}", error.message())
        }
        Err(error) => {
            tally.failed += 1;
            format!("plan {id}: {} ({})", error.message(), error.code().as_str())
        }
    }
}

fn drive_one(context: &Context, plan: &Plan, cancel: &Cancel) -> Result<Plan, CommandError> {
    let desk = Desk::new(context)?;
    let how = Queued::of(plan).unwrap_or_default();
    let consent = match plan.stage {
        PlanStage::StrategizeQueued
        | PlanStage::StrategizeProcessing
        | PlanStage::StrategizeErrored => PlanPhase::Strategize,
        _ => PlanPhase::Execute,
    };
    let options = DriveOptions {
        consent: Some(consent),
        doubt: doubt(how.redo, how.skip),
        ..DriveOptions::default()
    };
    let world = World::new(context, cancel)?;
    let watcher = cleveragents_application::Unheard;
    Ok(desk
        .service
        .drive(plan.id, &options, &world, &watcher, cancel)?)
}

/// Leaves a plan to workers, or no longer.
fn keep(
    context: &Context,
    plan: &Plan,
    driven: &Result<Plan, CommandError>,
) -> Result<(), CommandError> {
    // A server was asked for one drive, as far as it goes.
    let comes_back = Queued::of(plan).is_none_or(|how| how.served.is_none());
    match driven {
        // Somebody else has it, or it was interrupted: it stays queued.
        Err(error) if matches!(error.code(), Code::PlanBusy | Code::PlanCancelled) => Ok(()),
        // It waits for a person, whose answer brings it back to a worker.
        Err(error) if comes_back && matches!(error.code(), Code::PlanWaiting) => Ok(()),
        Ok(plan) if comes_back && plan.waiting.is_some() && !plan.stage.is_terminal() => Ok(()),
        _ => Ok(Desk::new(context)?.service.unqueue(plan.id)?),
    }
}
