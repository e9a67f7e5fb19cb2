//! [`RunService`]: starts, resumes, cancels and lists runs.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_actors::ports::{AgentCall, Answer, ToolStep};
use cleveragents_actors::ports::{Executor, Failure, FailureKind, NoObserver, Step};
use cleveragents_actors::{Actor, Outcome, Run as GraphRun, RunError, State};
use cleveragents_domain::identity::{Caller, LOCAL_NAMESPACE, Namespaces, Scope};
use cleveragents_domain::{
    Diagnose as _, EventKind, LeaseSubject, Name, Run, RunId, RunState, Timestamp, TokenUsage, Ttl,
};
use cleveragents_models::Redactor;
use cleveragents_process::Cancel;
use cleveragents_store::runs::{NewRun, RunFilter, RunPage, RunResult};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{Engine, Error, invocations, leases, runs, sessions};
use serde_json::{Map, Value, json};

use super::context::RunContext;
use super::error::{RunServiceError, StoppedRun};
use super::executor::RunExecutor;
use super::log::{ReplayLog, StoreLog, read};
use super::question::{OpenQuestion, open_questions};
use super::usage;
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::observer::NodeObserver;
use crate::reference::{find_referenced, unnamed};
use crate::session::SessionService;
use crate::stop_request::Watch;
use crate::turn::TurnService;

/// Values by name.
type Values = Map<String, Value>;

/// The input of a new run.
pub struct RunStart {
    pub id: RunId,
    /// The namespace of the plan, project or caller that starts the run.
    pub namespace: String,
    pub actor: Arc<Actor>,
    /// The hash of the file of the actor.
    pub actor_hash: String,
    /// The files of the actor and of everything that it refers to.
    pub definitions: Value,
    /// The initial state.
    pub input: Map<String, Value>,
    /// Values that templates can use as `context`.
    pub context: Map<String, Value>,
    /// The options of the run, stored for the process that resumes it.
    pub options: Value,
}

/// The namespace of a run that a caller starts: the namespace of its project, if there is one; `local` for the local
/// caller; otherwise the namespace of the actor. Actors of `builtin/` and of model providers are shared, so their runs
/// belong to the home namespace of the caller.
pub fn run_namespace(caller: &Caller, project: Option<&str>, actor: &str) -> String {
    let namespace_of = |name: &str| match name.split_once('/') {
        Some((namespace, _)) => namespace.to_lowercase(),
        None => LOCAL_NAMESPACE.to_owned(),
    };
    if let Some(project) = project {
        return namespace_of(project);
    }
    if caller.is_local() {
        return LOCAL_NAMESPACE.to_owned();
    }
    let actor_namespace = namespace_of(actor);
    let is_shared = actor_namespace == "builtin"
        || format!("{actor_namespace}/x")
            .parse::<Name>()
            .is_ok_and(|name| name.require_free_namespace().is_err());
    if is_shared {
        caller.home(Scope::Registry).unwrap_or(actor_namespace)
    } else {
        actor_namespace
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunReport {
    pub run: RunId,
    /// The result of the graph.
    pub outcome: Outcome,
}

/// A run and its steps.
#[derive(Debug)]
pub struct RunView {
    pub run: Run,
    /// The process that executes the run; `None` when no process does.
    pub owner: Option<String>,
    /// The finished steps, in the order in which they finished.
    pub steps: Vec<StepView>,
    /// Whether the prices of all called models are known.
    pub is_cost_known: bool,
    /// The open questions of a waiting run, oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// A finished step.
#[derive(Debug)]
pub struct StepView {
    /// Number of the step in the run, from 1.
    pub number: u64,
    /// The stored record.
    pub step: Step,
    /// The time when the step was stored.
    pub stored_at: Timestamp,
}

/// Runs actors.
#[derive(Clone)]
pub struct RunService {
    pub(super) engine: Arc<Engine>,
    sessions: SessionService,
    turns: TurnService,
    leases: LeaseService,
    /// The namespaces whose runs this service can access. Other runs are reported as not found.
    pub(super) visible: Namespaces,
}

impl RunService {
    /// Creates a service that can access the runs of all namespaces.
    pub fn new(engine: Arc<Engine>, sessions: SessionService) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            turns: TurnService::new(Arc::clone(&engine), sessions.clone()),
            sessions,
            engine,
            visible: Namespaces::All,
        }
    }

    /// Restricts the service to the runs of these namespaces.
    #[must_use]
    pub fn visible_in(mut self, namespaces: Namespaces) -> Self {
        self.visible = namespaces;
        self
    }

    /// Starts a run and executes it.
    pub fn start(
        &self,
        start: &RunStart,
        run_context: &RunContext<'_>,
    ) -> Result<RunReport, RunServiceError> {
        let id = start.id;
        let lease = self.take(id)?;
        let input = redacted(&run_context.redactor, &start.input);
        let context = redacted(&run_context.redactor, &start.context);
        let new = NewRun {
            id,
            namespace: start.namespace.clone(),
            actor: start.actor.name.clone(),
            actor_hash: start.actor_hash.clone(),
            definitions: start.definitions.clone(),
            input: json!({"state": input, "context": context}),
            options: start.options.clone(),
        };
        let session = NewSession {
            owner: Some(runs::owner(id)),
            name: None,
            actor: None,
            namespace: "local".to_owned(),
            automation: "supervised".to_owned(),
            usage: TokenUsage::default(),
            forked_from: None,
            created_at: None,
        };
        let fence = (lease.subject().clone(), lease.token());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            sessions::insert(unit, id.session(""), &session, EventKind::SessionCreated)?;
            runs::insert(unit, &new)
        })?;
        self.drive(id, &start.actor, (&input, &context), run_context, &lease)
    }

    /// Resumes a run that was interrupted, failed, was stopped or waits.
    pub fn resume(
        &self,
        id: RunId,
        actor: &Arc<Actor>,
        run_context: &RunContext<'_>,
    ) -> Result<RunReport, RunServiceError> {
        let run = self.get(id)?;
        if run.state == RunState::Complete {
            return Err(over(&run));
        }
        let lease = self.take(id)?;
        let fence = (lease.subject().clone(), lease.token());
        let is_resumed = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            runs::resume(unit, id)
        })?;
        if !is_resumed {
            return Err(over(&self.get(id)?));
        }
        let (input, context) = initial_values(&run)?;
        self.drive(id, actor, (&input, &context), run_context, &lease)
    }

    fn drive(
        &self,
        id: RunId,
        actor: &Arc<Actor>,
        (input, context): (&Map<String, Value>, &Map<String, Value>),
        run_context: &RunContext<'_>,
        lease: &HeldLease,
    ) -> Result<RunReport, RunServiceError> {
        let _run = tracing::error_span!("run", run = %id).entered();
        tracing::debug!(actor = actor.name, "run driven");
        let fence = (lease.subject().clone(), lease.token());
        let redactor = run_context.redactor.clone();
        let log = StoreLog::open(Arc::clone(&self.engine), id, fence.clone(), redactor)?;
        let rows = self
            .engine
            .read(|reader| invocations::of_session(reader, id.session("")))?;
        let executor = RunExecutor {
            engine: Arc::clone(&self.engine),
            sessions: &self.sessions,
            turns: &self.turns,
            run_context,
            run: id,
            fence,
            session: id.session(""),
            earlier: rows
                .into_iter()
                .filter_map(|row| Some((row.call_id.clone()?, row)))
                .collect(),
        };
        let cancel = run_context.cancel.child();
        let _guard = lease.guard(&cancel);
        let graph_result = {
            let _cancel_watch = Watch::over(
                {
                    let engine = Arc::clone(&self.engine);
                    // A failed database read is retried at the next poll.
                    move || {
                        let run = engine.read(|reader| runs::get(reader, &Namespaces::All, id));
                        matches!(run, Ok(Some(run)) if run.is_cancelled)
                    }
                },
                cancel.clone(),
            );
            GraphRun {
                actor,
                input: State::new(input.clone()),
                context: context.clone(),
                limits: None,
                executor: &executor,
                log: &log,
                observer: &NodeObserver(run_context.observer),
                cancel: &cancel,
            }
            .execute()
        };
        self.conclude(id, graph_result, &run_context.redactor, lease)
    }

    fn conclude(
        &self,
        id: RunId,
        mut graph_result: Result<Outcome, RunError>,
        redactor: &Redactor,
        lease: &HeldLease,
    ) -> Result<RunReport, RunServiceError> {
        let usage = self.engine.read(|reader| usage::of_run(reader, id))?;
        if let Ok(outcome) = &mut graph_result {
            outcome.usage = usage;
            // Redact the result like the stored steps, so that a replay ends in the same state.
            outcome.state = State::new(redacted(redactor, outcome.state.values()));
            outcome.output = redactor.value(&outcome.output);
        }
        let (state, result, error) = match &graph_result {
            Ok(outcome) => {
                let result = json!({"state": outcome.state, "output": outcome.output});
                (RunState::Complete, Some(result), None)
            }
            Err(why) => {
                let state = match why {
                    RunError::Cancelled => RunState::Cancelled,
                    RunError::HumanNeeded { .. } => RunState::Waiting,
                    _ => RunState::Failed,
                };
                let message = redactor.text(&why.to_string()).into_owned();
                let error = (message, why.code().as_str().to_owned());
                (state, None, Some(error))
            }
        };
        let run_result = RunResult {
            result,
            error,
            usage: usage.usage,
            model_calls: usage.model_calls,
            tool_calls: usage.tool_calls,
        };
        let fence = (lease.subject().clone(), lease.token());
        let stored = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            runs::end(unit, id, state, &run_result)
        });
        match graph_result {
            Ok(outcome) => {
                stored?;
                Ok(RunReport { run: id, outcome })
            }
            // The reason why the run stopped is more useful than a failure to store the reason.
            Err(why) => Err(RunServiceError::Stopped(Box::new(StoppedRun {
                run: id,
                why,
            }))),
        }
    }

    fn take(&self, id: RunId) -> Result<HeldLease, RunServiceError> {
        match self.leases.acquire(subject(id), Ttl::default()) {
            Err(LeaseError::Held { owner, .. }) => Err(RunServiceError::Busy {
                run: id,
                owner: owner.to_string(),
            }),
            other => Ok(other?),
        }
    }

    /// Fails when a run is complete or another process executes it. Callers check this before they
    /// acquire other locks that the other process may hold. [`Self::resume`] acquires the lease itself.
    pub fn require_free(&self, id: RunId) -> Result<(), RunServiceError> {
        let run = self.get(id)?;
        if run.state == RunState::Complete {
            return Err(over(&run));
        }
        self.take(id).map(drop)
    }

    /// Looks up a run by its id, or by a prefix of at least six characters.
    pub fn resolve(&self, reference: &str) -> Result<Run, RunServiceError> {
        self.engine.read(|reader| {
            find_referenced(
                reader,
                reference,
                unnamed,
                |reader, prefix, limit| {
                    Ok(runs::with_prefix(reader, &self.visible, prefix, limit)?)
                },
                |found| RunServiceError::NotFound {
                    reference: reference.to_owned(),
                    candidates: found.into_iter().map(|run| run.id).collect(),
                },
            )
        })
    }

    pub fn get(&self, id: RunId) -> Result<Run, RunServiceError> {
        self.engine
            .read(|reader| runs::get(reader, &self.visible, id))?
            .ok_or_else(|| RunServiceError::NotFound {
                reference: id.to_string(),
                candidates: Vec::new(),
            })
    }

    /// The files that a run started with.
    pub fn definitions(&self, id: RunId) -> Result<Value, RunServiceError> {
        self.get(id)?;
        Ok(self
            .engine
            .read(|reader| runs::definitions(reader, id))?
            .unwrap_or(Value::Null))
    }

    /// The matching runs that this service can access, newest first.
    pub fn list(&self, filter: RunFilter) -> Result<RunPage, RunServiceError> {
        let filter = RunFilter {
            visible: self.visible.clone(),
            ..filter
        };
        Ok(self.engine.read(|reader| runs::list(reader, &filter))?)
    }

    /// Whether the prices of all models that a run called are known.
    pub fn is_cost_known(&self, id: RunId) -> Result<bool, RunServiceError> {
        self.get(id)?;
        let is_unknown = self.engine.read(|reader| runs::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// The open questions of a run that waits for the user, oldest first; empty in any other state.
    pub fn questions(&self, run: &Run) -> Result<Vec<OpenQuestion>, RunServiceError> {
        if run.state != RunState::Waiting {
            return Ok(Vec::new());
        }
        Ok(self.engine.read(|reader| open_questions(reader, run.id))?)
    }

    /// A run with its steps.
    pub fn view(&self, id: RunId) -> Result<RunView, RunServiceError> {
        let run = self.get(id)?;
        let steps = self.engine.read(|reader| runs::steps(reader, id))?;
        let steps = steps
            .iter()
            .map(|stored| {
                Ok(StepView {
                    number: stored.number,
                    step: read(stored)?,
                    stored_at: stored.stored_at,
                })
            })
            .collect::<Result<_, Error>>()?;
        let owner = self.leases.worker(&subject(id))?;
        Ok(RunView {
            questions: self.questions(&run)?,
            run,
            owner: owner.map(|lease| lease.owner.to_string()),
            steps,
            is_cost_known: self.is_cost_known(id)?,
        })
    }

    /// Cancels a run. A run without a process is cancelled at once; otherwise its process receives a
    /// request to stop. Returns whether the run is already cancelled.
    pub fn cancel(&self, id: RunId) -> Result<bool, RunServiceError> {
        let run = self.get(id)?;
        if !matches!(run.state, RunState::Running | RunState::Waiting) {
            return Err(over(&run));
        }
        match self.take(id) {
            Ok(lease) => {
                let fence = (lease.subject().clone(), lease.token());
                let why = RunError::Cancelled;
                let is_ended = self.engine.write(move |unit| {
                    leases::require(unit, &fence.0, fence.1)?;
                    let usage = usage::of_run(unit, id)?;
                    runs::cancel(
                        unit,
                        id,
                        &RunResult {
                            result: None,
                            error: Some((why.to_string(), why.code().as_str().to_owned())),
                            usage: usage.usage,
                            model_calls: usage.model_calls,
                            tool_calls: usage.tool_calls,
                        },
                    )
                })?;
                if is_ended {
                    Ok(true)
                } else {
                    Err(over(&self.get(id)?))
                }
            }
            Err(RunServiceError::Busy { .. }) => {
                if self
                    .engine
                    .write(move |unit| runs::request_cancel(unit, id))?
                {
                    Ok(false)
                } else {
                    Err(over(&run))
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Replays a finished run from its stored steps, without model or tool calls, and compares the
    /// final states.
    pub fn replay(&self, id: RunId, actor: &Actor) -> Result<Outcome, RunServiceError> {
        let view = self.view(id)?;
        let (input, context) = initial_values(&view.run)?;
        let log = ReplayLog(
            view.steps
                .into_iter()
                .map(|view| (view.step.path.clone(), view.step))
                .collect::<HashMap<_, _>>(),
        );
        let cancel = Cancel::new();
        let replay_result = GraphRun {
            actor,
            input: State::new(input),
            context,
            limits: None,
            executor: &ReplayExecutor,
            log: &log,
            observer: &NoObserver,
            cancel: &cancel,
        }
        .execute();
        let outcome = replay_result
            .map_err(|why| RunServiceError::Stopped(Box::new(StoppedRun { run: id, why })))?;
        let Some(result) = &view.run.result else {
            return Ok(outcome);
        };
        let (stored, replayed) = (&result["state"], outcome.state.values());
        let changed = replayed
            .iter()
            .find(|(key, value)| stored.get(key.as_str()) != Some(value));
        let missing = stored
            .as_object()
            .and_then(|stored| stored.keys().find(|key| !replayed.contains_key(*key)));
        match changed.map(|(key, _)| key).or(missing) {
            Some(key) => Err(RunServiceError::ReplayDiffers {
                run: id,
                key: key.clone(),
            }),
            None => Ok(outcome),
        }
    }
}

/// Removes the secrets from the texts in the values.
fn redacted(redactor: &Redactor, values: &Map<String, Value>) -> Map<String, Value> {
    let clean = values
        .iter()
        .map(|(name, value)| (name.clone(), redactor.value(value)));
    clean.collect()
}

fn subject(id: RunId) -> LeaseSubject {
    LeaseSubject::new("run", id)
}

fn over(run: &Run) -> RunServiceError {
    RunServiceError::Over {
        run: run.id,
        state: run.state.as_str(),
    }
}

/// The state and the context that a run started with.
fn initial_values(run: &Run) -> Result<(Values, Values), Error> {
    let part = |name: &str| match &run.input[name] {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(Error::stored(
            "the input of a run",
            format!("has no `{name}`"),
        )),
    };
    Ok((part("state")?, part("context")?))
}

/// Refuses to execute steps, because a replay only reads stored steps.
struct ReplayExecutor;

impl ReplayExecutor {
    fn refuse() -> Failure {
        Failure {
            kind: FailureKind::Refused,
            message: "this step was not finished in the run".to_owned(),
            usage: cleveragents_actors::ports::StepUsage::default(),
        }
    }
}

impl Executor for ReplayExecutor {
    fn agent(&self, _call: &AgentCall<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }
}
