//! `plan execute`, `plan apply`, `plan resume`.

use cleveragents_application::DETERMINISTIC;
use cleveragents_application::plan_operations::{
    AppliedPlan, ApplyPlan, ExecutePlan, PlanExecution, PromptPlan, ResumePlan, ResumePreview,
    ResumedPlan, ShowPlanDiff, StrategyOutline,
};
use cleveragents_domain::{Code, Placeholder, PlanStage, ValidationMode, Waiting, suggest};
use serde_json::json;

use super::interactive;
use super::preview::changes_preview;
use super::question::{PlanAnswer, PlanQuestion};
use super::worker;
use crate::arguments::{PlanApply, PlanExecute};
use crate::commands::plan::{known_cost, made_by_commands};
use crate::commands::{can_confirm, confirm, cost_cell, counted};
use crate::context::Context;
use crate::output::{
    Cell, CommandError, Panel, Report, command, commands, visible_lines, write_err,
};

pub(super) fn execute(context: &Context, arguments: PlanExecute) -> Result<Report, CommandError> {
    let reference = arguments.plan.reference;
    if arguments.background {
        return worker::queue(context, reference, arguments.redo, arguments.skip);
    }
    let request = ExecutePlan {
        reference,
        redo: arguments.redo,
        skip: arguments.skip,
    };
    let execution = interactive::call(context, request, arguments.stream)?;
    let message = if execution.was_complete {
        "The plan was already executed; nothing was done".to_owned()
    } else {
        stage_message(execution.stage)
    };
    Ok(execution_view("plan execute", execution).ok(message))
}

/// Message for the stage that a plan has reached.
pub(super) fn stage_message(stage: PlanStage) -> String {
    match stage {
        PlanStage::StrategizeComplete => "Strategy created".to_owned(),
        PlanStage::ExecuteComplete => "Plan executed".to_owned(),
        PlanStage::ApplyApplied => "Changes applied".to_owned(),
        stage => format!("Plan is {stage}"),
    }
}

/// Adds panels for the strategy of a plan, and for the approval or answer that the plan waits for.
pub(super) fn outcome_panels(
    mut report: Report,
    strategy: Option<&StrategyOutline>,
    waiting: Option<&Waiting>,
    stage: PlanStage,
) -> Report {
    if let Some(strategy) = strategy {
        report = report.panel(
            Panel::new("Strategy")
                .row("Summary", strategy.summary.clone())
                .row("Steps", strategy.steps)
                .row("Risk", strategy.risk.map(|risk| format!("{risk:.2}"))),
        );
    }
    if let Some(waiting) = waiting.filter(|_| !stage.is_terminal()) {
        report = report.panel(Panel::new("Waiting").row("For", waiting.sentence()));
    }
    report
}

fn execution_view(name: &'static str, execution: PlanExecution) -> Report {
    let count = |label: &str| {
        let mut progress = execution.progress.iter();
        let entry = progress.find(|progress| progress.label == label);
        entry.and_then(|progress| progress.count).unwrap_or(0)
    };
    let mut steps = execution
        .steps
        .iter()
        .filter(|step| step.path.starts_with("step/"));
    let usage = &execution.usage;
    let (cost, is_cost_known) = known_cost(usage.cost_usd, usage.cost_known_part);
    let mut report = Report::new(name).panel(
        Panel::new("Execution")
            .row("Plan", Cell::Id(execution.plan_id.to_string()))
            .row("Phase", execution.phase.as_str())
            .row("State", execution.state.as_str())
            .row("Sandbox", execution.sandbox.name.clone())
            .row("Attempt", execution.attempt)
            .row("Steps done", steps.clone().count())
            .row("Tool calls", count("Run tools"))
            .row("Files changed", count("Build changeset"))
            .row("Tokens", usage.input_tokens.0 + usage.output_tokens.0)
            .row("Cost", cost_cell(cost, is_cost_known)),
    );
    if !execution.validations.is_empty() {
        let passed = execution.validations.iter().filter(|result| result.passed);
        let failed = execution
            .validations
            .iter()
            .filter(|result| !result.passed && result.mode == ValidationMode::Required);
        report = report.panel(
            Panel::new("Validations")
                .row("Ran", execution.validations.len())
                .row("Passed", passed.count())
                .row("Required validations failed", failed.count()),
        );
    }
    let strategy = execution.strategy_summary.outline.as_ref();
    report = outcome_panels(
        report,
        strategy,
        execution.waiting.as_ref(),
        execution.stage,
    );
    if let Some(last) = steps.next_back().filter(|_| execution.read_only) {
        report = report.text(last.summary.clone().unwrap_or_default());
    }
    if let Some(pending) = execution.unread_guidance {
        report = report.warn(format!(
            "guidance is pending ({pending}): `{DETERMINISTIC}` cannot read it and ignored it"
        ));
    }
    let next = execution.next_steps.first().map(command);
    let next = next.filter(|_| !execution.stage.is_terminal());
    let report = report.data(execution).commands_at(&["/next_steps"]);
    match next {
        Some(next) => report.info(format!("next: `{next}`")),
        None => report,
    }
}

pub(super) fn resume(
    context: &Context,
    request: ResumePlan,
    is_stream: bool,
) -> Result<Report, CommandError> {
    Ok(match interactive::call(context, request, is_stream)? {
        ResumedPlan::Preview(preview) => preview_view(preview),
        ResumedPlan::Ran(execution) => {
            let message = stage_message(execution.stage);
            execution_view("plan resume", *execution).ok(message)
        }
    })
}

fn preview_view(preview: ResumePreview) -> Report {
    Report::new("plan resume")
        .panel(
            Panel::new("Resume")
                .row("Plan", Cell::Id(preview.plan_id.to_string()))
                .row("Stage", preview.stage.to_string())
                .row("Last", preview.last_title.clone())
                .row(
                    "Steps",
                    format!("{} of {}", preview.steps_done, preview.steps_total),
                ),
        )
        .data(preview)
        .ok("Nothing was done")
}

pub(super) fn apply(context: &Context, arguments: PlanApply) -> Result<Report, CommandError> {
    let request = ApplyPlan {
        reference: arguments.plan.reference,
        yes: arguments.yes,
        allow_empty: arguments.allow_empty,
        merge: arguments.merge,
        message: arguments.message,
        branch: arguments.branch,
    };
    if request.yes {
        return apply_confirmed(context, request);
    }
    let mut request = request;
    loop {
        // Without `yes`, the operation only runs its checks, then fails because it needs confirmation.
        let refused = match context.call(request.clone()) {
            Ok(applied) => return Ok(applied_view(applied)),
            Err(error) if error.code() != Code::ConfirmationNeeded => return Err(error),
            Err(error) => error,
        };
        let details = refused.details();
        let plan = details["plan_id"].as_str().unwrap_or_default().to_owned();
        request.reference = Some(plan.clone());
        match ask_apply(context, &plan, request.branch.as_deref(), false)? {
            PlanAnswer::Tell(guidance) => {
                if let Some(next) = give_guidance(context, &plan, guidance)? {
                    interactive::call(context, next, false)?;
                }
            }
            PlanAnswer::No => return Ok(not_applied(context, "plan apply", &plan)),
            PlanAnswer::Yes | PlanAnswer::Edit => return apply_confirmed(context, request),
        }
    }
}

/// Reports that the user declined an apply: no error, but the exit code of a missing confirmation.
pub(super) fn not_applied(context: &Context, command: &'static str, plan: &str) -> Report {
    let next = commands(&[
        suggest::plan_apply(plan),
        suggest::plan_diff(plan),
        suggest::plan_prompt(plan, Placeholder("TEXT")),
    ]);
    let message = "Not applied. The changes stay in the sandbox.";
    let exit_code = Code::ConfirmationNeeded.kind().exit_code();
    if context.printer.format().is_human() {
        let next: Vec<String> = next.iter().map(|next| format!("  {next}\n")).collect();
        write_err(&format!("{message}\n{}", next.concat()));
        return Report::written(command, exit_code);
    }
    Report::new(command)
        .data(json!({"plan_id": plan, "applied": false, "next_steps": next}))
        .info(message)
        .exit_with(exit_code)
}

/// Stores guidance for a plan. Returns the request that executes it; `None` if the actor of the plan cannot read
/// guidance.
pub(super) fn give_guidance(
    context: &Context,
    plan: &str,
    guidance: String,
) -> Result<Option<ExecutePlan>, CommandError> {
    let given = context.call(PromptPlan {
        reference: plan.to_owned(),
        guidance,
    })?;
    if !given.is_readable {
        write_err(&format!(
            "the guidance stays pending: `{DETERMINISTIC}` executes this plan and cannot read it\n"
        ));
        return Ok(None);
    }
    Ok(Some(ExecutePlan {
        reference: Some(plan.to_owned()),
        ..ExecutePlan::default()
    }))
}

/// Applies a plan after confirmation.
pub(super) fn apply_confirmed(
    context: &Context,
    request: ApplyPlan,
) -> Result<Report, CommandError> {
    let request = ApplyPlan {
        yes: true,
        ..request
    };
    interactive::call(context, request, false).map(applied_view)
}

/// Shows the patch and the changed files of a plan, and asks the user to confirm the apply. `branch` is the new branch
/// that receives the changes.
pub(super) fn ask_apply(
    context: &Context,
    plan: &str,
    branch: Option<&str>,
    yes: bool,
) -> Result<PlanAnswer, CommandError> {
    let target = branch.map_or_else(String::new, |branch| format!(" on the new branch {branch}"));
    if yes || !can_confirm() {
        confirm(&format!("Apply the changes of plan {plan}{target}?"), yes)?;
        return Ok(PlanAnswer::Yes);
    }
    let diff = context.call(ShowPlanDiff {
        reference: Some(plan.to_owned()),
        stat: false,
        correction: false,
    })?;
    write_err(&changes_preview(context, &diff));
    let note = made_by_commands(&diff.made_by_commands)
        .map_or_else(String::new, |note| format!("{note}\n"));
    let summary = &diff.diff_summary;
    let question = PlanQuestion {
        text: format!(
            "{note}{} changed, +{} -{}. Apply the changes{target}?",
            counted(summary.files_changed, "file"),
            summary.insertions.unwrap_or(0),
            summary.deletions.unwrap_or(0),
        ),
        subject: "diff",
        show: &|| Ok(visible_lines(diff.patch.as_deref().unwrap_or_default()).into_owned()),
        can_edit: false,
    };
    question.ask(context)
}

/// Report of an apply.
pub(super) fn applied_view(applied: AppliedPlan) -> Report {
    let (changes, validation) = (&applied.changes, &applied.validation);
    let lifecycle = &applied.lifecycle;
    let (cost, is_cost_known) = known_cost(lifecycle.total_cost, lifecycle.cost_known_part);
    let parts = applied.parts.as_array().into_iter().flatten();
    let commits: Vec<String> = parts
        .filter_map(|part| part["commit"]["new"].as_str()?.get(..10))
        .map(str::to_owned)
        .collect();
    let lines = changes
        .insertions
        .zip(changes.deletions)
        .map_or_else(String::new, |(new, old)| format!(", +{new} -{old}"));
    let checks = match validation.ran {
        0 => Cell::Muted("none".to_owned()),
        ran if ran == validation.passed => Cell::Good(format!("{ran} passed")),
        ran => Cell::Warn(format!("{} of {ran} passed", validation.passed)),
    };
    let is_undoable = !commits.is_empty() && applied.branch.is_none();
    let mut panel = Panel::new("Applied")
        .row("Plan", Cell::Id(applied.plan_id.to_string()))
        .row("Project", applied.project.clone())
        .row(
            "Changed",
            format!("{}{lines}", counted(applied.artifacts, "file")),
        )
        .row("Checks", checks);
    if !commits.is_empty() {
        panel = panel.row("Commit", commits.join(", "));
    }
    if let Some(branch) = &applied.branch {
        panel = panel.row("Branch", branch.clone());
    }
    let panel = panel
        .row("Cost", cost_cell(cost, is_cost_known))
        .row("Duration", format!("{:.1} s", lifecycle.total_duration));
    let mut report = Report::new("plan apply").panel(panel);
    if is_undoable {
        report = report.info(format!("undo it: `agents undo {}`", applied.plan_id));
    }
    report
        .ok(match &applied.branch {
            Some(branch) => format!("Changes applied on the new branch {branch}"),
            None => "Changes applied".to_owned(),
        })
        .data(applied)
}
