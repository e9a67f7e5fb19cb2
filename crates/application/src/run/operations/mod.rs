//! The operations on runs of actors.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod resume;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    ActorName, Code, MicroUsd, Placeholder, Run, RunId, RunState, Timestamp, Tokens, hint, suggest,
};
use cleveragents_store::runs::RunFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::RunServiceError;
use super::question::OpenQuestion;
use super::service::{RunService, StepView};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, PageSummary,
    Requirement, Resolver,
};
use crate::runtime::stored_actor;

pub use resume::ResumeRun;

/// The operations on runs.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<ListRuns>(),
    OperationEntry::new::<ShowRun>(),
    OperationEntry::new::<ReplayRun>(),
    OperationEntry::new::<CancelRun>(),
    OperationEntry::new::<ResumeRun>(),
];

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Registry, permission)
}

fn parse_id(reference: &str) -> Result<RunId, OperationError> {
    let id = reference.parse().map_err(|_| RunServiceError::NotFound {
        reference: reference.to_owned(),
        candidates: Vec::new(),
    });
    Ok(id?)
}

/// A run without its steps.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    pub id: RunId,
    pub namespace: String,
    pub actor: String,
    /// The hash of the definition that the run started with.
    pub config_hash: String,
    pub state: RunState,
    /// Reason of a failure or a wait.
    pub error: Option<String>,
    pub error_code: Option<String>,
    /// Number of starts and resumes.
    pub attempts: u64,
    pub started: Timestamp,
    pub updated: Timestamp,
    pub ended: Option<Timestamp>,
    pub usage: RunUsage,
}

/// Usage of a run until it last stopped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunUsage {
    /// Input and output tokens.
    pub tokens: u64,
    pub input_tokens: Tokens,
    pub output_tokens: Tokens,
    /// `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls with a known price; missing when all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
    pub model_calls: u64,
    pub tool_calls: u64,
}

impl RunUsage {
    /// The known cost, and whether it includes all calls.
    pub fn known_cost(&self) -> (MicroUsd, bool) {
        let usd = self.cost_usd.or(self.cost_known_part).unwrap_or_default();
        let cost = MicroUsd::from_usd_rounded_up(usd).unwrap_or_default();
        (cost, self.cost_usd.is_some())
    }
}

impl RunInfo {
    /// A stored run. `is_cost_known` is true when all its models have a known price.
    pub fn new(run: &Run, is_cost_known: bool) -> Self {
        let usage = &run.usage;
        let cost = usage.cost_micro_usd.as_usd();
        Self {
            id: run.id,
            namespace: run.namespace.clone(),
            actor: run.actor.clone(),
            config_hash: run.actor_hash.clone(),
            state: run.state,
            error: run.error.clone(),
            error_code: run.error_code.clone(),
            attempts: run.attempts,
            started: run.started_at,
            updated: run.updated_at,
            ended: run.ended_at,
            usage: RunUsage {
                tokens: usage.input_tokens.0 + usage.output_tokens.0,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_usd: is_cost_known.then_some(cost),
                cost_known: (!is_cost_known).then_some(false),
                cost_known_part: (!is_cost_known).then_some(cost),
                model_calls: run.model_calls,
                tool_calls: run.tool_calls,
            },
        }
    }

    fn read(runs: &RunService, id: RunId) -> Result<Self, RunServiceError> {
        Ok(Self::new(&runs.get(id)?, runs.is_cost_known(id)?))
    }
}

/// Lists runs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// Only runs of this actor.
    #[serde(default)]
    pub actor: Option<String>,
    /// Only runs in this state.
    #[serde(default)]
    pub state: Option<RunState>,
    /// Maximum number of results.
    #[serde(default = "crate::operation::default_page_size")]
    pub limit: u64,
    /// Number of results to skip.
    #[serde(default)]
    pub offset: u64,
}

/// The response of `run/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    pub runs: Vec<ListedRun>,
    pub summary: PageSummary,
}

/// A listed run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedRun {
    #[serde(flatten)]
    pub run: RunInfo,
    /// The number of finished steps.
    pub steps: u64,
    /// The open question of a waiting run.
    pub question: Option<OpenQuestion>,
}

/// The full name of an actor, under which its runs are stored; the namespace defaults to `local`.
fn full_actor_name(name: String) -> String {
    match name.parse::<ActorName>() {
        Ok(full_name) if !name.contains('/') => full_name.to_string(),
        _ => name,
    }
}

impl Operation for ListRuns {
    const NAME: &'static str = "run/list";
    const SUMMARY: &'static str = "List runs of actors, newest first";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = RunList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.actor {
            Some(actor) => resolver.read_name(actor, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<RunList, OperationError> {
        let service = context.runs();
        let page = service.list(RunFilter {
            actor: self.actor.map(full_actor_name),
            state: self.state,
            offset: self.offset,
            limit: self.limit,
            ..RunFilter::default()
        })?;
        let listed = page.runs.iter().map(|(run, steps)| {
            Ok(ListedRun {
                run: RunInfo::new(run, service.is_cost_known(run.id)?),
                steps: *steps,
                question: service.questions(run)?.pop(),
            })
        });
        let runs: Vec<ListedRun> = listed.collect::<Result<_, RunServiceError>>()?;
        Ok(RunList {
            summary: PageSummary {
                shown: runs.len() as u64,
                matching: page.matching,
            },
            runs,
        })
    }
}

/// Shows a run step by step.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowRun {
    /// Id, or a prefix of at least 6 characters; the newest run when not given.
    #[serde(default)]
    pub run: Option<String>,
}

/// The response of `run/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunDetails {
    pub run: RunInfo,
    /// The process that executes the run.
    pub owner: Option<String>,
    /// The open questions of a waiting run, oldest first.
    pub questions: Vec<OpenQuestion>,
    pub input: Value,
    /// The options that the run was started with.
    pub options: Value,
    pub result: Option<Value>,
    pub steps: Vec<RunStep>,
}

/// A finished step of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunStep {
    pub number: u64,
    /// Path of the step in the graph.
    pub path: String,
    pub kind: String,
    /// The keys of the state that the step changed.
    pub update: Map<String, Value>,
    /// The node that ran next.
    pub next: Option<String>,
    /// Error message, if the run continued with `on_error`.
    pub error: Option<String>,
    pub duration_s: f64,
    pub usage: StepUsage,
    pub stored: Timestamp,
}

/// Usage of a step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepUsage {
    /// Input and output tokens.
    pub tokens: u64,
    /// `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    pub model_calls: u64,
    pub tool_calls: u64,
}

impl RunStep {
    fn new(view: StepView, is_cost_known: bool) -> Self {
        let step = view.step;
        let usage = step.usage;
        #[expect(
            clippy::cast_precision_loss,
            reason = "durations are far below 2^53 milliseconds"
        )]
        let duration_s = step.ended_ms.saturating_sub(step.started_ms) as f64 / 1e3;
        Self {
            number: view.number,
            path: step.path,
            kind: step.kind,
            update: step.update,
            next: step.next,
            error: step.error,
            duration_s,
            usage: StepUsage {
                tokens: usage.usage.input_tokens.0 + usage.usage.output_tokens.0,
                cost_usd: (is_cost_known || usage.model_calls == 0)
                    .then(|| usage.usage.cost_micro_usd.as_usd()),
                model_calls: usage.model_calls,
                tool_calls: usage.tool_calls,
            },
            stored: view.stored_at,
        }
    }
}

fn newest(runs: &RunService) -> Result<RunId, OperationError> {
    let page = runs.list(RunFilter {
        limit: 1,
        ..RunFilter::default()
    })?;
    page.runs.first().map(|(run, _)| run.id).ok_or_else(|| {
        OperationError::new(Code::RunNotFound, "there is no run yet").with_hint(hint!(
            "{} starts one",
            suggest::actor_run(Placeholder("NAME"), Placeholder("PROMPT"))
        ))
    })
}

impl Operation for ShowRun {
    const NAME: &'static str = "run/show";
    const SUMMARY: &'static str = "Show a run step by step";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = RunDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.run {
            Some(run) => resolver.run(run),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<RunDetails, OperationError> {
        let runs = context.runs();
        let id = match &self.run {
            Some(run) => parse_id(run)?,
            None => newest(&runs)?,
        };
        let view = runs.view(id)?;
        let is_cost_known = view.is_cost_known;
        Ok(RunDetails {
            run: RunInfo::new(&view.run, is_cost_known),
            owner: view.owner,
            questions: view.questions,
            input: view.run.input,
            options: view.run.options,
            result: view.run.result,
            steps: view
                .steps
                .into_iter()
                .map(|step| RunStep::new(step, is_cost_known))
                .collect(),
        })
    }
}

/// Replays a complete run from its stored steps and compares the results. Calls no models or tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRun {
    /// Id, or a prefix of at least 6 characters.
    pub run: String,
}

/// The response of `run/replay`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReplayedRun {
    pub run: RunInfo,
    pub replay: ReplayResult,
}

/// The result of a replay. A replay that differs returns an error instead.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    pub steps: u64,
    /// The number of steps that were read from the store.
    pub recalled: u64,
    pub is_identical: bool,
    pub output: Value,
}

impl Operation for ReplayRun {
    const NAME: &'static str = "run/replay";
    const SUMMARY: &'static str = "Replay a complete run from its stored steps";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ReplayedRun;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.run(&mut self.run)
    }

    fn run(self, context: &OperationContext) -> Result<ReplayedRun, OperationError> {
        let runs = context.runs();
        let id = parse_id(&self.run)?;
        let run = runs.get(id)?;
        if run.state != RunState::Complete {
            let state = run.state.as_str();
            let message = format!("the run {id} is {state}: only a finished run can be replayed");
            return Err(OperationError::new(Code::RunOver, message)
                .with_hint(hint!("resume it: {}", suggest::run_resume(id))));
        }
        let toolset = context.toolset()?;
        let actor = stored_actor(&runs, &context.actors(), toolset.actor_world(), id)?;
        let outcome = runs.replay(id, &actor).map_err(|error| match error {
            RunServiceError::Stopped(stopped) => OperationError::new(
                Code::ReplayDiffers,
                format!("the replay of {id} stopped: {}", stopped.why),
            )
            .with_hint(
                "this version of the program walks the graph differently than the version \
                that ran it",
            ),
            other => other.into(),
        })?;
        Ok(ReplayedRun {
            run: RunInfo::new(&run, runs.is_cost_known(id)?),
            replay: ReplayResult {
                steps: outcome.steps,
                recalled: outcome.recalled,
                is_identical: true,
                output: outcome.output,
            },
        })
    }
}

/// Cancels a run. A run without a process is cancelled at once; otherwise its process receives a request to stop.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// Id, or a prefix of at least 6 characters.
    pub run: String,
}

/// The response of `run/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledRun {
    pub run: RunInfo,
    /// Whether the run is already cancelled; otherwise its process received a request to stop.
    pub is_over: bool,
}

impl Operation for CancelRun {
    const NAME: &'static str = "run/cancel";
    const SUMMARY: &'static str = "Cancel a run";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = CancelledRun;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.run(&mut self.run)
    }

    fn run(self, context: &OperationContext) -> Result<CancelledRun, OperationError> {
        let runs = context.runs();
        let id = parse_id(&self.run)?;
        let is_over = runs.cancel(id)?;
        Ok(CancelledRun {
            run: RunInfo::read(&runs, id)?,
            is_over,
        })
    }
}
