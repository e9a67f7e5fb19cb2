//! Runs the gates of an attempt: the required validations of the project, each with its exit code and scope.

use std::time::Duration;

use cleveragents_domain::Plan;
use cleveragents_process::Cancel;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::brief::tail;
use crate::operation::OperationError;
use crate::plan::PlanService;
use crate::tool::SandboxWorkspace;
use crate::validation::{
    CommandLine, EffectiveValidation, ValidationCheck, ValidationOutcome, ValidationRunner,
};

/// Maximum size of the output that is kept with a gate, in bytes.
const KEPT_OUTPUT: usize = 4_000;

/// The result of one gate for one state of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GateRun {
    pub(crate) name: String,
    pub(crate) command: String,
    /// The part that the gate covers, such as the resource that it validates.
    pub(crate) scope: String,
    pub(crate) required: bool,
    pub(crate) passed: bool,
    /// `None` if the command has no exit code: it did not run, or was stopped.
    pub(crate) exit_code: Option<i32>,
    /// True if the gate could not run.
    pub(crate) is_environment_failure: bool,
    pub(crate) output_tail: String,
    pub(crate) duration_ms: u64,
}

impl GateRun {
    fn new(attached: &EffectiveValidation, outcome: &ValidationOutcome) -> Self {
        let exit_code = outcome
            .data
            .as_ref()
            .and_then(|data| data["exit_code"].as_i64());
        let exit_code = exit_code.and_then(|code| i32::try_from(code).ok());
        let is_tool = matches!(attached.validation.check, ValidationCheck::Wraps(_));
        let mut output = String::from_utf8_lossy(&outcome.output).into_owned();
        if !outcome.passed {
            output = format!("{}\n{output}", outcome.message);
        }
        Self {
            name: attached.validation.name.clone(),
            command: command_text(attached),
            scope: attached.resource.name.to_string(),
            required: true,
            passed: outcome.passed,
            // A validation that calls a tool has no process; its verdict stands for the exit code.
            exit_code: match exit_code {
                None if is_tool && !outcome.is_environment_failure => {
                    Some(i32::from(!outcome.passed))
                }
                code => code,
            },
            is_environment_failure: outcome.is_environment_failure,
            output_tail: tail(output.trim(), KEPT_OUTPUT).to_owned(),
            duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// A gate that runs a command of the role itself, such as the captured test.
    pub(crate) fn of_command(
        name: &str,
        command: &str,
        scope: String,
        exit_code: Option<i32>,
        output: &str,
    ) -> Self {
        Self {
            name: name.to_owned(),
            command: command.to_owned(),
            scope,
            required: true,
            passed: exit_code == Some(0),
            exit_code,
            is_environment_failure: exit_code.is_none(),
            output_tail: tail(output.trim(), KEPT_OUTPUT).to_owned(),
            duration_ms: 0,
        }
    }
}

fn command_text(attached: &EffectiveValidation) -> String {
    match &attached.validation.check {
        ValidationCheck::Command(check) => match &check.command {
            CommandLine::Shell(text) => text.clone(),
            CommandLine::Words(words) => words.join(" "),
        },
        ValidationCheck::Wraps(check) => check.tool.clone(),
    }
}

/// Runs the required validations of a plan in a sandbox: its own, or that of its base. The sandbox stays unchanged.
pub(crate) fn run_gates(
    plans: &PlanService,
    plan: &Plan,
    workspace: &SandboxWorkspace,
    cancel: &Cancel,
) -> Result<Vec<GateRun>, OperationError> {
    let mut gates = Vec::new();
    for attached in plans.required_validations(plan)? {
        let wrapped = |_: &str, _: &Value| Err("a gate calls no tool".to_owned());
        let outcome = match &attached.validation.check {
            // The plan itself called the tool, as a read-only call through the gate.
            ValidationCheck::Wraps(_) => stored_outcome(plans, plan, &attached)?,
            ValidationCheck::Command(_) => {
                ValidationRunner.validate(&attached, workspace, cancel, &wrapped)?
            }
        };
        gates.push(GateRun::new(&attached, &outcome));
    }
    Ok(gates)
}

/// The result that a plan stored for a validation.
fn stored_outcome(
    plans: &PlanService,
    plan: &Plan,
    attached: &EffectiveValidation,
) -> Result<ValidationOutcome, OperationError> {
    let results = plans.check_results(plan.id)?;
    let newest = results
        .into_iter()
        .rev()
        .map(|stored| stored.result)
        .find(|result| {
            result.attachment_id == Some(attached.attachment_id)
                && result.definition_hash == attached.definition_hash
        });
    Ok(match newest {
        Some(result) => ValidationOutcome {
            passed: result.passed,
            message: result.message,
            data: result.data,
            output: Vec::new(),
            duration: Duration::from_millis(result.duration_ms),
            is_environment_failure: false,
        },
        None => ValidationOutcome {
            passed: false,
            message: "it did not run".to_owned(),
            data: None,
            output: Vec::new(),
            duration: Duration::ZERO,
            is_environment_failure: true,
        },
    })
}
