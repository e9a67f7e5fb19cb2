//! `plan execute`, `plan apply`, `plan resume`: plans are driven.

use cleveragents_application::plan_operations::next_steps;
use cleveragents_application::{
    APPLICABLE_STAGES, DETERMINISTIC, DriveOptions, EXECUTABLE_STAGES, PlanError, PlanFrontEnd,
    Queued, SafetySelection, Scheduler, phase_to_execute, phase_to_resume,
};
use cleveragents_domain::{
    Code, InvocationOutcome, Plan, PlanPhase, PlanStage, StepState, Timestamp, ValidationMode,
};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use cleveragents_sandbox::Landing;
use cleveragents_store::validations;
use serde_json::{Value, json};

use super::Desk;
use super::preview::changes_preview;
use super::watcher::Watcher;
use super::worker;
use crate::arguments::{PlanApply, PlanExecute};
use crate::commands::plan::made_by_commands;
use crate::commands::terminal::Terminal;
use crate::commands::{can_confirm, confirm, cost_cell, counted, put_cost, signals};
use crate::output::{Cell, CommandError, Panel, Report};

/// Runs a plan, and shows it.
pub(super) fn drive(
    desk: &Desk<'_>,
    plan: &Plan,
    options: &DriveOptions,
    is_stream: bool,
) -> Result<Plan, CommandError> {
    let context = desk.context;
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let runtime = context.runtime(&SafetySelection::default(), None)?;
    let watcher = Watcher::new(context, is_stream);
    let mut terminal = Terminal::new(context, &cancel);
    terminal.set_progress(watcher.progress());
    let scheduler = Scheduler::new(context.engine()?, context.settings.plan_concurrency());
    let signals = signals::stop_on_signals(context, &cancel, &stop)?;
    let front_end = PlanFrontEnd {
        approver: &terminal,
        observer: &watcher,
        cancel: &cancel,
    };
    let outcome = scheduler.run(&desk.service, plan, options, &runtime, front_end);
    watcher.end();
    signals.conclude(outcome)
}

pub(super) fn execute(desk: &Desk<'_>, arguments: &PlanExecute) -> Result<Report, CommandError> {
    let plan = desk.chosen(&arguments.plan, &EXECUTABLE_STAGES, "to be carried out")?;
    let queued = Queued {
        redo: arguments.redo,
        skip: arguments.skip,
        served: None,
    };
    if arguments.background {
        return worker::leave(desk, &plan, &queued);
    }
    let options = DriveOptions {
        consent: Some(phase_to_execute(&plan)),
        unknown_outcome: queued.unknown_outcome(),
        ..DriveOptions::default()
    };
    carried_out(desk, &plan, &options, arguments.stream)
}

/// Drives a plan as `plan execute` does that is given nothing but the plan.
pub(super) fn carry_on(desk: &Desk<'_>, plan: &Plan) -> Result<Report, CommandError> {
    let options = DriveOptions {
        consent: Some(phase_to_execute(plan)),
        ..DriveOptions::default()
    };
    carried_out(desk, plan, &options, false)
}

fn carried_out(
    desk: &Desk<'_>,
    plan: &Plan,
    options: &DriveOptions,
    is_stream: bool,
) -> Result<Report, CommandError> {
    let before = desk.book.recorded_work(plan.id)?;
    let was = plan.stage;
    let plan = drive(desk, plan, options, is_stream)?;
    let report = executed("plan execute", desk, &plan)?;
    let is_same = was == plan.stage && before == desk.book.recorded_work(plan.id)?;
    Ok(match plan.stage {
        PlanStage::ExecuteComplete if is_same => {
            report.ok("It was carried out already; nothing was done")
        }
        _ => report.ok(said(&plan)),
    })
}

/// Where a plan is, in a sentence.
pub(super) fn said(plan: &Plan) -> String {
    match plan.stage {
        PlanStage::StrategizeComplete => "Strategy made".to_owned(),
        PlanStage::ExecuteComplete => "Plan executed".to_owned(),
        PlanStage::ApplyApplied => "Changes applied".to_owned(),
        stage => format!("Plan is {stage}"),
    }
}

/// What a plan waits for, and what it found, as panels.
pub(super) fn outcome_rows(report: Report, plan: &Plan) -> Report {
    let mut report = report;
    if let Some(strategy) = &plan.strategy {
        let panel = Panel::new("Strategy")
            .row("Way", strategy.summary.clone())
            .row("Steps", strategy.steps.len())
            .row("Risk", strategy.risk.map(|risk| format!("{risk:.2}")));
        report = report.panel(panel);
    }
    if let Some(waiting) = plan.waiting.as_ref().filter(|_| !plan.stage.is_terminal()) {
        report = report.panel(Panel::new("Waits").row("For", waiting.sentence()));
    }
    report
}

#[expect(clippy::too_many_lines, reason = "one report, field by field")]
fn executed(command: &'static str, desk: &Desk<'_>, plan: &Plan) -> Result<Report, CommandError> {
    let engine = desk.context.engine()?;
    let results = latest(engine.read(|reader| validations::results(reader, plan.id))?);
    let steps = desk.book.steps(plan.id)?;
    let decisions = desk.book.decisions(plan.id)?;
    let sandbox = desk.book.sandbox(plan)?;
    let parts: Vec<Value> = sandbox
        .iter()
        .flat_map(|view| view.stored.iter().zip(&view.members))
        .map(|(stored, member)| {
            json!({
                "alias": stored.alias, "resource": stored.resource, "strategy": stored.strategy,
                "path": member.root.display().to_string(),
            })
        })
        .collect();
    let state = sandbox.as_ref().map(|view| view.sandbox.state.as_str());
    let holding = decisions.iter().filter(|decision| decision.holds());
    let invariants = holding
        .clone()
        .filter(|decision| decision.said.kind.as_str() == "invariant_enforced")
        .count();
    let strategy = plan.strategy.as_ref();
    let done: Vec<_> = steps
        .iter()
        .filter(|step| step.undone_by.is_none() && step.state == StepState::Done)
        .collect();
    let is_executed =
        plan.stage.phase() > PlanPhase::Execute || plan.stage == PlanStage::ExecuteComplete;
    let word = |is_done: bool| if is_done { "done" } else { "pending" };
    let calls = desk.book.calls(plan.id)?;
    let calls = calls
        .iter()
        .filter(|call| call.outcome == InvocationOutcome::Succeeded)
        .count();
    let changed = match &sandbox {
        Some(_) => desk.book.recorded_changes(plan)?.file_count(),
        None => 0,
    };
    // What the rows say, whatever the stage: a phase can be complete without a call or a change.
    let amount = |count: usize| match (count, is_executed) {
        (0, true) => "none",
        (0, false) => "pending",
        (_, true) => "done",
        (_, false) => "partial",
    };
    let told: Vec<Value> = results.iter().map(|stored| json!(stored.result)).collect();
    let failed = results
        .iter()
        .filter(|stored| !stored.result.passed && stored.result.mode == ValidationMode::Required)
        .count();
    let is_cost_known = desk.book.is_cost_known(plan.id)?;
    let report = Report::new(command)
        .data(json!({
            "plan_id": plan.id,
            "phase": plan.stage.phase(),
            "state": plan.shown_state(),
            "sandbox": {
                "strategy": parts.first().map(|part| part["strategy"].clone()),
                "path": parts.first().map(|part| part["path"].clone()),
                "branch": null,
                "status": state,
                "name": plan.sandbox,
                "parts": parts,
            },
            "worker": cleveragents_application::current_owner().to_string(),
            "started": plan.started_at,
            "attempt": plan.attempt,
            "strategy_summary": {
                "decisions": holding.count(),
                "invariants": invariants,
                "planned_child_plans": 0,
                "estimated_files": strategy.map(|strategy| strategy.files().len()),
                "risk": strategy.and_then(|strategy| strategy.risk),
            },
            "progress": [
                {"label": "Collect context", "status": word(strategy.is_some())},
                {"label": "Run tools", "status": amount(calls), "count": calls},
                {"label": "Build changeset", "status": amount(changed), "count": changed},
                {
                    "label": "Validate",
                    "status": if failed > 0 { "failed" } else { amount(results.len()) },
                    "count": results.len(),
                },
            ],
            "steps": done.iter().map(|step| json!({
                "path": step.path, "title": step.title, "summary": step.summary,
            })).collect::<Vec<_>>(),
            "validations": told,
            "waiting": plan.waiting,
            "next_steps": next_steps(plan),
        }))
        .panel(
            Panel::new("Execution")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Phase", plan.stage.phase().as_str())
                .row("State", plan.shown_state().as_str())
                .row("Sandbox", plan.sandbox.clone())
                .row("Attempt", plan.attempt)
                .row(
                    "Steps done",
                    done.iter()
                        .filter(|step| step.path.starts_with("step/"))
                        .count(),
                )
                .row("Tool calls", calls)
                .row("Files changed", changed)
                .row(
                    "Tokens",
                    plan.usage.input_tokens.0 + plan.usage.output_tokens.0,
                )
                .row("Cost", cost_cell(plan.usage.cost_micro_usd, is_cost_known)),
        );
    let report = if results.is_empty() {
        report
    } else {
        let passed = results.iter().filter(|stored| stored.result.passed).count();
        report.panel(
            Panel::new("Validations")
                .row("Ran", results.len())
                .row("Passed", passed)
                .row("Required and failed", failed),
        )
    };
    let report = outcome_rows(report, plan);
    // What a plan that only looks found is its result.
    let mut of_steps = done.iter().filter(|step| step.path.starts_with("step/"));
    let report = match of_steps.next_back().filter(|_| plan.made_with.read_only) {
        Some(last) => report.text(last.summary.clone().unwrap_or_default()),
        None => report,
    };
    let pending = desk.book.pending_guidance(plan.id)?;
    let report = if pending > 0 && plan.made_with.actors.execution == DETERMINISTIC {
        report.warn(format!(
            "guidance is pending ({pending}): `{DETERMINISTIC}` cannot read it, and nothing was done about it"
        ))
    } else {
        report
    };
    Ok(match next_steps(plan).first() {
        Some(next) if !plan.stage.is_terminal() => report.info(format!("next: `{next}`")),
        _ => report,
    })
}

/// The last result of each validation: earlier ones were about something else.
fn latest(all: Vec<validations::StoredResult>) -> Vec<validations::StoredResult> {
    let mut last: Vec<validations::StoredResult> = Vec::new();
    for stored in all {
        let is_same = |known: &validations::StoredResult| {
            known.result.attachment_id == stored.result.attachment_id
                && known.result.validation == stored.result.validation
        };
        last.retain(|known| !is_same(known));
        last.push(stored);
    }
    last
}

pub(super) fn resume(
    desk: &Desk<'_>,
    plan: &Plan,
    is_dry: bool,
    is_stream: bool,
) -> Result<Report, CommandError> {
    if is_dry {
        let steps = desk.book.steps(plan.id)?;
        let last = steps.iter().rev().find(|step| step.undone_by.is_none());
        let total = plan
            .strategy
            .as_ref()
            .map_or(0, |strategy| strategy.steps.len());
        let done = steps
            .iter()
            .filter(|step| step.undone_by.is_none() && step.state == StepState::Done)
            .filter(|step| step.path.starts_with("step/"))
            .count();
        return Ok(Report::new("plan resume")
            .data(json!({
                "plan_id": plan.id, "phase": plan.stage.phase(), "state": plan.shown_state(),
                "eligible": !plan.stage.is_terminal(),
                "last_step": last.map(|step| &step.path), "steps_done": done, "steps_total": total,
                "decision_id": last.and_then(|step| step.decision), "dry_run": true,
            }))
            .panel(
                Panel::new("Resume")
                    .row("Plan", Cell::Id(plan.id.to_string()))
                    .row("Stage", plan.stage.to_string())
                    .row("Last", last.map(|step| step.title.clone()))
                    .row("Steps", format!("{done} of {total}")),
            )
            .ok("Nothing was done"));
    }
    let options = DriveOptions {
        consent: Some(phase_to_resume(plan)),
        ..DriveOptions::default()
    };
    let plan = drive(desk, plan, &options, is_stream)?;
    Ok(executed("plan resume", desk, &plan)?.ok(said(&plan)))
}

pub(super) fn apply(desk: &Desk<'_>, arguments: &PlanApply) -> Result<Report, CommandError> {
    let plan = desk.chosen(&arguments.plan, &APPLICABLE_STAGES, "to be applied")?;
    if !APPLICABLE_STAGES.contains(&plan.stage) {
        return Err(PlanError::NotReady {
            plan: plan.id,
            stage: plan.stage,
            reason: if plan.stage.is_terminal() {
                "it is over".to_owned()
            } else {
                "only what is carried out can be applied".to_owned()
            },
            hint: if plan.stage.is_terminal() {
                "`agents plan list` shows the others".to_owned()
            } else {
                format!("carry it out first: `agents plan execute {}`", plan.id)
            },
        }
        .into());
    }
    confirm_apply(desk, &plan, arguments.yes)?;
    apply_now(desk, &plan, arguments)
}

/// Asks whether to apply a plan, below its patch and its changed files.
pub(super) fn confirm_apply(desk: &Desk<'_>, plan: &Plan, yes: bool) -> Result<(), CommandError> {
    let question = if yes || !can_confirm(desk.context) {
        format!("Apply the changes of plan {}?", plan.id)
    } else {
        let changes = desk.book.changes(plan)?;
        desk.context
            .live
            .err(&changes_preview(desk.context, plan, &changes));
        let made = made_by_commands(&changes.made_by_commands())
            .map_or_else(String::new, |made| format!("{made}\n"));
        format!(
            "{made}{} changed, +{} -{}. Apply the changes of plan {}?",
            counted(changes.file_count(), "file"),
            changes.insertions(),
            changes.deletions(),
            plan.id
        )
    };
    confirm(desk.context, &question, yes)
}

pub(super) fn apply_now(
    desk: &Desk<'_>,
    plan: &Plan,
    arguments: &PlanApply,
) -> Result<Report, CommandError> {
    let options = DriveOptions {
        consent: Some(PlanPhase::Apply),
        landing: if arguments.merge {
            Landing::Merge
        } else {
            Landing::Commit
        },
        message: arguments.message.clone(),
        allow_empty: arguments.allow_empty,
        ..DriveOptions::default()
    };
    let plan = drive(desk, plan, &options, false)?;
    applied(desk, &plan)
}

/// What applying did, read back from what is stored of it.
pub(super) fn applied(desk: &Desk<'_>, plan: &Plan) -> Result<Report, CommandError> {
    if plan.stage == PlanStage::ExecuteComplete {
        // It went back, and what came of that may be something else than what was agreed to.
        let id = plan.id;
        let message = format!(
            "the apply of the plan {id} was refused; it was executed and validated again, and is not applied yet"
        );
        return Err(
            CommandError::new(Code::PlanWaiting, message).with_hint(format!(
                "`agents plan diff {id}` shows the result, `agents plan apply {id}` applies it"
            )),
        );
    }
    if plan.stage != PlanStage::ApplyApplied {
        let message = format!("the plan {} is {}, not applied", plan.id, plan.stage);
        return Err(CommandError::new(Code::PlanFailed, message)
            .with_hint(format!("`agents plan status {}` tells more", plan.id)));
    }
    let engine = desk.context.engine()?;
    let results = latest(engine.read(|reader| validations::results(reader, plan.id))?);
    let report = plan.report.clone().unwrap_or_default();
    let changed = report["changed"].as_array().map_or(0, Vec::len);
    let number = |name: &str| report[name].as_u64();
    let (insertions, deletions) = (number("insertions"), number("deletions"));
    let told: Vec<Value> = results.iter().map(|stored| json!(stored.result)).collect();
    let passed = results.iter().filter(|stored| stored.result.passed).count();
    let duration = results.iter().map(|stored| stored.result.duration_ms).sum();
    let duration = std::time::Duration::from_millis(duration).as_secs_f64();
    let sandbox = desk.book.sandbox(plan)?;
    let state = sandbox.as_ref().map(|view| view.sandbox.state.as_str());
    let total = plan
        .completed_at
        .unwrap_or_else(Timestamp::now)
        .seconds_since(plan.created_at);
    let decisions = desk.book.decisions(plan.id)?.len();
    let projects: Vec<&str> = plan
        .made_with
        .projects
        .iter()
        .map(|project| project.name.as_str())
        .collect();
    let is_cost_known = desk.book.is_cost_known(plan.id)?;
    let mut data = json!({
        "plan_id": plan.id,
        "artifacts": changed,
        "changes": {"insertions": insertions, "deletions": deletions},
        "project": projects.join(", "),
        "applied_at": plan.completed_at,
        "parts": report["parts"],
        "validation": {
            "ran": results.len(), "passed": passed, "results": told,
            "duration_s": duration,
        },
        "sandbox_cleanup": {"worktree": state, "branch": null, "checkpoint": state},
        "lifecycle": {
            "phase": plan.stage.phase(), "state": plan.stage.state(),
            "total_duration": total,
            "decisions_made": decisions, "child_plans": 0,
        },
    });
    let cost = plan.usage.cost_micro_usd;
    put_cost(&mut data["lifecycle"], "total_cost", cost, is_cost_known);
    Ok(Report::new("plan apply")
        .data(data)
        .panel(
            Panel::new("Apply Summary")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Artifacts", changed)
                .row(
                    "Changes",
                    insertions
                        .zip(deletions)
                        .map(|(more, less)| format!("+{more} -{less}")),
                )
                .row("Project", projects.join(", "))
                .row("Applied at", plan.completed_at.map(Cell::Time)),
        )
        .panel(
            Panel::new("Validation (from Execute)")
                .row("Ran", results.len())
                .row("Passed", passed)
                .row("Seconds", format!("{duration:.1}")),
        )
        .panel(Panel::new("Sandbox Cleanup").row("Sandbox", state))
        .panel(
            Panel::new("Plan Lifecycle")
                .row("Phase", plan.stage.phase().as_str())
                .row("State", plan.stage.state())
                .row("Total duration", format!("{total:.1} s"))
                .row(
                    "Total cost",
                    cost_cell(plan.usage.cost_micro_usd, is_cost_known),
                )
                .row("Decisions made", decisions),
        )
        .ok("Changes applied"))
}
