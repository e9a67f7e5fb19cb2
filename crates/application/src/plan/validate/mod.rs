//! [`ValidatePhase`]: checks the result of a plan with attached validations, with commands of the definition of done
//! and of invariants, and with the reviewer for criteria in prose.
//!
//! Every result is stored with its position in the sandbox history and its complete output. A result is valid for the
//! files on which the check ran: an actor must not get a better verdict on unchanged files by asking again. The apply
//! relies only on stored results.

mod check;
mod failed_check;
mod path_rule;
mod review;

use cleveragents_domain::{Plan, PlanPhase, StepCall, ValidationMode, ValidationResult};
use cleveragents_store::validations::StoredResult;
use cleveragents_store::{blobs, validations};
use serde_json::{Value, json};

use super::actor_runner::{ActorTask, Performer, PlanActorRunner, RunStop};
use super::error::PlanError;
use super::progress::PlanProgress;
use super::requirements::PlanRequirements;
use crate::observer::AgentEvent;
use crate::tool::SandboxWorkspace;
use crate::validation::{
    CommandCheck, EffectiveValidation, SecretValues, Validation, ValidationCheck, ValidationError,
    ValidationOutcome, ValidationRunner,
};

pub(super) use check::{CheckResult, PlanCheck};
pub use failed_check::FailedCheck;
pub(super) use path_rule::{PathRule, path_violation};
use review::ReviewRound;

/// Treatment of failed results that are still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedResults {
    Keep,
    /// The user retries a plan that failed because of them.
    RunAgain,
}

/// Key of the data of a result whose check could not run.
const ENVIRONMENT_FAILURE: &str = "environment_failure";

/// Validates the result of a plan at the end of its execution.
pub(super) struct ValidatePhase<'a> {
    pub(super) requirements: &'a PlanRequirements,
    pub(super) actors: &'a PlanActorRunner<'a>,
    pub(super) progress: &'a PlanProgress<'a>,
}

impl ValidatePhase<'_> {
    /// Runs every check whose last result is not valid. Returns the new results and the valid failed ones.
    pub(super) fn run(
        &self,
        plan: &Plan,
        workspace: &SandboxWorkspace,
        attempt: u64,
        failed: FailedResults,
    ) -> Result<Vec<CheckResult>, PlanError> {
        let checks = PlanCheck::of_plan(self.requirements, plan)?;
        let stored = self
            .progress
            .read(|reader| validations::results(reader, plan.id))?;
        let mut open: Vec<&PlanCheck> = Vec::new();
        let mut evidence: Vec<CheckResult> = Vec::new();
        let mut results = Vec::new();
        for check in &checks {
            match valid_result(check, &stored, workspace, attempt, failed)? {
                Some(result) if result.passed => {
                    evidence.push(self.earlier_result(check, result)?);
                }
                Some(result) => results.push(self.earlier_result(check, result)?),
                None => open.push(check),
            }
        }
        for check in &open {
            if self.progress.cancel.is_cancelled() {
                return Err(self.progress.stopped(plan)?);
            }
            let outcome = match check {
                PlanCheck::Validation(validation) => {
                    self.run_validation(plan, validation, attempt, workspace)?
                }
                PlanCheck::Command { text, command } => {
                    self.run_command(plan, text, command, workspace)?
                }
                PlanCheck::Review { .. } => continue,
            };
            results.push(self.record_result(plan, check, &outcome, attempt, workspace)?);
        }
        // The reviewer runs last and receives the result of every check, new or stored.
        let criteria: Vec<&PlanCheck> = open
            .into_iter()
            .filter(|check| matches!(check, PlanCheck::Review { .. }))
            .collect();
        if !criteria.is_empty() && results.iter().all(CheckResult::is_acceptable) {
            evidence.extend(results.iter().cloned());
            // A round ends when its verdicts are stored. The next round therefore has another number, and an
            // interrupted round is resumed under its own number.
            let rounds = stored
                .iter()
                .filter(|stored| {
                    criteria
                        .iter()
                        .any(|check| check.has_result(&stored.result))
                })
                .count() as u64;
            let round = ReviewRound {
                criteria: &criteria,
                evidence: &evidence,
                path: ReviewRound::path(plan.attempt, attempt, rounds),
                attempt,
            };
            results.extend(self.review(plan, &round, workspace)?);
        }
        Ok(results)
    }

    fn run_validation(
        &self,
        plan: &Plan,
        validation: &EffectiveValidation,
        attempt: u64,
        workspace: &SandboxWorkspace,
    ) -> Result<ValidationOutcome, PlanError> {
        let name = &validation.validation.name;
        self.progress.observer.validation_started(name);
        let key = format!("wrapped/{}/{attempt}/{name}", plan.attempt);
        let call_tool = |tool: &str, arguments: &Value| {
            self.call_wrapped_tool(plan, &key, tool, arguments, workspace)
        };
        let cancel = self.progress.cancel;
        let outcome = ValidationRunner.validate(validation, workspace, cancel, &call_tool);
        self.unless_cancelled(plan, outcome)
    }

    fn run_command(
        &self,
        plan: &Plan,
        name: &str,
        command: &str,
        workspace: &SandboxWorkspace,
    ) -> Result<ValidationOutcome, PlanError> {
        self.progress.observer.validation_started(name);
        let arguments = [("command".to_owned(), command.to_owned())].into();
        let call_tool = |_: &str, _: &Value| Err("it calls no tool".to_owned());
        let outcome = ValidationRunner.try_out(
            &command_check(name),
            &arguments,
            workspace,
            self.progress.cancel,
            &call_tool,
        );
        self.unless_cancelled(plan, outcome)
    }

    /// Returns the outcome, or an error if the plan was stopped: an interrupted check has no valid outcome.
    fn unless_cancelled(
        &self,
        plan: &Plan,
        outcome: Result<ValidationOutcome, ValidationError>,
    ) -> Result<ValidationOutcome, PlanError> {
        if self.progress.cancel.is_cancelled() {
            return Err(self.progress.stopped(plan)?);
        }
        outcome.map_err(PlanError::from_service)
    }

    /// Calls the tool that a validation wraps. The call may not change anything.
    fn call_wrapped_tool(
        &self,
        plan: &Plan,
        key: &str,
        tool: &str,
        arguments: &Value,
        workspace: &SandboxWorkspace,
    ) -> Result<String, String> {
        let call = StepCall {
            tool: tool.to_owned(),
            arguments: arguments.clone(),
        };
        let task = ActorTask {
            key: &format!("{key}#{}", workspace.position()),
            performer: Performer::ToolCall(&call),
            prompt: String::new(),
            phase: PlanPhase::Apply,
            workspace: Some(workspace),
            carried: None,
            work: None,
        };
        match self.actors.run(plan, &task) {
            Ok(Ok(Value::String(text))) => Ok(text),
            Ok(Ok(value)) => Ok(value.to_string()),
            Ok(Err(RunStop::Failed { message, .. })) => Err(message),
            Ok(Err(RunStop::Cancelled)) => Err("it was stopped".to_owned()),
            Ok(Err(RunStop::NeedsInput(waiting))) => {
                Err(format!("it needs {}", waiting.sentence()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Stores the result of a check with its output, and reports it to the observer.
    fn record_result(
        &self,
        plan: &Plan,
        check: &PlanCheck,
        outcome: &ValidationOutcome,
        attempt: u64,
        workspace: &SandboxWorkspace,
    ) -> Result<CheckResult, PlanError> {
        let redactor = &self.progress.redactor;
        let output = String::from_utf8_lossy(&outcome.output);
        let output = redactor.text(&output).into_owned();
        let mut result = check.result(outcome, attempt, workspace.position());
        result.message = redactor.text(&result.message).into_owned();
        if let (PlanCheck::Command { command, .. }, Some(data), false) =
            (check, &mut result.data, result.passed)
        {
            data["command"] = command.as_str().into();
        }
        if outcome.is_environment_failure {
            let data = result.data.get_or_insert_with(|| json!({}));
            data[ENVIRONMENT_FAILURE] = true.into();
        }
        result.data = result.data.as_ref().map(|data| redactor.value(data));
        let (id, stored, bytes) = (plan.id, result.clone(), output.clone().into_bytes());
        self.progress.write(move |unit| {
            let mut result = stored.clone();
            if !bytes.is_empty() {
                result.output = Some(blobs::put(unit, &bytes)?);
            }
            validations::record(unit, id, &result).map(drop)
        })?;
        let observer = self.progress.observer;
        observer.event(&AgentEvent::ValidationFinished {
            name: result.validation.clone(),
            passed: result.passed,
            message: result.message.clone(),
        });
        // The output of a reviewer is JSON for the program; the message contains the finding.
        let is_printed = !matches!(check, PlanCheck::Review { .. });
        if !result.passed && is_printed {
            observer.event(&AgentEvent::CheckFailed {
                plan_id: plan.id,
                check: FailedCheck::new(&result, output.clone()),
            });
        }
        Ok(CheckResult::new(check, &result, &output))
    }

    /// Converts a stored result that is still valid, and reads its stored output.
    fn earlier_result(
        &self,
        check: &PlanCheck,
        result: &ValidationResult,
    ) -> Result<CheckResult, PlanError> {
        let output = match result.output {
            Some(hash) => self.progress.read(|reader| blobs::get(reader, hash))?,
            None => None,
        };
        let output = output.unwrap_or_default();
        Ok(CheckResult {
            is_earlier: true,
            ..CheckResult::new(check, result, &String::from_utf8_lossy(&output))
        })
    }
}

/// The newest result of a check, if it is valid: the sandbox has not changed since, and the check could run.
fn valid_result<'r>(
    check: &PlanCheck,
    stored: &'r [StoredResult],
    workspace: &SandboxWorkspace,
    attempt: u64,
    failed: FailedResults,
) -> Result<Option<&'r ValidationResult>, PlanError> {
    let mut newest_first = stored.iter().rev().map(|stored| &stored.result);
    let Some(result) = newest_first.find(|result| check.has_result(result)) else {
        return Ok(None);
    };
    let data = result.data.as_ref();
    let could_run = data.is_none_or(|data| data[ENVIRONMENT_FAILURE] != true);
    // A command may depend on more than the files of the sandbox, such as a database that the fix changed.
    let precedes_fix = !matches!(check, PlanCheck::Review { .. }) && result.attempt != attempt;
    let is_kept = result.passed || (failed == FailedResults::Keep && could_run && !precedes_fix);
    Ok((is_kept && workspace.changed_since(result.position)?.is_empty()).then_some(result))
}

/// The validation that runs a command. The command is passed as an argument, so that its braces are not placeholders.
fn command_check(name: &str) -> Validation {
    Validation {
        name: name.to_owned(),
        description: String::new(),
        mode: ValidationMode::Required,
        check: ValidationCheck::Command(Box::new(CommandCheck::shell("eval {command}".to_owned()))),
        keys: SecretValues::default(),
    }
}
