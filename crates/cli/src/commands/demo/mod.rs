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
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cleveragents_application::SessionService;
use cleveragents_domain::{Code, DEFAULT_MAX_CONTENT_BYTES, PlanId};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::arguments::{Demo as Arguments, DemoTopic};
use crate::context::Context;
use crate::output::{CommandError, Markdown, Printer, Progress, Report, Tone, visible_lines, wrap};

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

/// A sequence of steps with the texts around it.
struct Story<'a> {
    /// Name of the command in its output.
    name: &'static str,
    /// Printed before the first step.
    introduction: &'a str,
    steps: &'a [DemoStep],
    /// The default model of the commands.
    model: &'a str,
    /// Printed after the last step.
    next: &'static str,
}

const PLAN_INTRODUCTION: &str = "\
One task from start to commit, in a temporary folder: a plan works out a strategy, executes it in a \
copy of the files, runs the tests and applies the result. Needs no key and no network: a script \
replaces the model; everything else is real.";

const AFTER_PLAN: &str = "\
Next, in a folder of yours, with the key of a provider in the environment:
  agents                                                talk about the code
  agents do 'fix the failing test' --check 'make test'  do a task
  agents setup                                          choose a model";

const POOLS_INTRODUCTION: &str = "\
A project with three races, in a temporary folder: pools find them, order them, prove each with a \
failing test, fix, review and merge them. Needs no key and no network: scripts replace the models; \
everything else is real.";

const AFTER_POOLS: &str = "\
Next, in a project of yours, with the key of a provider in the environment:
  agents hunt src            find races in a folder
  agents fix ITEM            prove and fix one finding
  agents demo pools --live   your model on this example";

const LIVE_INTRODUCTION: &str = "\
A project with three races, in a temporary folder: your model finds them and fixes one.";

/// Time to read a step before the next one starts; Enter ends it.
const READING_TIME: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 500_000_000,
};

/// Maximum width of the text of a step.
const MAX_WIDTH: usize = 96;

/// The name of the command in its output.
pub(crate) const fn name(arguments: &Arguments) -> &'static str {
    match arguments.topic {
        None => "demo",
        Some(DemoTopic::Pools { .. }) => "demo pools",
    }
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Report, CommandError> {
    let live_model;
    let story = match arguments.topic {
        None => Story {
            name: "demo",
            introduction: PLAN_INTRODUCTION,
            steps: &STEPS,
            model: shop::MODEL,
            next: AFTER_PLAN,
        },
        Some(DemoTopic::Pools { live: false }) => Story {
            name: "demo pools",
            introduction: POOLS_INTRODUCTION,
            steps: &pools::STEPS,
            model: pools::MODEL,
            next: AFTER_POOLS,
        },
        Some(DemoTopic::Pools { live: true }) => {
            let Some(model) = context.settings.model_default() else {
                return Err(CommandError::new(Code::NoModel, "no model is set")
                    .with_hint("set one: `agents config set model.default PROVIDER/MODEL`"));
            };
            live_model = model.to_string();
            Story {
                name: "demo pools",
                introduction: LIVE_INTRODUCTION,
                steps: &pools::LIVE_STEPS,
                model: &live_model,
                next: AFTER_POOLS,
            }
        }
    };
    story.run(context)
}

impl Story<'_> {
    /// Runs the steps in a temporary folder.
    fn run(&self, context: &Context) -> Result<Report, CommandError> {
        let folder =
            tempfile::tempdir().map_err(|error| failure("create a temporary folder", &error))?;
        let url = DatabaseUrl::file(Path::new("cleveragents.db"), folder.path());
        let engine = EngineCache::new(Options::default()).open(&url)?;
        let demo = Demo {
            engine,
            url,
            home: folder.path().to_path_buf(),
            printer: context.printer,
            progress: Progress::spinner(&context.printer, "Preparing an example"),
            plan: OnceCell::new(),
            model: self.model.to_owned(),
        };
        demo.narrate(&demo.wrapped(self.introduction, 0));
        let mut steps = Vec::new();
        for (number, step) in (1_usize..).zip(self.steps) {
            let result = step(&demo)?;
            let title = format!("{number}. {}", result.title);
            demo.narrate(&demo.step_text(&title, &result));
            steps.push(json!({"title": title, "promise": result.promise, "seen": result.seen, "facts": result.facts}));
            if number < self.steps.len() {
                demo.pause();
            }
        }
        demo.progress.finish();
        let is_scripted = self.model.starts_with("scripted/");
        let model = if is_scripted { "scripted" } else { self.model };
        Ok(Report::new(self.name)
            .data(json!({"model": model, "needs_key": !is_scripted, "stops": steps}))
            .text(self.next)
            .ok("Demo finished; its temporary folder is removed"))
    }
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
    /// Prints a text while the demo runs, in the formats for users.
    fn narrate(&self, text: &str) {
        if !self.printer.format().is_human() {
            return;
        }
        self.progress.suspend(|| {
            let mut out = std::io::stdout().lock();
            // Fails only if the reader closed the pipe.
            let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
        });
    }

    /// A step as text: its guarantee and the observed result.
    fn step_text(&self, title: &str, result: &StepResult) -> String {
        let (paint, _) = self.printer.canvas();
        let title = paint.text(Tone::Title, title);
        let mut text = format!("{title}\n{}", self.wrapped(&result.seen, 3));
        if !result.shown.is_empty() {
            let lines = result.shown.trim_end().lines();
            let hunk: Vec<&str> = lines.skip_while(|line| !line.starts_with("@@")).collect();
            let hunk = hunk.join("\n");
            let patch = visible_lines(&hunk);
            let patch = if self.printer.draws() {
                Markdown::code(paint, "diff", &patch)
            } else {
                patch.into_owned()
            };
            text.push('\n');
            text.push_str(patch.trim_end());
        }
        text
    }

    /// A text as lines that fit the terminal.
    fn wrapped(&self, text: &str, indent: usize) -> String {
        let limit = self.printer.canvas().1.min(MAX_WIDTH) - indent;
        let text = visible_lines(text);
        let lines = wrap(&text, limit, usize::MAX).into_iter();
        let indented = lines.map(|line| format!("{:indent$}{line}", ""));
        indented.collect::<Vec<_>>().join("\n")
    }

    /// Gives the user time to read, at a terminal.
    fn pause(&self) {
        let stdin = std::io::stdin();
        if !self.printer.shows_progress() || !stdin.is_terminal() {
            return;
        }
        self.progress.label("Enter continues");
        let mut keyboard = [PollFd::new(&stdin, PollFlags::IN)];
        if matches!(poll(&mut keyboard, Some(&READING_TIME)), Ok(1..)) {
            let _line = rustix::io::read(&stdin, &mut [0; 256]);
        }
        self.progress.label("Running the demo");
    }

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
