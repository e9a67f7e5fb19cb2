//! `actor/run`: runs an actor to completion. `run/resume` has the same response.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cleveragents_actors::ActorKind;
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{MicroUsd, Placeholder, RunId, Tokens, hint, suggest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::actor::FoundActor;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::run::operations::RunInfo;
use crate::runtime::{
    ActorRunOptions, ActorRunReport, ActorRunRequest, ActorRunner, AgentRuntime, RunFrontEnd,
    RunPlace, SafetySelection,
};

/// Runs an actor and waits until it stops. The observer of the front end receives progress events,
/// and its approver is asked for approvals.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunActor {
    /// The actor. Only local callers may leave it out; it then defaults to the configured actor.
    #[serde(default)]
    pub name: Option<String>,
    /// The prompt. Only local callers may leave it out.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Values that templates see as `context.KEY`, each as `KEY=VALUE`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Skills whose tools every model of the actor may call.
    #[serde(default)]
    pub skill: Vec<String>,
    /// MCP servers whose tools every model of the actor may call.
    #[serde(default)]
    pub mcp: Vec<String>,
    /// Tools, or patterns such as `builtin/git-*`, that every model of the actor may call.
    #[serde(default)]
    pub tool: Vec<String>,
    /// The sampling temperature of the models, from 0 to 2.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Let tools act in a sandbox of the resources of this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Refuse every tool that changes something.
    #[serde(default)]
    pub read_only: bool,
    /// Maximum cost of the run, in US dollars.
    #[serde(default)]
    pub max_cost: Option<String>,
    /// Patterns of tools that are refused.
    #[serde(default)]
    pub deny_tool: Vec<String>,
    /// Patterns of the tools that are allowed; all other tools are refused.
    #[serde(default)]
    pub allow_tool: Vec<String>,
    /// Maximum number of tool calls per model response.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// Ask before every call that changes something.
    #[serde(default)]
    pub approve_writes: bool,
    /// Options of callers in this process. They are never sent or received.
    #[serde(skip)]
    pub local: LocalRunOptions,
}

/// Options of a run that name files, sandboxes or conversations of this machine, or that allow more
/// than the configuration.
#[derive(Debug, Clone, Default)]
pub struct LocalRunOptions {
    /// The definition of the actor, instead of a registered one.
    pub definition: Option<ActorDefinition>,
    /// Initial state of the graph, in addition to the prompt.
    pub input: Map<String, Value>,
    /// Messages of an exported conversation that the run continues.
    pub earlier_messages: Option<Vec<Value>>,
    /// Named conversation that the run continues. The prompt and the answer of the run are appended to it.
    pub context: Option<String>,
    /// Run an actor whose file has `unsafe: true`.
    pub allow_unsafe: bool,
    /// Sandbox in which tools act.
    pub sandbox: Option<String>,
    /// Permission rules in addition to the stored ones.
    pub rules: Vec<String>,
    /// Name of a safety profile, or path of its file.
    pub safety: Option<String>,
    /// File to which every exchange with a model is appended.
    pub record: Option<PathBuf>,
}

/// The definition of an actor in a file.
#[derive(Debug, Clone)]
pub struct ActorDefinition {
    /// The YAML text.
    pub text: String,
    /// The absolute path of the file.
    pub source: String,
}

impl LocalRunOptions {
    /// Refuses local options in requests from remote callers and in requests that are sent to a server.
    fn check(&self, resolver: &Resolver<'_>) -> Result<(), OperationError> {
        let given = [
            ("config", self.definition.is_some()),
            ("input", !self.input.is_empty()),
            ("load_context", self.earlier_messages.is_some()),
            ("context", self.context.is_some()),
            ("unsafe", self.allow_unsafe),
            ("sandbox", self.sandbox.is_some()),
            ("rule", !self.rules.is_empty()),
            ("safety", self.safety.is_some()),
            ("record", self.record.is_some()),
        ];
        for (parameter, is_given) in given {
            if is_given {
                resolver.local_only(parameter)?;
            }
        }
        Ok(())
    }
}

/// The response of `actor/run` and `run/resume`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunResult {
    pub actor_run: ActorRunSummary,
    pub run: RunInfo,
    pub response: ActorResponse,
    /// The sandbox in which tools acted.
    pub sandbox: Option<String>,
    pub usage: ActorRunUsage,
}

/// The actor that ran, and its options.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunSummary {
    pub actor: String,
    #[serde(rename = "type")]
    pub kind: ActorKind,
    /// `null` unless the request set it.
    pub temperature: Option<f64>,
    /// Skills that the request added.
    pub skill: Vec<String>,
    pub run: RunId,
}

/// The result of the run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorResponse {
    /// The value as text.
    pub text: String,
    pub value: Value,
    /// The last state of the graph.
    pub state: Value,
}

/// Usage of the run, including the steps of earlier attempts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunUsage {
    /// Input and output together.
    pub tokens: u64,
    pub input_tokens: Tokens,
    pub output_tokens: Tokens,
    /// Total cost in US dollars; `null` if a model without a known price was called.
    pub cost: Option<f64>,
    /// Duration of this attempt.
    pub duration_s: f64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub steps: u64,
    /// Steps that earlier attempts finished.
    pub steps_done_before: u64,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// Cost of the calls with a known price; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl ActorRunUsage {
    /// The known cost, and `true` if it is the cost of all calls.
    pub fn known_cost(&self) -> (MicroUsd, bool) {
        let usd = self.cost.or(self.cost_known_part).unwrap_or_default();
        let cost = MicroUsd::from_usd_rounded_up(usd).unwrap_or_default();
        (cost, self.cost.is_some())
    }
}

impl ActorRunResult {
    /// Result of a run; `elapsed` is the duration of this attempt.
    pub(crate) fn new(
        context: &OperationContext,
        run_report: &ActorRunReport,
        elapsed: Duration,
    ) -> Result<Self, OperationError> {
        let runs = context.runs();
        let stored = runs.get(run_report.report.run)?;
        let is_known = runs.is_cost_known(stored.id)?;
        let outcome = &run_report.report.outcome;
        let usage = outcome.usage.usage;
        let cost = usage.cost_micro_usd.as_usd();
        Ok(Self {
            actor_run: ActorRunSummary {
                actor: run_report.actor.name.clone(),
                kind: run_report.actor.kind,
                temperature: run_report.options.temperature,
                skill: run_report.options.skills.clone(),
                run: stored.id,
            },
            run: RunInfo::new(&stored, is_known),
            response: ActorResponse {
                text: run_report.answer(),
                value: outcome.output.clone(),
                state: json!(outcome.state),
            },
            sandbox: run_report.sandbox.clone(),
            usage: ActorRunUsage {
                tokens: usage.input_tokens.0 + usage.output_tokens.0,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost: is_known.then_some(cost),
                duration_s: elapsed.as_secs_f64(),
                model_calls: outcome.usage.model_calls,
                tool_calls: outcome.usage.tool_calls,
                steps: outcome.steps,
                steps_done_before: outcome.recalled,
                cost_known: (!is_known).then_some(false),
                cost_known_part: (!is_known).then_some(cost),
            },
        })
    }
}

/// Values for templates. A value that parses as JSON becomes JSON, any other value becomes text.
fn template_values(pairs: &[String]) -> Result<Map<String, Value>, OperationError> {
    pairs
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                Ok((key.to_owned(), value))
            }
            _ => Err(OperationError::usage(format!("`{pair}` is not KEY=VALUE"))
                .with_hint("write it like --set team=core")),
        })
        .collect()
}

impl RunActor {
    /// The options of the run, as stored with it.
    fn options(&self) -> ActorRunOptions {
        ActorRunOptions {
            place: RunPlace {
                project: self.project.clone(),
                sandbox: self.local.sandbox.clone(),
                read_only: self.read_only,
                rule: self.local.rules.clone(),
                max_cost: self.max_cost.clone(),
                safety: SafetySelection {
                    safety: self.local.safety.clone(),
                    deny_tool: self.deny_tool.clone(),
                    allow_tool: self.allow_tool.clone(),
                    max_calls: self.max_calls,
                    approve_writes: self.approve_writes,
                },
            },
            skills: self.skill.clone(),
            servers: self.mcp.clone(),
            tools: self.tool.clone(),
            temperature: self.temperature,
            context: self.local.context.clone(),
            prompt: self.prompt.clone(),
        }
    }

    /// Finds the actor: the inline definition, else the named actor, else the default actor.
    fn actor(
        &self,
        context: &OperationContext,
        runtime: &AgentRuntime,
    ) -> Result<FoundActor, OperationError> {
        let world = runtime.actor_world();
        if let Some(ActorDefinition { text, source }) = &self.local.definition {
            return Ok(context.actors().compile(text, source, world)?);
        }
        let name = self.name.as_deref().or_else(|| context.default_actor());
        let name = name.ok_or_else(|| {
            OperationError::usage("no actor is named").with_hint(hint!(
                "name one, or set a default: {}; {} lists the actors",
                suggest::actor_set_default(Placeholder("NAME")),
                suggest::actor_list()
            ))
        })?;
        Ok(context.actors().find(name, world)?)
    }
}

impl Operation for RunActor {
    const NAME: &'static str = "actor/run";
    const SUMMARY: &'static str = "Run an actor";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = ActorRunResult;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        self.local.check(resolver)?;
        resolver.require_from_remote("name", self.name.is_some())?;
        resolver.require_from_remote("prompt", self.prompt.is_some())?;
        if let Some(name) = &mut self.name {
            resolver.name(name, NamedKind::Definition)?;
        }
        if let Some(project) = &mut self.project {
            resolver.name(project, NamedKind::Project)?;
        }
        let names = self.skill.iter_mut().chain(&mut self.mcp);
        for name in names.chain(&mut self.tool) {
            resolver.read_name(name, NamedKind::Definition)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ActorRunResult, OperationError> {
        let started = Instant::now();
        let options = self.options();
        let runtime = context.runtime(&options.place.safety, self.local.record.as_deref())?;
        let request = ActorRunRequest {
            actor: self.actor(context, &runtime)?,
            allow_unsafe: self.local.allow_unsafe,
            caller: context.caller(),
            input: self.local.input,
            earlier_messages: self.local.earlier_messages,
            values: template_values(&self.set)?,
            options,
        };
        let runner = ActorRunner::new(&runtime, context.runs());
        let front_end = context.front_end();
        let run_report = runner.start(
            request,
            RunFrontEnd {
                approver: &*front_end.approver,
                observer: &*front_end.observer,
                cancel: context.cancel(),
            },
        )?;
        ActorRunResult::new(context, &run_report, started.elapsed())
    }
}
