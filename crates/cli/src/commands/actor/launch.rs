//! `actor run` and `run resume`: arguments, and what is shown of a run.

use std::path::Path;

use cleveragents_application::run_operations::RunInfo;
use cleveragents_application::{
    ActorRunOptions, ActorRunReport, ActorRunRequest, ActorRunner, ActorService, OperationError,
    RunFrontEnd, RunService, UnknownOutcome, read_context,
};
use cleveragents_domain::Code;
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use serde_json::{Map, Value, json};

use super::found;
use super::watcher::Watcher;
use crate::arguments::{ActorRun, RunResume};
use crate::commands::session::read_text;
use crate::commands::signals;
use crate::commands::terminal::Terminal;
use crate::commands::write_file;
use crate::commands::{cost_cell, put_cost, read_definition};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(
    context: &Context,
    actors: &ActorService,
    arguments: &ActorRun,
) -> Result<Report, CommandError> {
    let (name, prompt) = named_prompt(context, arguments)?;
    let options = ActorRunOptions {
        place: (&arguments.ground).into(),
        skills: arguments.skill.clone(),
        servers: arguments.mcp.clone(),
        tools: arguments.tool.clone(),
        temperature: arguments.temperature,
        context: arguments.context.clone(),
        prompt,
    };
    let runtime = context.runtime(&options.place.safety, arguments.record.as_deref())?;
    let config = arguments.config.as_deref();
    let actor = found(context, actors, runtime.toolset(), name.as_deref(), config)?;
    if let Some(path) = &arguments.output {
        check_output(path)?;
    }
    let request = ActorRunRequest {
        actor,
        allow_unsafe: arguments.allow_unsafe,
        caller: &context.caller(),
        input: object(arguments.input.as_deref(), "--input")?,
        earlier_messages: exported_messages(arguments)?,
        values: pairs(&arguments.set)?,
        options,
    };
    let view = RunView::new(context, arguments.stream, "actor run");
    let runner = ActorRunner::new(&runtime, context.runs()?);
    let done = view.show(|front_end| runner.start(request, front_end))?;
    let report = view.report(&done)?;
    if let Some(path) = &arguments.output {
        let shows = format!("`agents run show {}` shows the answer", done.report.run);
        write_file(path, done.answer().as_bytes()).map_err(|error| error.with_hint(shows))?;
        return Ok(report.info(format!("the answer is in {}", path.display())));
    }
    Ok(report)
}

pub(in crate::commands) fn resume(
    context: &Context,
    service: &RunService,
    arguments: &RunResume,
) -> Result<Report, CommandError> {
    let run = service.resolve(&arguments.run.run)?;
    let options = ActorRunOptions::stored(&run)?;
    let runtime = context.runtime(&options.place.safety, None)?;
    let unknown_outcome = match (arguments.redo, arguments.skip) {
        (true, _) => UnknownOutcome::Retry,
        (_, true) => UnknownOutcome::AssumeDone,
        _ => UnknownOutcome::Ask,
    };
    let view = RunView::new(context, arguments.stream, "run resume");
    let runner = ActorRunner::new(&runtime, service.clone());
    let answer = arguments.answer.as_deref();
    let done = view.show(|front_end| runner.resume(&run, answer, unknown_outcome, front_end))?;
    view.report(&done)
}

/// The actor and the prompt that are meant.
fn named_prompt(
    context: &Context,
    arguments: &ActorRun,
) -> Result<(Option<String>, Option<String>), CommandError> {
    let (name, prompt) = match (&arguments.name, &arguments.prompt, &arguments.asked) {
        // With a file the only word is the prompt.
        (Some(word), None, None) if arguments.config.is_some() => (None, Some(word.clone())),
        (Some(name), ..) if arguments.config.is_some() => {
            return Err(CommandError::usage(format!(
                "both the actor `{name}` and a file are named"
            ))
            .with_hint("leave out the name to run the file, or --config to run the actor"));
        }
        (name, prompt, asked) => (name.clone(), prompt.clone().or_else(|| asked.clone())),
    };
    let prompt = match prompt.as_deref() {
        Some("-") => Some(read_text(context)?),
        other => other.map(str::to_owned),
    };
    let is_empty = prompt
        .as_deref()
        .is_none_or(|prompt| prompt.trim().is_empty());
    if is_empty && arguments.input.is_none() {
        return Err(CommandError::usage("nothing is asked").with_hint(
            "add a prompt: `agents actor run NAME 'PROMPT'`, `-` for standard input, or --input JSON",
        ));
    }
    Ok((name, prompt))
}

/// Refuses a file that cannot be written before anything is asked and paid for.
fn check_output(path: &Path) -> Result<(), CommandError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if folder.is_dir() && !path.is_dir() {
        return Ok(());
    }
    let message = format!("`{}` cannot be written", path.display());
    Err(CommandError::new(Code::FileAccess, message)
        .with_hint("name a file in a folder that exists"))
}

/// The messages of the exported conversation that the run continues.
fn exported_messages(arguments: &ActorRun) -> Result<Option<Vec<Value>>, CommandError> {
    let Some(file) = &arguments.load_context else {
        return Ok(None);
    };
    let text = read_definition(file, "the file of a context", Code::MalformedContext)?;
    let messages = read_context(&text)?.messages;
    Ok(Some(
        messages.iter().map(|message| json!(message)).collect(),
    ))
}

fn object(text: Option<&str>, option: &str) -> Result<Map<String, Value>, CommandError> {
    let Some(text) = text else {
        return Ok(Map::new());
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(
            CommandError::usage(format!("{option} is not a JSON object"))
                .with_hint("write it like {\"key\": \"value\"}"),
        ),
        Err(error) => Err(
            CommandError::usage(format!("{option} is not JSON: {error}"))
                .with_hint("write it like {\"key\": \"value\"}"),
        ),
    }
}

/// Values given one by one: JSON where they are JSON, otherwise text.
fn pairs(given: &[String]) -> Result<Map<String, Value>, CommandError> {
    given
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                Ok((key.to_owned(), value))
            }
            _ => Err(CommandError::usage(format!("`{pair}` is not KEY=VALUE"))
                .with_hint("write it like --set team=core")),
        })
        .collect()
}

/// Shows a run while it runs, and its outcome.
struct RunView<'a> {
    context: &'a Context,
    watcher: Watcher,
    is_stream: bool,
    command: &'static str,
}

impl<'a> RunView<'a> {
    fn new(context: &'a Context, is_stream: bool, command: &'static str) -> Self {
        Self {
            context,
            watcher: Watcher::new(context, is_stream),
            is_stream,
            command,
        }
    }

    /// Calls `run`, with the terminal as its front end.
    fn show(
        &self,
        run: impl FnOnce(RunFrontEnd<'_>) -> Result<ActorRunReport, OperationError>,
    ) -> Result<ActorRunReport, CommandError> {
        let (cancel, stop) = (Cancel::new(), CancellationToken::new());
        let terminal = Terminal::new(self.context, &cancel);
        let signals = signals::stop_on_signals(self.context, &cancel, &stop)?;
        let done = run(RunFrontEnd {
            approver: &terminal,
            observer: &self.watcher,
            cancel: &cancel,
        });
        self.watcher.end();
        signals.conclude(done)
    }

    fn report(&self, done: &ActorRunReport) -> Result<Report, CommandError> {
        let actor = &done.actor;
        let outcome = &done.report.outcome;
        let service = self.context.runs()?;
        let stored = service.get(done.report.run)?;
        let is_cost_known = service.is_cost_known(done.report.run)?;
        let usage = outcome.taken.usage;
        let answer = done.answer();
        let mut data = json!({
                "actor_run": {
                    "actor": actor.name,
                    "type": actor.kind,
                    "temperature": done.options.temperature,
                    "skill": done.options.skills,
                    "run": done.report.run,
                },
                "run": RunInfo::new(&stored, is_cost_known),
                "response": {
                    "text": answer,
                    "value": outcome.output,
                    "state": outcome.state,
                },
                "sandbox": done.sandbox,
                "usage": {
                    "tokens": usage.input_tokens.0 + usage.output_tokens.0,
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cost": null,
                    "duration_s": self.watcher.elapsed().as_secs_f64(),
                    "model_calls": outcome.taken.model_calls,
                    "tool_calls": outcome.taken.tool_calls,
                    "steps": outcome.steps,
                    "steps_done_before": outcome.recalled,
                },
        });
        let cost = usage.cost_micro_usd;
        put_cost(&mut data["usage"], "cost", cost, is_cost_known);
        let shown = Report::new(self.command).data(data).panel(
            Panel::new("Actor Run")
                .row("Actor", actor.name.clone())
                .row("Run", Cell::Id(done.report.run.to_string()))
                .row("Sandbox", done.sandbox.clone()),
        );
        let shown = if self.is_stream && self.context.printer.format().is_human() {
            shown
        } else {
            shown.text(answer)
        };
        let shown = shown.panel(
            Panel::new("Usage")
                .row("Steps", outcome.steps)
                .row(
                    "Done before",
                    (outcome.recalled > 0).then_some(outcome.recalled),
                )
                .row("Model calls", outcome.taken.model_calls)
                .row("Tool calls", outcome.taken.tool_calls)
                .row("Input tokens", usage.input_tokens.0)
                .row("Output tokens", usage.output_tokens.0)
                .row("Cost", cost_cell(usage.cost_micro_usd, is_cost_known))
                .row(
                    "Seconds",
                    format!("{:.1}", self.watcher.elapsed().as_secs_f64()),
                ),
        );
        let shown = match &done.sandbox {
            Some(name) => shown.info(format!(
                "see what changed with `agents sandbox diff {name}`, take it with `agents sandbox apply {name}`"
            )),
            None => shown,
        };
        let shown = self.watcher.caveats().iter().fold(shown, Report::warn);
        Ok(shown.ok("Actor run completed"))
    }
}
