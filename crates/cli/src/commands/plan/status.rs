//! `plan status`: progress of a plan.

use cleveragents_application::plan_operations::{PlanCost, PlanStatusReport, ShowPlanStatus};
use cleveragents_application::{Mode, ProgressState};
use cleveragents_domain::{Code, MicroUsd, PlanStage, Waiting};
use serde_json::{Map, Value};

use super::{known_cost, state_or_undone_cell};
use crate::commands::cost_cell;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, commands, write_recovery};

pub(super) fn run(context: &Context, reference: Option<String>) -> Result<Report, CommandError> {
    let status = context.call(ShowPlanStatus { reference })?;
    Ok(view("plan status", &status, "Status refreshed"))
}

/// Report with the status of a plan; a failed plan makes the command fail.
pub(super) fn view(command: &'static str, status: &PlanStatusReport, message: &str) -> Report {
    let mut status = status.clone();
    if let Some(error) = &mut status.error {
        write_recovery(error);
    }
    let (status, next_steps) = (&status, commands(&status.next_steps));
    let mut report = Report::new(command)
        .data(status)
        .commands_at(&["/next_steps"])
        .panel(header(status))
        .panel(progress(status))
        .panel(timing(status))
        .panel(execution(status))
        .panel(cost(&status.cost));
    let waiting = status.waiting.as_ref().map(|waiting| &waiting.request);
    if let Some(waiting) = waiting.filter(|_| !status.is_terminal) {
        report = report.panel(waiting_panel(waiting, &next_steps));
    }
    if let Some(error) = &status.error {
        report = report.panel(error_detail(error, &next_steps));
    }
    if status.is_terminal {
        report = report.panel(result(status));
    }
    let next = next_steps.first();
    if status.is_interrupted {
        report = report.warn(format!(
            "no process runs it: continue with `{}`",
            next.map_or("agents plan list", String::as_str)
        ));
    } else if status.stage == PlanStage::ApplyConstrained {
        report = report.warn(format!("not applied: {}", error_message(status)));
    } else if !status.is_terminal
        && !status.stage.is_errored()
        && waiting.is_none()
        && let Some(next) = next
    {
        report = report.info(format!("next: `{next}`"));
    }
    if status.stage.is_errored() {
        let hint = next.map_or_else(String::new, |next| format!("run `{next}`"));
        return report.failed(Code::PlanFailed, error_message(status), hint);
    }
    report.ok(message)
}

pub(super) fn error_message(status: &PlanStatusReport) -> String {
    let message = status.error.as_ref().and_then(|error| error.get("message"));
    message.and_then(Value::as_str).map_or_else(
        || format!("plan {} is {}", status.plan_id, status.stage),
        str::to_owned,
    )
}

/// The mode of a plan, or its automation profile if no mode uses that profile.
fn mode_text(profile: &str) -> String {
    match Mode::of_profile(profile) {
        Some(mode) => format!("{} ({})", mode.as_str(), mode.description()),
        None => format!("automation profile {profile}"),
    }
}

fn header(status: &PlanStatusReport) -> Panel {
    let panel = Panel::new("Plan Status")
        .row("Task", status.task.clone())
        .row("Plan ID", Cell::Id(status.plan_id.to_string()))
        .row("Name", status.name.clone())
        .row("Phase", status.phase.as_str())
        .row(
            "State",
            state_or_undone_cell(status.state, status.undone.as_ref()),
        )
        .row("Action", status.action.clone())
        .row("Project", status.project.clone())
        .row("Mode", mode_text(&status.automation))
        .row("Attempt", status.attempt);
    match &status.owner {
        Some(owner) => panel.row("Owner", owner.to_string()),
        None => panel,
    }
}

fn progress(status: &PlanStatusReport) -> Panel {
    let mut panel = Panel::new("Progress");
    for phase in &status.progress {
        let text = phase.status.as_str().to_owned();
        let cell = match phase.status {
            ProgressState::Done => Cell::Good(text),
            ProgressState::Running => Cell::Text(text),
            ProgressState::Queued | ProgressState::Cancelled => Cell::Muted(text),
            ProgressState::AwaitingInput | ProgressState::Interrupted => Cell::Warn(text),
            ProgressState::Errored | ProgressState::Constrained => Cell::Bad(text),
        };
        panel = panel.row(phase.step.clone(), cell);
    }
    let steps = &status.steps;
    if steps.total > 0 {
        panel = panel.row("Steps", format!("{} of {} done", steps.done, steps.total));
    }
    match &steps.current {
        Some(step) => panel.row("Now", step.title.clone()),
        None => panel,
    }
}

/// Word with a capital first letter.
pub(super) fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn timing(status: &PlanStatusReport) -> Panel {
    let timing = &status.timing;
    let panel = Panel::new("Timing").row("Started", timing.started);
    if status.is_terminal {
        panel
            .row("Finished", timing.finished)
            .row("Total duration", timing.elapsed.clone())
    } else {
        panel
            .row("Elapsed", timing.elapsed.clone())
            .row("ETA", timing.eta.clone())
    }
}

fn execution(status: &PlanStatusReport) -> Panel {
    let execution = &status.execution;
    Panel::new("Execution Detail")
        .row("Sandbox", execution.sandbox.clone())
        .row("Tool calls", execution.tool_calls)
        .row("Files modified", execution.files_modified)
        .row("Child plans", execution.child_plans.clone())
        .row("Checkpoints", execution.checkpoints)
}

fn cost(cost: &PlanCost) -> Panel {
    let (known, is_known): (MicroUsd, bool) = known_cost(cost.cost_so_far, cost.cost_known_part);
    Panel::new("Cost")
        .row("Tokens used", cost.tokens_used)
        .row("Cost so far", cost_cell(known, is_known))
        .row("Estimated", estimated_text(&cost.estimated))
        .row("Model calls", cost.model_calls)
}

fn estimated_text(estimated: &Value) -> Option<String> {
    match estimated {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("${number}")),
        Value::Array(range) if range.len() == 2 => Some(format!("${} to ${}", range[0], range[1])),
        other => Some(other.to_string()),
    }
}

fn waiting_panel(waiting: &Waiting, commands: &[String]) -> Panel {
    let mut panel = Panel::new("Waiting For").row("Input", Cell::Warn(waiting.sentence()));
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
        // Not shown here: the recovery commands, which are shown below, and `recoverable` if it repeats `is_retriable`.
        let is_repeated = ["recovery", "recovery_command"].contains(&key.as_str())
            || (key == "recoverable" && error.contains_key("is_retriable"));
        let text = match value {
            Value::Null => continue,
            _ if is_repeated => continue,
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

fn result(status: &PlanStatusReport) -> Panel {
    let mut panel = Panel::new("Result").row(
        "State",
        state_or_undone_cell(status.state, status.undone.as_ref()),
    );
    if let Some(Value::Object(report)) = &status.report {
        for (key, value) in report {
            let text = match value {
                Value::Null => continue,
                // The state names the undo.
                _ if key == "undone" => continue,
                Value::String(text) => text.clone(),
                Value::Array(list) => list.len().to_string(),
                other => other.to_string(),
            };
            panel = panel.row(title(&key.replace('_', " ")), text);
        }
    }
    panel
}
