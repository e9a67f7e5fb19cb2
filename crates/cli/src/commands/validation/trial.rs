//! `validation run`: runs a validation in a sandbox, outside a plan.

use std::cell::RefCell;

use cleveragents_application::validation_operations::ArgumentValues;
use cleveragents_application::{
    AgentRuntime, OperationError, SafetySelection, SandboxWorkspace, ToolCallRequest,
    ValidationCheck, ValidationError, ValidationOutcome, ValidationRunner, ValidationService,
    call_status,
};
use cleveragents_domain::Code;
use cleveragents_models::{CancellationToken, Redactor};
use cleveragents_process::Cancel;
use cleveragents_tools::{CallOutcome, PlanMode};
use serde_json::{Value, json};

use crate::arguments::ValidationRun;
use crate::commands::signals;
use crate::commands::terminal::Terminal;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Call id of calls by the user.
const CALL_ID: &str = "validation-run";

/// Maximum output size of a wrapped tool in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

pub(super) fn run(
    context: &Context,
    service: &ValidationService,
    arguments: &ValidationRun,
) -> Result<Report, CommandError> {
    let registered = service.get_registered(&arguments.validation.name, &context.variables())?;
    let validation = registered.definition.map_err(ValidationError::from)?;
    let values = ArgumentValues::Pairs(arguments.arguments.clone()).parse()?;
    if let Some(reason) = validation.argument_mismatch(&values) {
        return Err(
            CommandError::new(Code::InvalidValidation, reason).with_hint(format!(
                "`agents validation show {}` shows its arguments; pass each as NAME=VALUE",
                validation.name
            )),
        );
    }
    let cancel = Cancel::new();
    let runtime = context.runtime(&SafetySelection::default(), None)?;
    let workspace = runtime
        .workspace(&cancel, Some(&arguments.sandbox), None, |_| String::new())?
        .ok_or_else(|| CommandError::usage("a sandbox is needed"))?;
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    let terminal = Terminal::new(&cancel);
    // A refused call is an error of the command, not a failed validation.
    let call_error = RefCell::new(None);
    let wrapped = |tool: &str, input: &Value| {
        call(&runtime, &terminal, &workspace, &cancel, tool, input).unwrap_or_else(|error| {
            let refusal = error.to_string();
            call_error.replace(Some(error));
            Err(refusal)
        })
    };
    let result = ValidationRunner.try_out(&validation, &values, &workspace, &cancel, &wrapped);
    let outcome = signals.conclude(result)?;
    if let Some(error) = call_error.into_inner() {
        return Err(error.into());
    }
    let secrets = context.models(None)?.redactor();
    let wraps = match &validation.check {
        ValidationCheck::Wraps(check) => Some(check.tool.clone()),
        ValidationCheck::Command(_) => None,
    };
    let report = report(&outcome, &secrets, &arguments.sandbox, |data| {
        data["validation"] = json!(validation.name);
        data["mode"] = json!(validation.mode);
        data["wraps"] = json!(wraps);
    });
    Ok(if outcome.passed {
        report.ok(format!("{} passed", validation.name))
    } else {
        let message = format!(
            "{} failed: {}",
            validation.name,
            secrets.text(&outcome.message)
        );
        report.failed(
            Code::PlanConstrained,
            message,
            "fix the problem, and run it again".to_owned(),
        )
    })
}

fn report(
    outcome: &ValidationOutcome,
    secrets: &Redactor,
    sandbox: &str,
    complete: impl FnOnce(&mut Value),
) -> Report {
    let output = String::from_utf8_lossy(&outcome.output);
    let output = secrets.text(&output).into_owned();
    let message = secrets.text(&outcome.message).into_owned();
    let mut data = json!({
        "passed": outcome.passed,
        "message": message,
        "data": outcome.data.as_ref().map(|data| secrets.value(data)),
        "output": output,
        "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        "sandbox": sandbox,
    });
    complete(&mut data);
    let verdict = if outcome.passed {
        Cell::Good("passed".to_owned())
    } else {
        Cell::Bad("failed".to_owned())
    };
    let mut panel = Panel::new("Validation")
        .row("Name", data["validation"].as_str().unwrap_or_default())
        .row("Verdict", verdict)
        .row("Message", message)
        .row("Took", Cell::Seconds(outcome.duration.as_secs_f64()))
        .row("Sandbox", sandbox);
    let metrics = outcome.data.as_ref().and_then(|data| data.get("metrics"));
    for (name, value) in metrics.and_then(Value::as_object).into_iter().flatten() {
        panel = panel.row(name.clone(), value.to_string());
    }
    let report = Report::new("validation run").panel(panel);
    let report = if output.trim().is_empty() {
        report
    } else {
        report.text(output)
    };
    report.data(data)
}

/// Calls a wrapped tool read-only, with the permission checks and limits of every tool call.
fn call(
    runtime: &AgentRuntime,
    terminal: &Terminal,
    workspace: &SandboxWorkspace,
    cancel: &Cancel,
    tool: &str,
    input: &Value,
) -> Result<Result<String, String>, OperationError> {
    let (outcome, _) = runtime.call_tool(
        &ToolCallRequest {
            call_id: CALL_ID,
            tool,
            skills: &[],
            mode: PlanMode::ReadOnly,
            rules: &[],
            workspace: Some(workspace),
            approver: terminal,
            cancel,
            shown_bytes: MAX_OUTPUT_BYTES,
        },
        |_| Ok::<_, OperationError>(input.to_string()),
    )?;
    Ok(match &outcome {
        CallOutcome::Succeeded(done) if done.shown.left_out == 0 => Ok(done.shown.head.clone()),
        CallOutcome::Succeeded(_) => Err("its output is too large".to_owned()),
        _ => Err(call_status(&outcome).1.unwrap_or_default()),
    })
}
