//! `actor run` and `run resume`: arguments and output.

use std::path::Path;
use std::sync::Arc;

use cleveragents_application::actor_operations::{
    ActorDefinition, ActorRunResult, LocalRunOptions, RunActor,
};
use cleveragents_application::run_operations::ResumeRun;
use cleveragents_application::{Operation, SafetySelection, read_context};
use cleveragents_domain::{Code, DefinitionKind};
use serde_json::{Map, Value, json};

use super::watcher::RunWatcher;
use crate::arguments::{ActorRun, RunResume};
use crate::commands::definition::read_text_of;
use crate::commands::session::read_text;
use crate::commands::{cost_cell, interactive, read_definition, write_file};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(context: &Context, arguments: ActorRun) -> Result<Report, CommandError> {
    let (name, prompt) = actor_and_prompt(context, &arguments)?;
    if let Some(path) = &arguments.output {
        check_output(path)?;
    }
    let definition = arguments.config.as_deref().map(|config| {
        Ok::<_, CommandError>(ActorDefinition {
            text: read_text_of(config, DefinitionKind::Actor)?,
            source: context.absolute(config).display().to_string(),
        })
    });
    let safety = SafetySelection::from(&arguments.options.safety);
    let request = RunActor {
        name,
        prompt,
        local: LocalRunOptions {
            definition: definition.transpose()?,
            input: parse_object(arguments.input.as_deref(), "--input")?,
            earlier_messages: exported_messages(&arguments)?,
            context: arguments.context,
            allow_unsafe: arguments.allow_unsafe,
            sandbox: arguments.options.sandbox,
            rules: arguments.options.rule,
            safety: safety.safety,
            record: arguments.record,
        },
        set: arguments.set,
        skill: arguments.skill,
        mcp: arguments.mcp,
        tool: arguments.tool,
        temperature: arguments.temperature,
        project: arguments.options.project,
        read_only: arguments.options.read_only,
        max_cost: arguments.options.max_cost,
        deny_tool: safety.deny_tool,
        allow_tool: safety.allow_tool,
        max_calls: safety.max_calls,
        approve_writes: safety.approve_writes,
    };
    let view = RunView::new(context, arguments.stream, "actor run");
    let result = view.call(request)?;
    let (run, answer) = (result.run.id, result.response.text.clone());
    let report = view.report(result);
    if let Some(path) = &arguments.output {
        let hint = format!("`agents run show {run}` shows the answer");
        write_file(path, answer.as_bytes()).map_err(|error| error.with_hint(hint))?;
        return Ok(report.info(format!("answer written to {}", path.display())));
    }
    Ok(report)
}

pub(in crate::commands) fn resume(
    context: &Context,
    arguments: RunResume,
) -> Result<Report, CommandError> {
    let view = RunView::new(context, arguments.stream, "run resume");
    let result = view.call(ResumeRun {
        run: arguments.run.run,
        redo: arguments.redo,
        skip: arguments.skip,
        answer: arguments.answer,
    })?;
    Ok(view.report(result))
}

/// Actor and prompt from the arguments.
fn actor_and_prompt(
    context: &Context,
    arguments: &ActorRun,
) -> Result<(Option<String>, Option<String>), CommandError> {
    let (name, prompt) = match (&arguments.name, &arguments.prompt, &arguments.asked) {
        // With a file, the only positional argument is the prompt.
        (Some(prompt), None, None) if arguments.config.is_some() => (None, Some(prompt.clone())),
        (Some(name), ..) if arguments.config.is_some() => {
            return Err(CommandError::usage(format!(
                "both the actor `{name}` and a file are given"
            ))
            .with_hint("omit the name to run the file, or --config to run the actor"));
        }
        (name, prompt, option) => (name.clone(), prompt.clone().or_else(|| option.clone())),
    };
    let prompt = match prompt.as_deref() {
        Some("-") => Some(read_text(context)?),
        other => other.map(str::to_owned),
    };
    let is_empty = prompt
        .as_deref()
        .is_none_or(|prompt| prompt.trim().is_empty());
    if is_empty && arguments.input.is_none() {
        return Err(CommandError::usage("no prompt is given").with_hint(
            "add a prompt: `agents actor run NAME 'PROMPT'`, `-` for standard input, or --input JSON",
        ));
    }
    Ok((name, prompt))
}

/// Refuses an unwritable output file before a model call costs money.
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
        .with_hint("choose a file in an existing folder"))
}

/// Reads the messages of the exported conversation that the run continues.
fn exported_messages(arguments: &ActorRun) -> Result<Option<Vec<Value>>, CommandError> {
    let Some(file) = &arguments.load_context else {
        return Ok(None);
    };
    let text = read_definition(file, "the context file", Code::MalformedContext)?;
    let messages = read_context(&text)?.messages;
    Ok(Some(
        messages.iter().map(|message| json!(message)).collect(),
    ))
}

fn parse_object(text: Option<&str>, option: &str) -> Result<Map<String, Value>, CommandError> {
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

/// Shows the progress of a run, and its result.
struct RunView<'a> {
    context: &'a Context,
    watcher: Arc<RunWatcher>,
    is_stream: bool,
    command: &'static str,
}

impl<'a> RunView<'a> {
    fn new(context: &'a Context, is_stream: bool, command: &'static str) -> Self {
        Self {
            context,
            watcher: Arc::new(RunWatcher::new(context, is_stream)),
            is_stream,
            command,
        }
    }

    fn call<O: Operation>(&self, request: O) -> Result<O::Response, CommandError> {
        let result = interactive::call(self.context, request, Arc::clone(&self.watcher) as _);
        self.watcher.end();
        result
    }

    fn report(&self, result: ActorRunResult) -> Report {
        let report = Report::new(self.command).panel(
            Panel::new("Actor Run")
                .row("Actor", result.actor_run.actor.clone())
                .row("Run", Cell::Id(result.actor_run.run.to_string()))
                .row("Sandbox", result.sandbox.clone()),
        );
        let report = if self.is_stream && self.context.printer.format().is_human() {
            report
        } else {
            report.text(result.response.text.clone())
        };
        let usage = &result.usage;
        let (cost, is_cost_known) = usage.known_cost();
        let done_before = (usage.steps_done_before > 0).then_some(usage.steps_done_before);
        let report = report.panel(
            Panel::new("Usage")
                .row("Steps", usage.steps)
                .row("Steps reused", done_before)
                .row("Model calls", usage.model_calls)
                .row("Tool calls", usage.tool_calls)
                .row("Input tokens", usage.input_tokens.0)
                .row("Output tokens", usage.output_tokens.0)
                .row("Cost", cost_cell(cost, is_cost_known))
                .row("Seconds", format!("{:.1}", usage.duration_s)),
        );
        let report = match &result.sandbox {
            Some(name) => report.info(format!(
                "show the changes with `agents sandbox diff {name}`, apply them with `agents sandbox apply {name}`"
            )),
            None => report,
        };
        let report = self.watcher.caveats().iter().fold(report, Report::warn);
        report.data(result).ok("Actor run completed")
    }
}
