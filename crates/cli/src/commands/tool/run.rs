//! `tool run`: calls a tool, with the permission checks and limits that apply to tool calls of models.

use cleveragents_application::{
    SandboxWorkspace, ToolCallRequest, call_status, files_changed, session_mode,
};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use cleveragents_tools::{CallOutcome, FailureKind, RefusalReason, ShownOutput, ToolSpec};
use serde_json::{Value, json};

use super::input;
use crate::arguments::ToolRun;
use crate::commands::signals;
use crate::commands::terminal::Terminal;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Maximum number of bytes of output to show; higher than for models.
const SHOWN_BYTES: usize = 16 << 20;

/// Call id of calls by the user.
const CALL_ID: &str = "tool-run";

pub(super) fn run(context: &Context, arguments: &ToolRun) -> Result<Report, CommandError> {
    let runtime = context.runtime(&(&arguments.safety).into(), None)?;
    let (sandbox, project) = (arguments.sandbox.as_deref(), arguments.project.as_deref());
    let cancel = Cancel::new();
    let workspace = runtime.workspace(&cancel, sandbox, project, |id| format!("project-{id}"))?;
    let terminal = Terminal::new(&cancel);
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    let result = runtime.call_tool(
        &ToolCallRequest {
            call_id: CALL_ID,
            tool: &arguments.tool.name,
            skills: &arguments.skill,
            mode: session_mode(arguments.read_only),
            rules: &arguments.rule,
            workspace: workspace.as_ref(),
            approver: &terminal,
            cancel: &cancel,
            shown_bytes: SHOWN_BYTES,
        },
        |registry| input::text(arguments, registry),
    );
    let is_stopped = signals.end();
    let (outcome, registry) = result?;
    let spec = registry.get(&arguments.tool.name).ok();
    let sandbox = workspace.as_ref().map(SandboxWorkspace::name);
    let report = report(&outcome, spec, sandbox);
    Ok(if is_stopped {
        report.interrupted()
    } else {
        report
    })
}

fn report(outcome: &CallOutcome, spec: Option<&ToolSpec>, sandbox: Option<&str>) -> Report {
    let (status, reason) = call_status(outcome);
    let files = files_changed([outcome]);
    let (tool, shown, note, checkpoint, elapsed) = match outcome {
        CallOutcome::Succeeded(done) => (
            done.tool.to_string(),
            Some(&done.shown),
            done.note.as_deref(),
            done.checkpoint,
            Some(done.elapsed.as_secs_f64()),
        ),
        CallOutcome::Failed(failed) => (
            failed.tool.to_string(),
            Some(&failed.shown),
            None,
            failed.checkpoint,
            Some(failed.elapsed.as_secs_f64()),
        ),
        CallOutcome::Refused(refusal) => (refusal.tool.clone(), None, None, None, None),
    };
    let kind = match outcome {
        CallOutcome::Refused(refusal) => Some(refusal.reason.kind()),
        CallOutcome::Failed(failed) => Some(failure(failed.kind)),
        CallOutcome::Succeeded(_) => None,
    };
    let picture = match outcome {
        CallOutcome::Succeeded(done) => done.picture.as_ref().map(ToString::to_string),
        _ => None,
    };
    let log = match outcome {
        CallOutcome::Failed(failed) => Some(&failed.log).filter(|log| !log.is_empty()),
        _ => None,
    };
    let data = json!({
        "tool": tool,
        "outcome": status,
        "output": match &picture {
            Some(picture) => Some(Value::String(picture.clone())),
            None => shown.map(|shown| output(shown, spec)),
        },
        "output_bytes": shown.map(|shown| shown.total),
        "output_left_out": shown.map(|shown| shown.left_out),
        "log": log,
        "note": note,
        "reason": kind.map(|kind| json!({"kind": kind, "message": reason})),
        "invocation": outcome.invocation(),
        "checkpoint": checkpoint,
        "files_changed": files,
        "sandbox": sandbox,
        "duration_s": elapsed,
    });
    let mut report = Report::new("tool run").data(data);
    if let Some(shown) = shown {
        let mut panel = Panel::new("Tool Run")
            .row("Tool", tool.as_str())
            .row(
                "Outcome",
                match outcome {
                    CallOutcome::Succeeded(_) => Cell::Good(status.to_owned()),
                    _ => Cell::Bad(status.to_owned()),
                },
            )
            .row("Invocation", Cell::Id(outcome.invocation().to_string()))
            .row("Took", elapsed.map(Cell::Seconds))
            .row("Sandbox", sandbox.map(str::to_owned));
        for file in &files {
            panel = panel.row("Changed", file.as_str());
        }
        report = report.panel(panel);
        if shown.total > 0 {
            report = report.text(picture.unwrap_or_else(|| text(shown)));
        }
        if let Some(log) = log {
            report = report.text(format!("End of its log:\n{log}"));
        }
    }
    if let Some(note) = note {
        report = report.info(note);
    }
    if let (Some(name), false) = (sandbox, files.is_empty()) {
        report = report.info(format!(
            "show the changes with `agents sandbox diff {name}`, apply them with `agents sandbox apply {name}`"
        ));
    }
    match (outcome.code(), reason) {
        (Some(code), Some(reason)) => {
            let message = format!(
                "`{tool}` {}: {reason}",
                if status == "refused" {
                    "was refused and did not run"
                } else {
                    "failed"
                }
            );
            report.failed(code, message, hint(outcome))
        }
        _ => report.ok("Tool succeeded"),
    }
}

/// Output of a tool: JSON if its output schema declares it.
fn output(shown: &ShownOutput, spec: Option<&ToolSpec>) -> Value {
    let declares_json = spec.is_some_and(|spec| spec.output_schema.is_some());
    let text = text(shown);
    match serde_json::from_str(&text) {
        Ok(value) if declares_json => value,
        _ => Value::String(text),
    }
}

fn text(shown: &ShownOutput) -> String {
    if shown.left_out == 0 {
        return shown.head.clone();
    }
    format!(
        "{}\n[… {} bytes left out …]\n{}",
        shown.head, shown.left_out, shown.tail
    )
}

const fn failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Tool => "tool",
        FailureKind::Timeout => "timeout",
        FailureKind::Cancelled => "cancelled",
        FailureKind::HumanNeeded => "human_needed",
        FailureKind::BadOutput => "bad_output",
    }
}

/// Hint for a call that failed or was refused.
fn hint(outcome: &CallOutcome) -> String {
    let reason = match outcome {
        CallOutcome::Succeeded(_) => return String::new(),
        CallOutcome::Failed(_) if outcome.needs_human() => {
            return "run it at a terminal, where you can answer".to_owned();
        }
        CallOutcome::Failed(failed) => {
            return match failed.kind {
                FailureKind::Timeout => "raise `timeout` in its file".to_owned(),
                FailureKind::BadOutput => {
                    "the tool must write one JSON value that matches its output_schema to standard output"
                        .to_owned()
                }
                _ => format!(
                    "show its schema with `agents tool show {}`",
                    failed.tool
                ),
            };
        }
        CallOutcome::Refused(refusal) => (&refusal.reason, &refusal.tool),
    };
    let (reason, tool) = reason;
    match reason {
        RefusalReason::UnknownTool { .. } => "`agents tool list` shows all".to_owned(),
        RefusalReason::BadArguments(_) => {
            format!("show its schema with `agents tool show {tool}`")
        }
        RefusalReason::MissingSandbox { .. } => {
            "choose one with --sandbox or --project; `agents sandbox create NAME --path FOLDER` creates one"
                .to_owned()
        }
        RefusalReason::OutsideSandbox { .. } => {
            "use a path in the sandbox; `agents sandbox show NAME` shows its parts".to_owned()
        }
        RefusalReason::ReadOnlyPlan { .. } => "omit --read-only".to_owned(),
        RefusalReason::Rule(_) => {
            "`agents permission list` shows the rules; no rule can allow what the built-in deny list forbids".to_owned()
        }
        RefusalReason::NoApprover { .. } => {
            "run it at a terminal, where you can approve; `agents permission list` shows the rules"
                .to_owned()
        }
        RefusalReason::Budget { .. } => {
            "raise it with `agents config set budget.day-cents CENTS`, or wait until tomorrow".to_owned()
        }
        RefusalReason::Profile(_)
        | RefusalReason::Denylist(_)
        | RefusalReason::NotOnAllowlist(_)
        | RefusalReason::CallLimit { .. }
        | RefusalReason::MissingCheckpoint { .. } => {
            "`agents safety show` shows the limits in effect and where they are set".to_owned()
        }
        _ => "docs/reference/tools.md describes the checks of the gate".to_owned(),
    }
}
