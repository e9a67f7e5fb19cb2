//! [`ActorRunner`]: starts and resumes runs of actors outside of plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_actors::{Actor, State};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, MicroUsd, Placeholder, Run, RunId, hint, suggest};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::safety::SafetySelection;
use super::{AgentRequest, AgentRuntime, ToolRequirements, session_mode};
use crate::actor::{
    ActorBundle, ActorService, ActorWorld, ContextMessage, ContextService, FoundActor,
};
use crate::observer::Observer;
use crate::operation::OperationError;
use crate::plan::calling_actor;
use crate::run::{
    GivenAnswer, RunContext, RunReport, RunService, RunServiceError, RunStart, UnknownOutcome,
    run_namespace,
};
use crate::tool::SandboxWorkspace;
use crate::turn::ReportTools;

/// Sandbox and limits of the tools of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPlace {
    /// Tools run in a sandbox of this project's resources.
    pub project: Option<String>,
    /// Tools run in this sandbox.
    pub sandbox: Option<String>,
    /// Whether tools may only read.
    pub read_only: bool,
    /// Permission rules in addition to the stored rules.
    pub rule: Vec<String>,
    /// Spending limit of the run in US dollars, as text such as `0.50`.
    pub max_cost: Option<String>,
    /// The safety options of the request.
    pub safety: SafetySelection,
}

/// The options of a run. They are stored with the run, for the process that resumes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorRunOptions {
    /// Sandbox and limits of the tools.
    #[serde(rename = "ground")]
    pub place: RunPlace,
    /// Skills of every agent.
    pub skills: Vec<String>,
    /// MCP servers of every agent.
    pub servers: Vec<String>,
    /// Patterns of additional tools of every agent.
    pub tools: Vec<String>,
    /// Overrides the temperature of the actor.
    pub temperature: Option<f64>,
    /// The named conversation that receives the question and the answer.
    pub context: Option<String>,
    /// The question, without secrets.
    pub prompt: Option<String>,
}

impl ActorRunOptions {
    /// The options that a run was started with.
    pub fn stored(run: &Run) -> Result<Self, OperationError> {
        serde_json::from_value(run.options.clone()).map_err(|error| {
            OperationError::internal("the options of the run cannot be read").caused_by(error)
        })
    }
}

/// A request to start a run.
pub struct ActorRunRequest<'a> {
    pub actor: FoundActor,
    /// Whether an actor whose file has `unsafe: true` may run.
    pub allow_unsafe: bool,
    /// The caller that starts the run.
    pub caller: &'a Caller,
    /// The initial state, without the question and the earlier messages.
    pub input: Map<String, Value>,
    /// Messages of an exported conversation that the run continues.
    pub earlier_messages: Option<Vec<Value>>,
    /// Values for templates.
    pub values: Map<String, Value>,
    pub options: ActorRunOptions,
}

#[derive(Clone, Copy)]
pub struct RunFrontEnd<'a> {
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the run.
    pub cancel: &'a Cancel,
}

/// The outcome of a run.
pub struct ActorRunReport {
    pub actor: Arc<Actor>,
    pub options: ActorRunOptions,
    /// The stored run and its result.
    pub report: RunReport,
    /// The sandbox of the tools of the run.
    pub sandbox: Option<String>,
}

impl ActorRunReport {
    /// The answer as text.
    pub fn answer(&self) -> String {
        answer_text(&self.report.outcome.output)
    }
}

/// Starts and resumes runs of actors.
pub struct ActorRunner<'a> {
    runtime: &'a AgentRuntime,
    runs: RunService,
}

impl<'a> ActorRunner<'a> {
    /// Creates a runner for the runs that `runs` can access.
    pub const fn new(runtime: &'a AgentRuntime, runs: RunService) -> Self {
        Self { runtime, runs }
    }

    /// Starts a run and waits until it stops.
    pub fn start(
        &self,
        mut request: ActorRunRequest<'_>,
        front_end: RunFrontEnd<'_>,
    ) -> Result<ActorRunReport, OperationError> {
        let found = &request.actor;
        if found.actor.is_unsafe && !request.allow_unsafe {
            let message = format!("the file of `{}` contains `unsafe: true`", found.actor.name);
            return Err(
                OperationError::new(Code::UnsafeActor, message).with_hint(hint!(
                    "read it with {}, and repeat the command with {} if you trust it",
                    suggest::actor_show(),
                    suggest::actor_run_unsafe().only_arguments()
                )),
            );
        }
        let temperature = request.options.temperature;
        if let Some(invalid) = temperature.filter(|value| !(0.0..=2.0).contains(value)) {
            return Err(
                OperationError::usage(format!("temperature {invalid} is out of range"))
                    .with_hint("give a number from 0 to 2"),
            );
        }
        let redactor = self.runtime.redactor();
        let options = &mut request.options;
        options.prompt = options
            .prompt
            .take()
            .map(|prompt| redactor.text(&prompt).into_owned());
        if let Some(name) = &options.context {
            request.earlier_messages = Some(self.contexts().messages_for_run(name)?);
        }
        let input = start_state(
            request.input,
            options.prompt.as_deref(),
            request.earlier_messages,
        )?;
        State::new(input.clone())
            .check_begin(&found.actor)
            .map_err(|why| {
                OperationError::usage(format!("no run can start with this --input: {why}"))
                    .with_hint(hint!(
                        "pass values for templates that are not part of the state with {}",
                        suggest::actor_run_with_value(Placeholder("KEY=VALUE")).only_arguments()
                    ))
            })?;
        let start = RunStart {
            id: RunId::generate(),
            namespace: run_namespace(
                request.caller,
                options.place.project.as_deref(),
                &found.actor.name,
            ),
            actor: Arc::clone(&found.actor),
            actor_hash: found.hash.clone(),
            definitions: json!(found.bundle),
            input,
            context: request.values,
            options: json!(options),
        };
        let actor = Arc::clone(&found.actor);
        self.run(
            start.id,
            &actor,
            request.options,
            front_end,
            UnknownOutcome::Ask,
            |context| self.runs.start(&start, context),
        )
    }

    /// Resumes a run that was interrupted, failed, was stopped or waits. `answer` answers the last question that the
    /// run waits for.
    pub fn resume(
        &self,
        run: &Run,
        answer: Option<&str>,
        unknown_outcome: UnknownOutcome,
        front_end: RunFrontEnd<'_>,
    ) -> Result<ActorRunReport, OperationError> {
        // Without its plan, the run would have neither the sandbox nor the limits of the plan.
        if let Some(plan) = run.options["plan"].as_str() {
            return Err(OperationError::new(
                Code::PlanNotReady,
                format!("the run {} belongs to plan {plan}", run.id),
            )
            .with_hint(match answer {
                Some(_) => hint!(
                    "answer the plan: {}, then {}",
                    suggest::plan_approve_with_answer(plan, Placeholder("TEXT")),
                    suggest::plan_execute(plan)
                ),
                None => hint!("resume the plan: {}", suggest::plan_execute(plan)),
            }));
        }
        let options = ActorRunOptions::stored(run)?;
        self.runs.require_free(run.id)?;
        let questions = self.runs.questions(run)?;
        if answer.is_some() && questions.is_empty() {
            let error =
                OperationError::usage(format!("the run {} is not waiting for an answer", run.id));
            return Err(error.with_hint(hint!("{} shows its state", suggest::run_show(run.id))));
        }
        let (actors, world) = (self.runtime.actors(), self.runtime.actor_world());
        let actor = stored_actor(&self.runs, &actors, world, run.id)?;
        let given_answer =
            answer.and_then(|answer| GivenAnswer::new(&questions, answer, front_end.approver));
        let front_end = match &given_answer {
            Some(given_answer) => RunFrontEnd {
                approver: given_answer,
                ..front_end
            },
            None => front_end,
        };
        self.run(
            run.id,
            &actor,
            options,
            front_end,
            unknown_outcome,
            |context| self.runs.resume(run.id, &actor, context),
        )
    }

    fn run(
        &self,
        id: RunId,
        actor: &Arc<Actor>,
        options: ActorRunOptions,
        front_end: RunFrontEnd<'_>,
        unknown_outcome: UnknownOutcome,
        run: impl FnOnce(&RunContext<'_>) -> Result<RunReport, RunServiceError>,
    ) -> Result<ActorRunReport, OperationError> {
        let place = &options.place;
        let workspace = self.runtime.workspace(
            front_end.cancel,
            place.sandbox.as_deref(),
            place.project.as_deref(),
            |_| format!("run-{id}").to_ascii_lowercase(),
        )?;
        let max_cost = place.max_cost.as_deref().map(parse_usd).transpose()?;
        let names = |all: &[String]| all.iter().cloned().collect::<BTreeSet<String>>();
        let request = AgentRequest {
            actor,
            budget_name: format!("run {id}"),
            cost_limits: vec![max_cost, self.runtime.options().budget_per_session],
            shared_budgets: Vec::new(),
            plan: None,
            requirements: ToolRequirements {
                skills: names(&options.skills),
                servers: names(&options.servers),
            },
            extra_tools: &options.tools,
            workspace: workspace.as_ref(),
            mode: session_mode(place.read_only),
            safety: Vec::new(),
            rules: &place.rule,
            instructions: Vec::new(),
            reports: ReportTools::default(),
            carried: None,
            work: None,
            summary_prompt: None,
            temperature: options.temperature,
            approver: front_end.approver,
            observer: front_end.observer,
            cancel: front_end.cancel,
            unknown_outcome,
        };
        let report = self.runtime.run(&request, run)??;
        self.remember(&options, &report)?;
        let sandbox = workspace.as_ref().map(SandboxWorkspace::name);
        Ok(ActorRunReport {
            actor: Arc::clone(actor),
            sandbox: sandbox.map(str::to_owned),
            options,
            report,
        })
    }

    /// Appends the question and the answer to the named conversation that the run continued.
    fn remember(
        &self,
        options: &ActorRunOptions,
        report: &RunReport,
    ) -> Result<(), OperationError> {
        let Some(name) = &options.context else {
            return Ok(());
        };
        let messages = [
            ("user", options.prompt.clone().unwrap_or_default()),
            ("assistant", answer_text(&report.outcome.output)),
        ];
        let messages: Vec<ContextMessage> = messages
            .into_iter()
            .filter(|(_, content)| !content.trim().is_empty())
            .map(|(role, content)| ContextMessage {
                role: role.to_owned(),
                content,
            })
            .collect();
        Ok(self.contexts().add(name, &messages)?)
    }

    fn contexts(&self) -> ContextService {
        ContextService::new(
            Arc::clone(&self.runtime.options().engine),
            self.runtime.sessions(),
        )
    }
}

/// The initial state of a run. Refuses a key that is given twice, because one of the values would be
/// lost.
fn start_state(
    mut input: Map<String, Value>,
    prompt: Option<&str>,
    earlier_messages: Option<Vec<Value>>,
) -> Result<Map<String, Value>, OperationError> {
    let mut add =
        |key: &str, value: Value, second_source: &str| match input.insert(key.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(OperationError::usage(format!(
                "`{key}` is given twice: in --input, and {second_source}"
            ))
            .with_hint("remove one of them")),
        };
    if let Some(prompt) = prompt {
        add("input", json!(prompt), "as the prompt")?;
    }
    if let Some(messages) = earlier_messages {
        add("messages", Value::Array(messages), "by a context")?;
    }
    Ok(input)
}

/// Parses an amount of US dollars, such as `0.50` or `$2`.
pub fn parse_usd(text: &str) -> Result<MicroUsd, OperationError> {
    let dollars: Option<f64> = text.trim_start_matches('$').parse().ok();
    dollars
        .and_then(MicroUsd::from_usd_rounded_up)
        .ok_or_else(|| {
            OperationError::usage(format!("`{text}` is not an amount of US dollars"))
                .with_hint("write it like 0.50")
        })
}

/// The output of an actor as text.
pub fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// Loads the actor of a run from the files that the run started with.
pub(crate) fn stored_actor(
    runs: &RunService,
    actors: &ActorService,
    world: ActorWorld<'_>,
    run: RunId,
) -> Result<Arc<Actor>, OperationError> {
    let definitions = runs.definitions(run)?;
    if let Some(actor) = calling_actor(&definitions) {
        return Ok(Arc::new(actor));
    }
    let bundle: ActorBundle = serde_json::from_value(definitions).map_err(|error| {
        OperationError::internal("the files of the run cannot be read").caused_by(error)
    })?;
    Ok(actors.from_bundle(&bundle, world)?)
}
