//! `actor run` and `run resume`: what a run works with is put together here, from the options of the
//! command or from those that the run keeps.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cleveragents_actors::{Actor, State};
use cleveragents_domain::{Code, RunId};
use cleveragents_engine::{
    ActorService, Bundle, ContextService, Doubt, ExportedMessage, GivenAnswer, OpenQuestion,
    RunMeans, RunReport, RunService, RunServiceError, RunStart, SandboxWorkspace, SpendScope,
    ToolSources as _, calling_actor, instructions, project_instructions, read_context,
    run_namespace,
};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use cleveragents_tools::ToolPattern;
use cleveragents_tools::ports::Approver;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::found;
use super::watcher::Watcher;
use crate::arguments::{ActorRun, RunGround, RunResume};
use crate::commands::conversation::amount;
use crate::commands::session::read_text;
use crate::commands::toolbox::{Equipment, Models, Toolbox};
use crate::commands::tooling::{self, Terminal};
use crate::commands::write_file;
use crate::commands::{cost_cell, put_cost, read_definition, run as runs};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// How a run was asked to run, kept with it for whoever goes on with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    ground: RunGround,
    skills: Vec<String>,
    servers: Vec<String>,
    tools: Vec<String>,
    temperature: Option<f64>,
    /// The conversation to which the answer is added.
    context: Option<String>,
    prompt: Option<String>,
}

pub(super) fn run(
    context: &Context,
    actors: &ActorService,
    arguments: &ActorRun,
) -> Result<Report, CommandError> {
    let (name, prompt) = asked(context, arguments)?;
    if let Some(wrong) = arguments
        .temperature
        .filter(|temperature| !(0.0..=2.0).contains(temperature))
    {
        return Err(
            CommandError::usage(format!("a temperature of {wrong} is not possible"))
                .with_hint("give a number from 0 to 2"),
        );
    }
    let toolbox = Toolbox::new(context)?;
    let config = arguments.config.as_deref();
    let found = found(context, actors, &toolbox, name.as_deref(), config)?;
    if found.actor.is_unsafe && !arguments.allow_unsafe {
        let message = format!("the file of `{}` says `unsafe: true`", found.actor.name);
        return Err(CommandError::new(Code::UnsafeActor, message)
            .with_hint("look at it with `agents actor show`, and repeat the command with --unsafe when you trust it"));
    }
    let catalogue = context.models(arguments.record.as_deref())?;
    let redactor = catalogue.redactor();
    let prompt = prompt.map(|prompt| redactor.text(&prompt).into_owned());
    let contexts = ContextService::new(context.engine()?, context.sessions()?);
    let input = input(&contexts, arguments, prompt.as_deref())?;
    State::new(input.clone())
        .check_begin(&found.actor)
        .map_err(|why| {
            CommandError::usage(format!("no run can begin with this --input: {why}"))
                .with_hint("values for templates beside the state are given with --set KEY=VALUE")
        })?;
    if let Some(path) = &arguments.output {
        check_output(path)?;
    }
    let kept = Kept {
        ground: arguments.ground.clone(),
        skills: arguments.skill.clone(),
        servers: arguments.mcp.clone(),
        tools: arguments.tool.clone(),
        temperature: arguments.temperature,
        context: arguments.context.clone(),
        prompt: prompt.clone(),
    };
    let start = RunStart {
        id: RunId::generate(),
        namespace: run_namespace(
            &context.caller(),
            arguments.ground.project.as_deref(),
            &found.actor.name,
        ),
        actor: Arc::clone(&found.actor),
        actor_hash: found.hash.clone(),
        definitions: json!(found.bundle),
        input,
        context: pairs(&arguments.set)?,
        options: json!(kept),
    };
    let launch = Launch {
        context,
        toolbox: &toolbox,
        catalogue: &catalogue,
        kept: &kept,
        doubt: Doubt::Ask,
        answer: None,
        is_stream: arguments.stream,
        command: "actor run",
    };
    let service = context.runs()?;
    let done = launch.go(start.id, &found.actor, |means| service.start(&start, means))?;
    let report = launch.report(&found.actor, &done)?;
    if let Some(path) = &arguments.output {
        let answer = text(&done.report.outcome.output);
        let shows = format!("`agents run show {}` shows the answer", done.report.run);
        write_file(path, answer.as_bytes()).map_err(|error| error.with_hint(shows))?;
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
    // Alone it would have neither the sandbox of the plan nor its limits.
    if let Some(plan) = run.options["plan"].as_str() {
        return Err(CommandError::new(
            Code::PlanNotReady,
            format!("the run {} is a part of plan {plan}", run.id),
        )
        .with_hint(match arguments.answer {
            Some(_) => format!(
                "answer the plan: `agents plan approve {plan} --answer TEXT`, then `agents plan execute {plan}`"
            ),
            None => format!("go on with the plan: `agents plan execute {plan}`"),
        }));
    }
    let kept: Kept = serde_json::from_value(run.options.clone()).map_err(|error| {
        CommandError::internal("the options of the run cannot be read").caused_by(&error)
    })?;
    service.require_free(run.id)?;
    let questions = service.questions(&run)?;
    if arguments.answer.is_some() && questions.is_empty() {
        let error = CommandError::usage(format!("the run {} is not waiting for an answer", run.id));
        return Err(error.with_hint(format!("`agents run show {}` shows where it is", run.id)));
    }
    let toolbox = Toolbox::new(context)?;
    let actor = stored(context, service, &toolbox, run.id)?;
    let catalogue = context.models(None)?;
    let doubt = match (arguments.redo, arguments.skip) {
        (true, _) => Doubt::Redo,
        (_, true) => Doubt::Skip,
        _ => Doubt::Ask,
    };
    let launch = Launch {
        context,
        toolbox: &toolbox,
        catalogue: &catalogue,
        kept: &kept,
        doubt,
        answer: arguments
            .answer
            .as_deref()
            .map(|answer| (answer, questions)),
        is_stream: arguments.stream,
        command: "run resume",
    };
    let done = launch.go(run.id, &actor, |means| {
        service.resume(run.id, &actor, means)
    })?;
    launch.report(&actor, &done)
}

/// The actor of a run, as its files were when the run began.
pub(in crate::commands) fn stored_actor(
    context: &Context,
    service: &RunService,
    run: RunId,
) -> Result<Arc<Actor>, CommandError> {
    stored(context, service, &Toolbox::new(context)?, run)
}

fn stored(
    context: &Context,
    service: &RunService,
    toolbox: &Toolbox,
    run: RunId,
) -> Result<Arc<Actor>, CommandError> {
    let definitions = service.definitions(run)?;
    if let Some(actor) = calling_actor(&definitions) {
        return Ok(Arc::new(actor));
    }
    let bundle: Bundle = serde_json::from_value(definitions).map_err(|error| {
        CommandError::internal("the files of the run cannot be read").caused_by(&error)
    })?;
    let variables = context.variables();
    let actors = ActorService::new(context.engine()?);
    Ok(actors.from_bundle(&bundle, toolbox.world(&variables))?)
}

/// The actor and the prompt that are meant.
fn asked(
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

/// The state that the run begins with. What is given twice is refused: one of the two would be lost.
fn input(
    contexts: &ContextService,
    arguments: &ActorRun,
    prompt: Option<&str>,
) -> Result<Map<String, Value>, CommandError> {
    let mut input = object(arguments.input.as_deref(), "--input")?;
    let mut add = |key: &str, value: Value, also: &str| match input.insert(key.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(CommandError::usage(format!(
            "`{key}` is given twice: in --input, and {also}"
        ))
        .with_hint("leave out one of the two")),
    };
    if let Some(prompt) = prompt {
        add("input", json!(prompt), "as the prompt")?;
    }
    if let Some(said) = earlier(contexts, arguments)? {
        add("messages", Value::Array(said), "by a context")?;
    }
    Ok(input)
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

/// What was said before, in the context that is gone on with or in the file of one.
fn earlier(
    contexts: &ContextService,
    arguments: &ActorRun,
) -> Result<Option<Vec<Value>>, CommandError> {
    if let Some(name) = &arguments.context {
        return Ok(Some(contexts.said(name)?));
    }
    let Some(file) = &arguments.load_context else {
        return Ok(None);
    };
    let text = read_definition(file, "the file of a context", Code::MalformedContext)?;
    let said = read_context(&text)?.messages;
    Ok(Some(said.iter().map(|message| json!(message)).collect()))
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

/// A run that came to its end.
struct Done {
    report: RunReport,
    sandbox: Option<String>,
    seconds: f64,
    /// What is to be known before relying on the answer.
    caveats: BTreeSet<String>,
}

/// Everything around a run.
struct Launch<'a> {
    context: &'a Context,
    toolbox: &'a Toolbox,
    catalogue: &'a cleveragents_models::Catalogue,
    kept: &'a Kept,
    doubt: Doubt,
    /// What was answered beforehand, to the last of these questions.
    answer: Option<(&'a str, Vec<OpenQuestion>)>,
    is_stream: bool,
    command: &'static str,
}

impl Launch<'_> {
    fn go(
        &self,
        id: RunId,
        actor: &Actor,
        drive: impl FnOnce(&RunMeans<'_>) -> Result<RunReport, RunServiceError>,
    ) -> Result<Done, CommandError> {
        let (context, ground) = (self.context, &self.kept.ground);
        let max_cost = ground.max_cost.as_deref().map(amount).transpose()?;
        let mut needs = self.toolbox.needs(actor);
        needs.skills.extend(self.kept.skills.iter().cloned());
        needs.servers.extend(self.kept.servers.iter().cloned());
        let equipment = self.toolbox.equip(&needs)?;
        let safety = tooling::in_force(context, &ground.safety)?;
        let tools = &self.toolbox.tools;
        let rules = tooling::rules(context, tools, &ground.rule)?;
        let own = |_: &str| format!("run-{id}").to_ascii_lowercase();
        let (sandbox, project) = (ground.sandbox.as_deref(), ground.project.as_deref());
        let (cancel, stop) = (Cancel::new(), CancellationToken::new());
        let workspace = tooling::workspace(context, &cancel, sandbox, project, own)?;
        let mut extra = Vec::new();
        for pattern in &self.kept.tools {
            let pattern: ToolPattern = pattern.parse()?;
            let all = equipment.registry.list().map(|spec| spec.name.clone());
            let fitting: Vec<_> = all.filter(|name| pattern.matches(name)).collect();
            if fitting.is_empty() {
                return Err(CommandError::new(
                    Code::ToolNotFound,
                    format!("no tool fits `{pattern}`"),
                )
                .with_hint("`agents tool list` shows what there is"));
            }
            extra.extend(fitting);
        }
        let missing = |code| move |why: String| CommandError::new(code, why);
        for skill in &self.kept.skills {
            let tools = equipment.skill(skill);
            extra.extend(tools.map_err(missing(Code::SkillNotFound))?);
        }
        for server in &self.kept.servers {
            let tools = equipment.server(server);
            extra.extend(tools.map_err(missing(Code::McpUnreachable))?);
        }
        let terminal = Terminal::new(context, tools.clone(), &cancel);
        let given = self
            .answer
            .as_ref()
            .and_then(|(answer, questions)| GivenAnswer::new(questions, answer, &terminal));
        let approver: &dyn Approver = match &given {
            Some(given) => given,
            None => &terminal,
        };
        let watcher = Watcher::new(context, self.is_stream);
        let limit = [
            max_cost,
            actor.graph.limits.max_cost,
            safety.guards.total_cost(&safety.profile),
            context.settings.budget_per_session(),
        ];
        let means = RunMeans {
            plan: None,
            models: &Models {
                catalogue: self.catalogue,
                usual: context.settings.model_default(),
            },
            registry: &equipment.registry,
            sources: &equipment,
            deferred: &equipment.deferred,
            extra_tools: &extra,
            mode: tooling::mode(ground.read_only),
            profile: &safety.profile,
            guards: &safety.guards,
            rules: &rules,
            workspace: workspace.as_ref(),
            approver,
            scopes: vec![
                SpendScope {
                    name: format!("run {id}"),
                    limit: limit.into_iter().flatten().min(),
                },
                tooling::day_scope(context),
            ],
            instructions: self.instructions(workspace.as_ref(), &equipment),
            temperature: self.kept.temperature,
            redactor: self.catalogue.redactor(),
            watcher: &watcher,
            cancel: &cancel,
            doubt: self.doubt,
        };
        let signals = tooling::stop_on_signals(context, &cancel, &stop)?;
        let driven = drive(&means);
        watcher.end();
        let report = signals.conclude(driven)?;
        self.remember(&report)?;
        Ok(Done {
            report,
            sandbox: workspace
                .as_ref()
                .map(SandboxWorkspace::name)
                .map(str::to_owned),
            seconds: watcher.elapsed().as_secs_f64(),
            caveats: watcher.caveats(),
        })
    }

    /// The standing instructions: ours, those of skills named for the whole run, of the code that is
    /// worked on.
    fn instructions(
        &self,
        workspace: Option<&SandboxWorkspace>,
        equipment: &Equipment,
    ) -> Vec<String> {
        let redactor = self.catalogue.redactor();
        let mut all = vec![instructions(workspace)];
        let others = equipment.disclosure(&self.kept.skills).into_iter();
        let others = others.chain(workspace.and_then(project_instructions));
        all.extend(others.map(|text| redactor.text(&text).into_owned()));
        all
    }

    /// Adds the question and the answer to the conversation that the run went on with.
    fn remember(&self, report: &RunReport) -> Result<(), CommandError> {
        let Some(name) = &self.kept.context else {
            return Ok(());
        };
        let said = [
            ("user", self.kept.prompt.clone().unwrap_or_default()),
            ("assistant", text(&report.outcome.output)),
        ];
        let said: Vec<ExportedMessage> = said
            .into_iter()
            .filter(|(_, content)| !content.trim().is_empty())
            .map(|(role, content)| ExportedMessage {
                role: role.to_owned(),
                content,
            })
            .collect();
        let contexts = ContextService::new(self.context.engine()?, self.context.sessions()?);
        Ok(contexts.add(name, &said)?)
    }

    fn report(&self, actor: &Actor, done: &Done) -> Result<Report, CommandError> {
        let outcome = &done.report.outcome;
        let service = self.context.runs()?;
        let stored = service.get(done.report.run)?;
        let is_cost_known = service.is_cost_known(done.report.run)?;
        let usage = outcome.taken.usage;
        let answer = text(&outcome.output);
        let mut data = json!({
                "actor_run": {
                    "actor": actor.name,
                    "type": actor.kind,
                    "temperature": self.kept.temperature,
                    "skill": self.kept.skills,
                    "run": done.report.run,
                },
                "run": runs::summary(&stored, is_cost_known),
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
                    "duration_s": done.seconds,
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
                .row("Seconds", format!("{:.1}", done.seconds)),
        );
        let shown = match &done.sandbox {
            Some(name) => shown.info(format!(
                "see what changed with `agents sandbox diff {name}`, take it with `agents sandbox apply {name}`"
            )),
            None => shown,
        };
        let shown = done.caveats.iter().fold(shown, Report::warn);
        Ok(shown.ok("Actor run completed"))
    }
}

/// An answer as text.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}
