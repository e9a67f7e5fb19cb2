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
use crate::turn::TurnService;
use crate::watch::Watch;

/// Values by name.
type Values = Map<String, Value>;

/// Everything that a run starts with.
pub struct RunStart {
    /// The id of the run.
    pub id: RunId,
    /// The namespace of the plan, project or caller that starts it.
    pub namespace: String,
    pub actor: Arc<Actor>,
    /// The hash of its file.
    pub actor_hash: String,
    /// The files of the actor and of all that it refers to.
    pub definitions: Value,
    /// The initial state.
    pub input: Map<String, Value>,
    /// Values that templates see as `context`.
    pub context: Map<String, Value>,
    /// The options of the run, stored for the process that resumes it.
    pub options: Value,
}

/// The namespace of a run that a caller starts: that of its project, otherwise the caller's. A caller with several
/// namespaces uses the one of the actor; actors of `builtin/` and of model providers belong to no caller.
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
    let of_actor = namespace_of(actor);
    let is_shared = of_actor == "builtin"
        || format!("{of_actor}/x")
            .parse::<Name>()
            .is_ok_and(|name| name.require_free_namespace().is_err());
    if is_shared {
        caller.home(Scope::Registry).unwrap_or(of_actor)
    } else {
        of_actor
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunReport {
    pub run: RunId,
    /// Result.
    pub outcome: Outcome,
}

/// A run and its steps.
#[derive(Debug)]
pub struct RunView {
    pub run: Run,
    /// The process that works on it, if any.
    pub owner: Option<String>,
    /// Its finished steps, in the order in which they finished.
    pub steps: Vec<StepView>,
    /// Whether the price of every model that it called is known.
    pub is_cost_known: bool,
    /// The open questions while it waits, oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// A finished step.
#[derive(Debug)]
pub struct StepView {
    /// Its number in the run, from 1.
    pub number: u64,
    /// The stored record.
    pub step: Step,
    /// Storage time.
    pub stored_at: Timestamp,
}

/// Runs actors.
#[derive(Clone)]
pub struct RunService {
    pub(super) engine: Arc<Engine>,
    sessions: SessionService,
    turns: TurnService,
    leases: LeaseService,
    /// Runs in other namespaces do not exist for this service.
    pub(super) visible: Namespaces,
}

impl RunService {
    /// A service over the runs of every namespace.
    pub fn new(engine: Arc<Engine>, sessions: SessionService) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            turns: TurnService::new(Arc::clone(&engine), sessions.clone()),
            sessions,
            engine,
            visible: Namespaces::All,
        }
    }

    /// The same service for a caller that sees these namespaces only.
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
        let is_begun = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            runs::resume(unit, id)
        })?;
        if !is_begun {
            return Err(over(&self.get(id)?));
        }
        let (input, context) = begun_with(&run)?;
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
        let work = RunExecutor {
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
            let _until_the_end = Watch::over(
                {
                    let engine = Arc::clone(&self.engine);
                    // A database read that fails is retried after a moment.
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
                executor: &work,
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
            // Redacted like the stored steps, so that a replay ends in the same state.
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
        let ended = RunResult {
            result,
            error,
            usage: usage.usage,
            model_calls: usage.model_calls,
            tool_calls: usage.tool_calls,
        };
        let fence = (lease.subject().clone(), lease.token());
        let stored = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            runs::end(unit, id, state, &ended)
        });
        match graph_result {
            Ok(outcome) => {
                stored?;
                Ok(RunReport { run: id, outcome })
            }
            // The reason of the stop is more useful than the error of storing it.
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

    /// Fails when a run is finished or another process works on it, before the caller takes other
    /// locks that this process may hold. Resuming takes the lease itself.
    pub fn require_free(&self, id: RunId) -> Result<(), RunServiceError> {
        let run = self.get(id)?;
        if run.state == RunState::Complete {
            return Err(over(&run));
        }
        self.take(id).map(drop)
    }

    /// Looks a run up by its id, or by the first six or more characters of its id.
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

    /// A run by its id.
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

    /// Runs that are visible to this service, newest first.
    pub fn list(&self, filter: RunFilter) -> Result<RunPage, RunServiceError> {
        let filter = RunFilter {
            visible: self.visible.clone(),
            ..filter
        };
        Ok(self.engine.read(|reader| runs::list(reader, &filter))?)
    }

    /// Whether the price of every model that a run called is known.
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

    /// A run step by step.
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

    /// Cancels a run: at once when no process works on it, otherwise that process is asked to stop.
    /// Returns whether the run is over already.
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

    /// Replays a finished run from its stored steps, without calling anything, and compares the
    /// final states.
    pub fn replay(&self, id: RunId, actor: &Actor) -> Result<Outcome, RunServiceError> {
        let view = self.view(id)?;
        let (input, context) = begun_with(&view.run)?;
        let log = ReplayLog(
            view.steps
                .into_iter()
                .map(|view| (view.step.path.clone(), view.step))
                .collect::<HashMap<_, _>>(),
        );
        let cancel = Cancel::new();
        let replayed = GraphRun {
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
        let outcome = replayed
            .map_err(|why| RunServiceError::Stopped(Box::new(StoppedRun { run: id, why })))?;
        let Some(result) = &view.run.result else {
            return Ok(outcome);
        };
        let (before, now) = (&result["state"], outcome.state.values());
        let differs = now
            .iter()
            .find(|(key, value)| before.get(key.as_str()) != Some(value));
        let lost = before
            .as_object()
            .and_then(|before| before.keys().find(|key| !now.contains_key(*key)));
        match differs.map(|(key, _)| key).or(lost) {
            Some(key) => Err(RunServiceError::ReplayDiffers {
                run: id,
                key: key.clone(),
            }),
            None => Ok(outcome),
        }
    }
}

/// Values without the secrets in their texts.
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
fn begun_with(run: &Run) -> Result<(Values, Values), Error> {
    let part = |name: &str| match &run.input[name] {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(Error::stored(
            "the input of a run",
            format!("has no `{name}`"),
        )),
    };
    Ok((part("state")?, part("context")?))
}

/// Executes nothing: a replay only reads stored steps.
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
