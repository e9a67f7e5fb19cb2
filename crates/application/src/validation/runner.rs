//! [`ValidationRunner`]: runs validations on a sandbox and leaves the sandbox unchanged.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use cleveragents_actors::NameValues;
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::{Cancel, CommandResult, Ending};
use cleveragents_tools::Access;
use cleveragents_tools::ports::{Command, PortError, Workspace as _};
use serde_json::{Map, Value, json};

use super::definition::{
    CommandCheck, CommandLine, SecretValues, Validation, ValidationCheck, WrappedCheck,
};
use super::error::ValidationError;
use super::placeholders;
use super::service::EffectiveValidation;
use crate::tool::SandboxWorkspace;

/// Calls the tool that a validation wraps. Receives the name of the tool and the arguments; returns
/// the output, or the reason of the failure. The call must be read-only.
pub type WrappedTool<'w> = &'w dyn Fn(&str, &Value) -> Result<String, String>;

/// Result of a validation.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationOutcome {
    /// Whether the validation met all conditions.
    pub passed: bool,
    /// Message for users and models.
    pub message: String,
    /// Measured values.
    pub data: Option<Value>,
    /// The output of the command or tool; for long output, the beginning and the end.
    pub output: Vec<u8>,
    /// Run time.
    pub duration: Duration,
    /// True if the validation could not run or reached its time limit: the failure does not mean that the files are wrong.
    pub is_environment_failure: bool,
}

/// Runs validations.
#[derive(Debug, Clone, Copy, Default)]
pub struct ValidationRunner;

/// Number of bytes of an output that are kept from its beginning, and the same number from its end.
const KEPT_BYTES: usize = 1 << 20;

/// Exit codes with which a shell reports that it cannot run a program: not executable, not found.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// Shells for commands; the first installed one is used.
const SHELLS: [(&str, &[&str]); 2] = [("bash", &["--noprofile", "--norc", "-c"]), ("sh", &["-c"])];

/// The beginning and the end of a stream.
#[derive(Default)]
struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl HeadAndTail {
    fn push(&mut self, bytes: &[u8]) {
        let room = KEPT_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let excess = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..excess);
        self.left_out += excess;
    }

    fn finish(self) -> Vec<u8> {
        let mut all = self.head;
        if self.left_out > 0 {
            let note = format!("\n[… {} bytes left out …]\n", self.left_out);
            all.extend_from_slice(note.as_bytes());
        }
        all.extend(self.tail);
        all
    }
}

/// Intermediate result of a validation.
struct IntermediateResult {
    /// Reasons of the failure; empty when the validation passed.
    failures: Vec<String>,
    data: Map<String, Value>,
    output: Vec<u8>,
    is_environment_failure: bool,
}

impl IntermediateResult {
    /// The result of a validation that could not run.
    fn not_run(why: impl Into<String>) -> Self {
        Self {
            failures: vec![why.into()],
            data: Map::new(),
            output: Vec::new(),
            is_environment_failure: true,
        }
    }
}

impl ValidationRunner {
    /// Validates the part of a sandbox that contains the resource of an attachment. Afterwards, the
    /// files of the sandbox are identical to before. A failed validation is not an error; an error means
    /// that the sandbox failed or the validation was cancelled.
    pub fn validate(
        self,
        in_effect: &EffectiveValidation,
        workspace: &SandboxWorkspace,
        cancel: &Cancel,
        wrapped: WrappedTool<'_>,
    ) -> Result<ValidationOutcome, ValidationError> {
        let resource = in_effect.resource.name.to_string();
        let Some(part) = workspace.part_of(&resource) else {
            let why = format!(
                "the sandbox `{}` has no part for the resource `{resource}`",
                workspace.name()
            );
            return Ok(outcome_of(IntermediateResult::not_run(why), Duration::ZERO));
        };
        let target = ValidationTarget {
            workspace,
            part: Some(part.to_owned()),
            cancel,
        };
        Self::run_check(
            &in_effect.validation,
            &in_effect.arguments,
            &target,
            wrapped,
        )
    }

    /// Validates a sandbox outside of a plan: its only part, or the parent folder of all parts.
    pub fn try_out(
        self,
        validation: &Validation,
        arguments: &BTreeMap<String, String>,
        workspace: &SandboxWorkspace,
        cancel: &Cancel,
        wrapped: WrappedTool<'_>,
    ) -> Result<ValidationOutcome, ValidationError> {
        let target = ValidationTarget {
            workspace,
            part: None,
            cancel,
        };
        Self::run_check(validation, arguments, &target, wrapped)
    }

    fn run_check(
        validation: &Validation,
        arguments: &BTreeMap<String, String>,
        target: &ValidationTarget<'_>,
        wrapped: WrappedTool<'_>,
    ) -> Result<ValidationOutcome, ValidationError> {
        if let Some(why) = validation.argument_mismatch(arguments) {
            return Ok(outcome_of(IntermediateResult::not_run(why), Duration::ZERO));
        }
        let started = Instant::now();
        let (verdict, changes) = target.workspace.without_trace(|| match &validation.check {
            ValidationCheck::Command(check) => run(check, arguments, target),
            ValidationCheck::Wraps(check) => Ok(call(check, arguments, wrapped)),
        })?;
        let elapsed = started.elapsed();
        if target.cancel.is_cancelled() {
            return Err(ValidationError::Cancelled(validation.name.clone()));
        }
        let mut verdict = match verdict {
            Ok(verdict) => verdict,
            // A command that could not run counts as failed.
            Err(error) => IntermediateResult::not_run(cannot_run(&error)),
        };
        if !changes.is_empty() {
            let count = changes.len();
            verdict.data.insert("taken_back".to_owned(), json!(count));
        }
        let mut outcome = outcome_of(verdict, elapsed);
        hide(&mut outcome, &validation.keys);
        Ok(outcome)
    }
}

/// Sandbox and part of a validation.
struct ValidationTarget<'g> {
    workspace: &'g SandboxWorkspace,
    part: Option<String>,
    cancel: &'g Cancel,
}

fn outcome_of(verdict: IntermediateResult, duration: Duration) -> ValidationOutcome {
    let passed = verdict.failures.is_empty();
    ValidationOutcome {
        passed,
        message: if passed {
            "it passed".to_owned()
        } else {
            verdict.failures.join("; ")
        },
        data: (!verdict.data.is_empty()).then_some(Value::Object(verdict.data)),
        output: verdict.output,
        duration,
        is_environment_failure: verdict.is_environment_failure && !passed,
    }
}

fn cannot_run(error: &PortError) -> String {
    let hint = error
        .hint()
        .map(|hint| format!(" ({})", hint.neutral()))
        .unwrap_or_default();
    format!("it could not be run: {error}{hint}")
}

/// Redacts the secrets of a validation in its result.
fn hide(outcome: &mut ValidationOutcome, keys: &SecretValues) {
    if keys.is_empty() {
        return;
    }
    let output = String::from_utf8_lossy(&outcome.output);
    outcome.output = keys.hide(&output).into_bytes();
    outcome.message = keys.hide(&outcome.message);
    outcome.data = outcome.data.as_ref().map(|data| keys.hide_in(data));
}

/// Runs a command and checks its exit code and output.
fn run(
    check: &CommandCheck,
    arguments: &BTreeMap<String, String>,
    target: &ValidationTarget<'_>,
) -> Result<IntermediateResult, PortError> {
    let captured = RefCell::new(HeadAndTail::default());
    let finished = exec(check, arguments, target, &captured)?;
    let output = captured.into_inner().finish();
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut failures = Vec::new();
    let mut data = Map::new();
    let is_environment_failure = match finished.ending {
        Ending::TimedOut => true,
        Ending::Exited(code) => CANNOT_RUN.contains(&code),
        Ending::Signalled(_) | Ending::Cancelled => false,
    };
    if let Some(limit) = finished.exceeded {
        failures.push(format!(
            "it and its child processes were stopped: it exceeded {limit}"
        ));
    }
    match finished.ending {
        Ending::Signalled(_) if finished.exceeded.is_some() => {}
        Ending::Exited(code) => {
            data.insert("exit_code".to_owned(), json!(code));
            if !check.exit_codes.contains(&code) {
                failures.push(format!("it ended with exit code {code}"));
            }
        }
        Ending::Signalled(signal) => failures.push(format!("signal {signal} ended it")),
        Ending::TimedOut => failures.push(format!(
            "it and its child processes were stopped at its time limit of {} seconds",
            check.timeout.as_secs_f64()
        )),
        Ending::Cancelled => failures.push("it was stopped".to_owned()),
    }
    if let Some(pattern) = &check.output_matches
        && !pattern.is_match(&text)
    {
        failures.push(format!("its output does not match `{}`", pattern.as_str()));
    }
    measure(check, &text, &mut failures, &mut data);
    if !failures.is_empty() {
        data.insert("command".to_owned(), command_text(check, arguments).into());
    }
    Ok(IntermediateResult {
        failures,
        data,
        output,
        is_environment_failure,
    })
}

/// The command of a check with its arguments, for messages.
fn command_text(check: &CommandCheck, arguments: &BTreeMap<String, String>) -> String {
    match &check.command {
        CommandLine::Shell(text) => placeholders::fill(text, arguments),
        CommandLine::Words(words) => {
            let words: Vec<String> = words
                .iter()
                .map(|word| placeholders::fill(word, arguments))
                .collect();
            words.join(" ")
        }
    }
}

fn exec(
    check: &CommandCheck,
    arguments: &BTreeMap<String, String>,
    target: &ValidationTarget<'_>,
    captured: &RefCell<HeadAndTail>,
) -> Result<CommandResult, PortError> {
    let mut environment: Vec<(OsString, OsString)> = check
        .environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let attempts: Vec<(OsString, Vec<OsString>)> = match &check.command {
        CommandLine::Words(words) => {
            let mut words = words
                .iter()
                .map(|word| placeholders::fill(word, arguments).into());
            let program = words.next().unwrap_or_default();
            vec![(program, words.collect())]
        }
        CommandLine::Shell(text) => {
            for (name, value) in arguments {
                environment.push((placeholders::variable(name).into(), value.into()));
            }
            let text = placeholders::for_shell(text);
            let attempt = |(shell, options): (&str, &[&str])| {
                let options = options.iter().map(OsString::from);
                let words = options.chain([OsString::from(&text)]).collect();
                (OsString::from(shell), words)
            };
            SHELLS.into_iter().map(attempt).collect()
        }
    };
    let count = attempts.len();
    for (number, (program, words)) in attempts.into_iter().enumerate() {
        let command = Command {
            program,
            arguments: words,
            part: target.part.clone(),
            folder: check.working_directory.clone(),
            environment: environment.clone(),
            input: Vec::new(),
            time: check.timeout,
            access: Access::Writes,
            network: check.network,
            readable: Vec::new(),
        };
        let capture = |_, bytes: &[u8]| captured.borrow_mut().push(bytes);
        match target.workspace.exec(&command, &capture, target.cancel) {
            Err(error) if error.code() == Code::ProgramNotFound && number + 1 < count => {}
            other => return other,
        }
    }
    // Not reached: the loop returns the result of the last attempt.
    Err(PortError::new(cleveragents_store::Error::Internal(
        "no command to run".to_owned(),
    )))
}

/// Extracts numbers from the output and compares them with their limits.
fn measure(
    check: &CommandCheck,
    text: &str,
    failures: &mut Vec<String>,
    data: &mut Map<String, Value>,
) {
    let mut metrics = Map::new();
    for (name, expression) in &check.metrics {
        let number = expression
            .captures_iter(text)
            .filter_map(|captures| number(captures.get(1)?.as_str()))
            .last();
        let (minimum, maximum) = (check.minimum.get(name), check.maximum.get(name));
        match number {
            Some(number) => {
                if let Some(minimum) = minimum.filter(|minimum| number < **minimum) {
                    failures.push(format!("{name} is {number}, less than {minimum}"));
                }
                if let Some(maximum) = maximum.filter(|maximum| number > **maximum) {
                    failures.push(format!("{name} is {number}, more than {maximum}"));
                }
                metrics.insert(name.clone(), json!(number));
            }
            None if minimum.is_some() || maximum.is_some() => {
                failures.push(format!("its output has no value for `{name}`"));
            }
            None => {}
        }
    }
    if !metrics.is_empty() {
        data.insert("metrics".to_owned(), Value::Object(metrics));
    }
}

/// Parses a number in the formats that programs print, such as `1,234.5`.
fn number(text: &str) -> Option<f64> {
    let plain = text.trim().replace([',', '_', ' '], "");
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Names that a transform can use.
struct Scope {
    output: Value,
    arguments: Value,
}

impl NameValues for Scope {
    fn value(&self, name: &str) -> Option<&Value> {
        match name {
            "output" => Some(&self.output),
            "arguments" => Some(&self.arguments),
            _ => None,
        }
    }
}

/// Calls a tool and evaluates its output.
fn call(
    check: &WrappedCheck,
    arguments: &BTreeMap<String, String>,
    wrapped: WrappedTool<'_>,
) -> IntermediateResult {
    let filled = placeholders::fill_in(&check.arguments, arguments);
    let output = match wrapped(&check.tool, &filled) {
        Ok(output) => output,
        Err(why) => return IntermediateResult::not_run(format!("`{}` failed: {why}", check.tool)),
    };
    let scope = Scope {
        output: serde_json::from_str(&output).unwrap_or_else(|_| Value::String(output.clone())),
        arguments: filled,
    };
    let mut verdict = IntermediateResult {
        failures: Vec::new(),
        data: Map::new(),
        output: output.into_bytes(),
        is_environment_failure: false,
    };
    match check.transform.value(&scope) {
        Ok(Value::Bool(true)) => {}
        Ok(Value::Bool(false)) => {
            let text = check.transform.text();
            verdict.failures.push(format!("`{text}` is false"));
        }
        Ok(Value::Object(mut fields)) if fields.get("passed").is_some_and(Value::is_boolean) => {
            if fields.get("passed") != Some(&Value::Bool(true)) {
                let message = fields.get("message").and_then(Value::as_str);
                let message = message.filter(|message| !message.trim().is_empty());
                let message = message.unwrap_or("the transform returned that it did not pass");
                verdict.failures.push(message.to_owned());
            }
            match fields.remove("data") {
                Some(Value::Object(data)) => verdict.data = data,
                Some(Value::Null) | None => {}
                Some(other) => {
                    verdict.data.insert("value".to_owned(), other);
                }
            }
        }
        Ok(other) => verdict.failures.push(format!(
            "the transform returned `{other}`, which is neither true, false nor a map with `passed`"
        )),
        Err(error) => verdict
            .failures
            .push(format!("the transform failed: {error}")),
    }
    verdict
}
