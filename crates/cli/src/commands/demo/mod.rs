//! `demo`: runs a whole plan on an example project in a temporary folder.
//!
//! Child processes of this program run the commands, as a user would. Every result is read from
//! files, git or the database, not from the output of the commands.

mod plan;
mod pools;
mod shop;
mod store;
mod turn;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cleveragents_application::SessionService;
use cleveragents_domain::{Code, DEFAULT_MAX_CONTENT_BYTES, PlanId};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use serde_json::{Value, json};

use crate::arguments::{Demo as Arguments, DemoTopic};
use crate::context::Context;
use crate::output::{CommandError, Panel, Printer, Progress, Report};

/// Result of a step of the demo: a guarantee, and the observed result.
struct StepResult {
    title: &'static str,
    promise: &'static str,
    seen: String,
    facts: Value,
    /// Text to print below the panel; may be empty.
    shown: String,
}

/// Function that runs a step of the demo.
type DemoStep = fn(&Demo) -> Result<StepResult, CommandError>;

/// Steps in order.
const STEPS: [DemoStep; 11] = [
    shop::has_a_failing_test,
    turn::acts_through_tools,
    plan::creates_a_strategy,
    plan::executes_and_validates,
    plan::fixes_the_code,
    plan::shows_the_diff,
    plan::rolls_back_and_redoes,
    plan::applies_next_to_user_changes,
    plan::logs_every_event,
    store::threads_append,
    store::killed_stream,
];

/// Explains that no model is called.
const NO_KEY: &str =
    "Needs no key and no network: a script replaces the model. Everything else is real.";

/// The name of the command in its output.
pub(crate) const fn name(arguments: &Arguments) -> &'static str {
    match arguments.topic {
        None => "demo",
        Some(DemoTopic::Pools { .. }) => "demo pools",
    }
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Report, CommandError> {
    match arguments.topic {
        None => run_plan(context),
        Some(DemoTopic::Pools { live: false }) => run_pools(context),
        Some(DemoTopic::Pools { live: true }) => run_live_pools(context),
    }
}

fn run_pools(context: &Context) -> Result<Report, CommandError> {
    let report = run_steps(context, "demo pools", &pools::STEPS, pools::MODEL)?;
    Ok(report
        .text(
            "To hunt in your own project, with a model (see `agents model list`):\n  agents hunt src\n  agents fix ITEM\n\
             With your model on this example:\n  agents demo pools --live",
        )
        .ok("Demo finished; its temporary folder is removed"))
}

fn run_live_pools(context: &Context) -> Result<Report, CommandError> {
    let Some(model) = context.settings.model_default() else {
        return Err(CommandError::new(Code::NoModel, "no model is set")
            .with_hint("set one: `agents config set model.default PROVIDER/MODEL`"));
    };
    let report = run_steps(
        context,
        "demo pools",
        &pools::LIVE_STEPS,
        &model.to_string(),
    )?;
    Ok(report.ok("Demo finished; its temporary folder is removed"))
}

fn run_plan(context: &Context) -> Result<Report, CommandError> {
    let report = run_steps(context, "demo", &STEPS, shop::MODEL)?;
    Ok(report
        .text(
            "To run your first plan, in a folder with code:\n  agents do 'run `date > built.txt`' --strategy-actor builtin/deterministic\n  agents plan log\nWith a model (see `agents model list`):\n  agents config set model.default PROVIDER/MODEL\n  agents do 'fix the failing test' --check 'make test'",
        )
        .ok("Demo finished; its temporary folder is removed"))
}

/// Runs steps in a temporary folder, with a scripted model.
fn run_steps(
    context: &Context,
    name: &'static str,
    steps_in_order: &[DemoStep],
    model: &str,
) -> Result<Report, CommandError> {
    let folder =
        tempfile::tempdir().map_err(|error| failure("create a temporary folder", &error))?;
    let url = DatabaseUrl::file(Path::new("cleveragents.db"), folder.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let demo = Demo {
        engine,
        url,
        home: folder.path().to_path_buf(),
        printer: context.printer,
        progress: Progress::bar(
            &context.printer,
            "Running the demo",
            steps_in_order.len() as u64,
        ),
        plan: OnceCell::new(),
        model: model.to_owned(),
    };
    let is_scripted = model.starts_with("scripted/");
    let mut report = Report::new(name);
    if is_scripted {
        report = report.text(NO_KEY);
    }
    let mut steps = Vec::new();
    for (number, step) in (1_usize..).zip(steps_in_order) {
        let result = step(&demo)?;
        demo.progress.set(number as u64);
        let title = format!("{number}. {}", result.title);
        steps.push(json!({"title": title, "promise": result.promise, "seen": result.seen, "facts": result.facts}));
        report = report.panel(
            Panel::new(title)
                .row("Guarantee", result.promise)
                .row("Result", result.seen),
        );
        if !result.shown.is_empty() {
            report = report.text(result.shown);
        }
    }
    demo.progress.finish();
    Ok(report.data(json!({
        "model": if is_scripted { "scripted" } else { model },
        "needs_key": !is_scripted, "stops": steps,
    })))
}

/// State of the demo.
struct Demo {
    engine: Arc<Engine>,
    url: DatabaseUrl,
    home: PathBuf,
    printer: Printer,
    progress: Progress,
    /// Set by the step that creates the plan.
    plan: OnceCell<PlanId>,
    /// The default model of the commands.
    model: String,
}

fn failure(action: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, format!("cannot {action}")).caused_by(error)
}

fn violated(condition: &str) -> CommandError {
    CommandError::internal(format!(
        "a guarantee of the demo does not hold: {condition}"
    ))
}

/// Exit code and JSON output of a command.
struct CommandResult {
    code: Option<i32>,
    data: Value,
}

impl Demo {
    fn sessions(&self) -> SessionService {
        SessionService::new(Arc::clone(&self.engine), DEFAULT_MAX_CONTENT_BYTES)
    }

    fn plan(&self) -> Result<PlanId, CommandError> {
        self.plan
            .get()
            .copied()
            .ok_or_else(|| violated("there is no plan"))
    }

    /// Command that runs this program with the home and the model of the demo, without the
    /// `CLEVERAGENTS_` variables of the user.
    fn program(&self) -> Result<Command, CommandError> {
        let program =
            std::env::current_exe().map_err(|error| failure("find this program", &error))?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CLEVERAGENTS_") {
                command.env_remove(name);
            }
        }
        command
            .arg("--database-url")
            .arg(self.url.to_string())
            .env("CLEVERAGENTS_HOME", &self.home)
            .env("CLEVERAGENTS_MODEL_DEFAULT", &self.model)
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    /// Runs a command of this program and returns its result, also on failure.
    fn run_command(&self, arguments: &[&str]) -> Result<CommandResult, CommandError> {
        let output = self
            .program()?
            .args(["--format", "json"])
            .args(arguments)
            .output()
            .map_err(|error| failure("start a second process", &error))?;
        let mut document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            violated(&format!(
                "`{}` printed no JSON document: {error}",
                arguments.join(" ")
            ))
        })?;
        Ok(CommandResult {
            code: output.status.code(),
            data: document["data"].take(),
        })
    }

    /// Runs a command of this program and returns its data; fails if the command fails.
    fn agents(&self, arguments: &[&str]) -> Result<Value, CommandError> {
        let result = self.run_command(arguments)?;
        if result.code == Some(0) {
            Ok(result.data)
        } else {
            Err(violated(&format!(
                "`{}` failed: {}",
                arguments.join(" "),
                result.data
            )))
        }
    }
}

/// String value of a JSON field, empty if absent.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
