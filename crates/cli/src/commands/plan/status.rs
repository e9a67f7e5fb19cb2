//! `plan status`: how far a plan is.

use cleveragents_application::{PlanBook, PlanStatus, ProgressState};
use cleveragents_domain::{Code, PlanStage, Waiting};
use serde_json::{Map, Value, json};

use super::{clock, projects, state_cell};
use crate::commands::{cost_cell, put_cost};
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(
    book: &PlanBook,
    plan: cleveragents_domain::Plan,
) -> Result<Report, CommandError> {
    let status = book.status(plan)?;
    Ok(shown("plan status", &status, "Status refreshed"))
}

/// The status of a plan as the report of a command; one of a plan that failed is a failure.
pub(super) fn shown(command: &'static str, status: &PlanStatus, message: &str) -> Report {
    let plan = &status.plan;
    let mut report = Report::new(command)
        .data(data(status))
        .panel(header(status))
        .panel(progress(status))
        .panel(timing(status))
        .panel(execution(status))
        .panel(cost(status));
    if let Some(waiting) = plan.waiting.as_ref().filter(|_| !plan.stage.is_terminal()) {
        report = report.panel(waits(waiting, &status.next));
    }
    if let Some(error) = plan.error.as_ref().filter(|_| stands(plan.stage)) {
        report = report.panel(error_detail(error, &status.next));
    }
    if plan.stage.is_terminal() {
        report = report.panel(result(status));
    }
    if status.is_interrupted() {
        report = report.warn(format!(
            "nobody works on it any more: go on with `{}`",
            status
                .next
                .first()
                .map_or("agents plan list", String::as_str)
        ));
    } else if plan.stage == PlanStage::ApplyConstrained {
        report = report.warn(format!("it is not applied: {}", error_message(plan)));
    } else if !plan.stage.is_terminal()
        && !plan.stage.is_errored()
        && plan.waiting.is_none()
        && let Some(next) = status.next.first()
    {
        report = report.info(format!("next: `{next}`"));
    }
    if plan.stage.is_errored() {
        let hint = status
            .next
            .first()
            .map_or_else(String::new, |next| format!("run `{next}`"));
        return report.failed(Code::PlanFailed, error_message(plan), hint);
    }
    report.ok(message)
}

/// Whether a plan stands because something went wrong.
const fn stands(stage: PlanStage) -> bool {
    stage.is_errored() || matches!(stage, PlanStage::ApplyConstrained)
}

pub(super) fn error_message(plan: &cleveragents_domain::Plan) -> String {
    let told = plan.error.as_ref().and_then(|error| error.get("message"));
    told.and_then(Value::as_str).map_or_else(
        || format!("plan {} is {}", plan.id, plan.stage),
        str::to_owned,
    )
}

fn header(status: &PlanStatus) -> Panel {
    let plan = &status.plan;
    let panel = Panel::new("Plan Status")
        .row("Plan ID", Cell::Id(plan.id.to_string()))
        .row("Name", plan.name.clone())
        .row("Phase", plan.stage.phase().as_str())
        .row("State", state_cell(plan))
        .row("Action", plan.action.clone())
        .row("Project", projects(plan))
        .row("Automation", plan.made_with.profile.name.clone())
        .row("Attempt", plan.attempt);
    match &status.owner {
        Some(lease) => panel.row("Worked on by", lease.owner.to_string()),
        None => panel,
    }
}

fn progress(status: &PlanStatus) -> Panel {
    let mut panel = Panel::new("Progress");
    for phase in status.progress {
        let text = phase.state.as_str().to_owned();
        let cell = match phase.state {
            ProgressState::Done => Cell::Good(text),
            ProgressState::Running => Cell::Text(text),
            ProgressState::Queued | ProgressState::Cancelled => Cell::Muted(text),
            ProgressState::AwaitingInput | ProgressState::Interrupted => Cell::Warn(text),
            ProgressState::Errored | ProgressState::Constrained => Cell::Bad(text),
        };
        panel = panel.row(title(phase.phase.as_str()), cell);
    }
    if status.steps_total > 0 {
        panel = panel.row(
            "Steps",
            format!("{} of {} done", status.steps_done, status.steps_total),
        );
    }
    match status.current_step() {
        Some(step) => panel.row("Now", step.title.clone()),
        None => panel,
    }
}

/// A word with a capital letter.
pub(super) fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn timing(status: &PlanStatus) -> Panel {
    let plan = &status.plan;
    let panel = Panel::new("Timing").row("Started", plan.started_at);
    if plan.stage.is_terminal() {
        panel
            .row("Finished", plan.completed_at)
            .row("Total duration", status.elapsed.map(clock))
    } else {
        panel
            .row("Elapsed", status.elapsed.map(clock))
            .row("ETA", status.eta.map(clock))
    }
}

/// How many child plans are complete: `1/2 complete`.
fn child_plans(status: &PlanStatus) -> Option<String> {
    let (over, all) = status.children;
    (all > 0).then(|| format!("{over}/{all} complete"))
}

fn execution(status: &PlanStatus) -> Panel {
    Panel::new("Execution Detail")
        .row("Sandbox", status.plan.sandbox.clone())
        .row("Tool calls", status.plan.tool_calls)
        .row("Files modified", status.files)
        .row("Child plans", child_plans(status))
        .row("Checkpoints", status.checkpoints)
}

fn cost(status: &PlanStatus) -> Panel {
    let usage = &status.plan.usage;
    Panel::new("Cost")
        .row("Tokens used", usage.input_tokens.0 + usage.output_tokens.0)
        .row(
            "Cost so far",
            cost_cell(usage.cost_micro_usd, status.is_cost_known),
        )
        .row("Estimated", estimated_text(status.plan.estimate.as_ref()))
        .row("Model calls", status.plan.model_calls)
}

/// What the estimation actor says about money, in whatever form it says it.
fn estimated(estimate: Option<&Value>) -> Value {
    let figures = estimate.map_or(&Value::Null, |estimate| &estimate["actor"]);
    ["cost_usd", "estimated_cost_usd", "estimated_cost", "cost"]
        .into_iter()
        .map(|key| &figures[key])
        .find(|value| !value.is_null())
        .cloned()
        .unwrap_or(Value::Null)
}

fn estimated_text(estimate: Option<&Value>) -> Option<String> {
    match estimated(estimate) {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Number(number) => Some(format!("${number}")),
        Value::Array(range) if range.len() == 2 => Some(format!("${} to ${}", range[0], range[1])),
        other => Some(other.to_string()),
    }
}

fn waits(waiting: &Waiting, commands: &[String]) -> Panel {
    let mut panel = Panel::new("Waits For").row("What", Cell::Warn(waiting.sentence()));
    match waiting {
        Waiting::Call {
            tool, arguments, ..
        } => {
            panel = panel
                .row("Tool", tool.clone())
                .row("Arguments", arguments.to_string());
        }
        Waiting::Question { options, .. } if !options.is_empty() => {
            panel = panel.row("Options", options.join(", "));
        }
        Waiting::Gate { confidence, .. } => {
            for factor in &confidence.factors {
                let name = factor.name.as_str().replace('_', " ");
                let value = format!(
                    "{:.2} × {:.2}: {}",
                    factor.value, factor.weight, factor.explanation
                );
                panel = panel.row(title(&name), value);
            }
        }
        _ => {}
    }
    with_commands(panel, commands)
}

fn with_commands(panel: Panel, commands: &[String]) -> Panel {
    commands.iter().fold(panel, |panel, command| {
        panel.row("Run", Cell::Id(command.clone()))
    })
}

fn error_detail(error: &Map<String, Value>, commands: &[String]) -> Panel {
    let mut panel = Panel::new("Error Detail");
    for (key, value) in error {
        let text = match value {
            Value::Null => continue,
            // It is among the commands.
            _ if key == "recovery_command" => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let cell = if key == "message" {
            Cell::Bad(text)
        } else {
            Cell::Text(text)
        };
        panel = panel.row(title(&key.replace('_', " ")), cell);
    }
    with_commands(panel, commands)
}

fn result(status: &PlanStatus) -> Panel {
    let plan = &status.plan;
    let mut panel = Panel::new("Result").row("State", state_cell(plan));
    if let Some(Value::Object(report)) = &plan.report {
        for (key, value) in report {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                Value::Array(list) => list.len().to_string(),
                other => other.to_string(),
            };
            panel = panel.row(title(&key.replace('_', " ")), text);
        }
    }
    panel
}

/// The error as programs read it: what is stored, and the five facts that are always there.
fn error_json(status: &PlanStatus, error: &Map<String, Value>) -> Value {
    let mut told = error.clone();
    let recoverable = error.get("is_retriable").cloned().unwrap_or(Value::Null);
    for (key, value) in [
        ("message", Value::Null),
        ("tool", Value::Null),
        ("step", Value::Null),
        ("checkpoint", Value::Null),
        ("recoverable", recoverable),
    ] {
        told.entry(key).or_insert(value);
    }
    told.insert("recovery".to_owned(), json!(status.next));
    Value::Object(told)
}

fn data(status: &PlanStatus) -> Value {
    let plan = &status.plan;
    let usage = &plan.usage;
    let mut data = json!({
        "plan_id": plan.id,
        "name": plan.name,
        "phase": plan.stage.phase(),
        "state": plan.shown_state(),
        "action": plan.action,
        "project": projects(plan),
        "automation": plan.made_with.profile.name,
        "attempt": plan.attempt,
        "reversions": plan.reversions,
        "owner": status.owner.as_ref().map(|lease| &lease.owner),
        "is_interrupted": status.is_interrupted(),
        "is_terminal": plan.stage.is_terminal(),
        "progress": status.progress.iter().map(|phase| json!({
            "step": title(phase.phase.as_str()), "status": phase.state,
        })).collect::<Vec<_>>(),
        "steps": {
            "done": status.steps_done, "total": status.steps_total,
            "current": status.current_step().map(|step| json!({
                "path": step.path, "title": step.title, "started": step.started_at,
            })),
        },
        "timing": {
            "started": plan.started_at,
            "elapsed": status.elapsed.map(clock),
            "elapsed_s": status.elapsed,
            "eta": status.eta.map(clock),
            "eta_s": status.eta,
            "finished": plan.completed_at,
        },
        "execution": {
            "sandbox": plan.sandbox,
            "tool_calls": plan.tool_calls,
            "files_modified": status.files,
            "child_plans": child_plans(status),
            "checkpoints": status.checkpoints,
        },
        "cost": {
            "tokens_used": usage.input_tokens.0 + usage.output_tokens.0,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_so_far": usage.cost_micro_usd.as_usd(),
            "estimated": estimated(plan.estimate.as_ref()),
            "model_calls": plan.model_calls,
        },
        "waiting": plan.waiting.as_ref().map(|waiting| json!({
            "for": waiting.sentence(), "request": waiting,
        })),
        "report": plan.report,
        "failed_checks": status.failed_checks,
        "next_steps": status.next,
    });
    let known = status.is_cost_known;
    put_cost(
        &mut data["cost"],
        "cost_so_far",
        usage.cost_micro_usd,
        known,
    );
    if let Some(error) = plan.error.as_ref().filter(|_| stands(plan.stage)) {
        data["error"] = error_json(status, error);
    }
    data
}
