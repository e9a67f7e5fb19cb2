//! `demo`: the story of a plan, told by doing it in a temporary folder.
//!
//! Its commands are run by children of this same program, as a user would. Every line it prints was
//! read back from what they did: from files, from git, from the store.

mod shop;
mod store;
mod story;
mod turn;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cleveragents_application::SessionService;
use cleveragents_domain::{Code, DEFAULT_MAX_CONTENT_BYTES, PlanId};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{CommandError, Panel, Printer, Progress, Report};

/// One stop of the tour: what is promised, and what was seen.
struct Stop {
    title: &'static str,
    promise: &'static str,
    seen: String,
    facts: Value,
    /// What people are shown below it; nothing when empty.
    shown: String,
}

/// Goes to a stop and tells what was seen there.
type Visit = fn(&Tour) -> Result<Stop, CommandError>;

/// The stops, in the order of the story.
const STOPS: [Visit; 11] = [
    shop::has_a_failing_test,
    turn::acts_through_tools,
    story::is_thought_out,
    story::is_carried_out_and_judged,
    story::is_mended,
    story::is_looked_at,
    story::is_taken_back_and_forward,
    story::is_applied_beside_other_work,
    story::is_told_in_order,
    store::threads_append,
    store::killed_stream,
];

/// What says that no model is asked.
const NO_KEY: &str =
    "No key and no network are needed: a script stands for the model. All else is as it always is.";

pub(crate) fn run(context: &Context) -> Result<Report, CommandError> {
    let folder = tempfile::tempdir().map_err(|error| failure("make a temporary folder", &error))?;
    let url = DatabaseUrl::file(Path::new("cleveragents.db"), folder.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let tour = Tour {
        engine,
        url,
        home: folder.path().to_path_buf(),
        printer: context.printer,
        progress: Progress::bar(&context.printer, "Touring", STOPS.len() as u64),
        plan: OnceCell::new(),
    };
    let mut report = Report::new("demo").text(NO_KEY);
    let mut stops = Vec::new();
    for (number, visit) in (1_usize..).zip(STOPS) {
        let stop = visit(&tour)?;
        tour.progress.set(number as u64);
        let title = format!("{number}. {}", stop.title);
        stops.push(json!({"title": title, "promise": stop.promise, "seen": stop.seen, "facts": stop.facts}));
        report = report.panel(
            Panel::new(title)
                .row("Promise", stop.promise)
                .row("Seen", stop.seen),
        );
        if !stop.shown.is_empty() {
            report = report.text(stop.shown);
        }
    }
    tour.progress.finish();
    Ok(report
        .data(json!({"model": "scripted", "needs_key": false, "stops": stops}))
        .text(
            "Your own first plan, in a folder with code:\n  agents do 'run `date > built.txt`' --strategy-actor builtin/deterministic\n  agents plan log\nWith a model (`agents model list` shows which):\n  agents config set model.default PROVIDER/MODEL\n  agents do 'fix the failing test' --check 'make test'",
        )
        .ok("The tour is over; its folder is gone"))
}

/// Where the tour is.
struct Tour {
    engine: Arc<Engine>,
    url: DatabaseUrl,
    home: PathBuf,
    printer: Printer,
    progress: Progress,
    /// The plan of the story, once it is made.
    plan: OnceCell<PlanId>,
}

fn failure(action: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, format!("cannot {action}")).caused_by(error)
}

fn broken(what: &str) -> CommandError {
    CommandError::internal(format!("the demo saw a broken promise: {what}"))
}

/// What a command answered.
struct Answered {
    code: Option<i32>,
    data: Value,
}

impl Tour {
    fn sessions(&self) -> SessionService {
        SessionService::new(Arc::clone(&self.engine), DEFAULT_MAX_CONTENT_BYTES)
    }

    fn plan(&self) -> Result<PlanId, CommandError> {
        self.plan
            .get()
            .copied()
            .ok_or_else(|| broken("there is no plan"))
    }

    /// This program, with the home and the model of the tour and nothing of the user's.
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
            .env("CLEVERAGENTS_MODEL_DEFAULT", shop::MODEL)
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    /// Runs a command of this program and gives its answer, whatever it is.
    fn ask(&self, arguments: &[&str]) -> Result<Answered, CommandError> {
        let output = self
            .program()?
            .args(["--format", "json"])
            .args(arguments)
            .output()
            .map_err(|error| failure("start a second process", &error))?;
        let mut document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            broken(&format!(
                "`{}` gave no document: {error}",
                arguments.join(" ")
            ))
        })?;
        Ok(Answered {
            code: output.status.code(),
            data: document["data"].take(),
        })
    }

    /// Runs a command of this program that must succeed, and gives its data.
    fn agents(&self, arguments: &[&str]) -> Result<Value, CommandError> {
        let answered = self.ask(arguments)?;
        if answered.code == Some(0) {
            Ok(answered.data)
        } else {
            Err(broken(&format!(
                "`{}` failed: {}",
                arguments.join(" "),
                answered.data
            )))
        }
    }
}

/// A text in an answer.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
