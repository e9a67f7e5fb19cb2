//! [`RunService`]: begins runs, goes on with them, stops and lists them.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_actors::ports::{AgentCall, Answer, ToolStep};
use cleveragents_actors::ports::{Executor, Failure, FailureKind, Step, Unwatched};
use cleveragents_actors::{Actor, Outcome, Run as Walk, RunError, State};
use cleveragents_domain::identity::{Caller, LOCAL_NAMESPACE, Namespaces, Scope};
use cleveragents_domain::{
    Diagnose as _, EventKind, LeaseSubject, Name, Run, RunId, RunState, Timestamp, TokenUsage, Ttl,
    check_prefix,
};
use cleveragents_models::Redactor;
use cleveragents_process::Cancel;
use cleveragents_store::runs::{Ended, NewRun, RunFilter, RunPage};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{Engine, Error, invocations, leases, runs, sessions};
use serde_json::{Map, Value, json};

use super::context::RunContext;
use super::error::{RunServiceError, StoppedRun};
use super::log::{Recorded, StoreLog, read};
use super::question::{OpenQuestion, open_questions};
use super::usage;
use super::work::Work;
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::session::SessionService;
use crate::turn::TurnService;
use crate::watch::Watch;

/// Values by name.
type Values = Map<String, Value>;

/// So many candidates are named when a prefix means several.
const CANDIDATES: u64 = 5;

/// What a run begins with.
pub struct RunStart {
    /// Its id.
    pub id: RunId,
    /// The namespace of the plan, project or caller that starts it.
    pub namespace: String,
    /// The actor.
    pub actor: Arc<Actor>,
    /// The hash of its file.
    pub actor_hash: String,
    /// The files of the actor and of all that it refers to.
    pub definitions: Value,
    /// The state it begins with.
    pub input: Map<String, Value>,
    /// Values that templates see as `context`.
    pub context: Map<String, Value>,
    /// How it is asked to run, for whoever goes on with it.
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

/// What a run did.
#[derive(Debug)]
pub struct RunReport {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
}

/// A run and its steps.
#[derive(Debug)]
pub struct RunView {
    /// The run.
    pub run: Run,
    /// Who works on it, if anybody does.
    pub owner: Option<String>,
    /// Its finished steps, in the order in which they were finished.
    pub steps: Vec<StepView>,
    /// Whether the price of every model that it asked is known.
    pub is_cost_known: bool,
    /// What it asks while it waits, oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// A finished step.
#[derive(Debug)]
pub struct StepView {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub step: Step,
    /// When it was stored.
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

    /// Begins a run and does it.
    pub fn start(
        &self,
        start: &RunStart,
        means: &RunContext<'_>,
    ) -> Result<RunReport, RunServiceError> {
        let id = start.id;
        let lease = self.take(id)?;
        let input = redacted(&means.redactor, &start.input);
        let context = redacted(&means.redactor, &start.context);
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
        self.drive(id, &start.actor, (&input, &context), means, &lease)
    }

    /// Goes on with a run that was interrupted, failed, was stopped or waits.
    pub fn resume(
        &self,
        id: RunId,
        actor: &Arc<Actor>,
        means: &RunContext<'_>,
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
        self.drive(id, actor, (&input, &context), means, &lease)
    }

    fn drive(
        &self,
        id: RunId,
        actor: &Arc<Actor>,
        (input, context): (&Map<String, Value>, &Map<String, Value>),
        means: &RunContext<'_>,
        lease: &HeldLease,
    ) -> Result<RunReport, RunServiceError> {
        let _run = tracing::error_span!("run", run = %id).entered();
        tracing::debug!(actor = actor.name, "run driven");
        let fence = (lease.subject().clone(), lease.token());
        let redactor = means.redactor.clone();
        let log = StoreLog::open(Arc::clone(&self.engine), id, fence.clone(), redactor)?;
        let rows = self
            .engine
            .read(|reader| invocations::of_session(reader, id.session("")))?;
        let work = Work {
            engine: Arc::clone(&self.engine),
            sessions: &self.sessions,
            turns: &self.turns,
            means,
            run: id,
            fence,
            session: id.session(""),
            earlier: rows
                .into_iter()
                .filter_map(|row| Some((row.call_id.clone()?, row)))
                .collect(),
        };
        let cancel = means.cancel.child();
        let _guard = lease.guard(&cancel);
        let walked = {
            let _until_the_end = Watch::over(
                {
                    let engine = Arc::clone(&self.engine);
                    // A database that cannot be read now is read again a moment later.
                    move || {
                        let run = engine.read(|reader| runs::get(reader, &Namespaces::All, id));
                        matches!(run, Ok(Some(run)) if run.is_cancelled)
                    }
                },
                cancel.clone(),
            );
            Walk {
                actor,
                input: State::new(input.clone()),
                context: context.clone(),
                limits: None,
                executor: &work,
                log: &log,
                observer: means.watcher,
                cancel: &cancel,
            }
            .go()
        };
        self.conclude(id, walked, &means.redactor, lease)
    }

    fn conclude(
        &self,
        id: RunId,
        mut walked: Result<Outcome, RunError>,
        redactor: &Redactor,
        lease: &HeldLease,
    ) -> Result<RunReport, RunServiceError> {
        let taken = self.engine.read(|reader| usage::of_run(reader, id))?;
        if let Ok(outcome) = &mut walked {
            outcome.taken = taken;
            // As the steps are stored, so that a replay comes to the same.
            outcome.state = State::new(redacted(redactor, outcome.state.values()));
            outcome.output = redactor.value(&outcome.output);
        }
        let (state, result, error) = match &walked {
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
        let ended = Ended {
            result,
            error,
            usage: taken.usage,
            model_calls: taken.model_calls,
            tool_calls: taken.tool_calls,
        };
        let fence = (lease.subject().clone(), lease.token());
        let stored = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            runs::end(unit, id, state, &ended)
        });
        match walked {
            Ok(outcome) => {
                stored?;
                Ok(RunReport { run: id, outcome })
            }
            // Why it stopped says more than that this could not be stored either.
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

    /// Says that a run is over, or who works on it, before anything else is taken that whoever does may
    /// hold too. The lease itself is taken when the run is gone on with.
    pub fn require_free(&self, id: RunId) -> Result<(), RunServiceError> {
        let run = self.get(id)?;
        if run.state == RunState::Complete {
            return Err(over(&run));
        }
        self.take(id).map(drop)
    }

    /// The run that a person means: a whole id, or the first six or more characters of one.
    pub fn resolve(&self, reference: &str) -> Result<Run, RunServiceError> {
        let missing = |candidates| RunServiceError::NotFound {
            reference: reference.to_owned(),
            candidates,
        };
        let Ok(prefix) = check_prefix(reference) else {
            return Err(missing(Vec::new()));
        };
        let mut found = self
            .engine
            .read(|reader| runs::with_prefix(reader, &self.visible, &prefix, CANDIDATES))?;
        match found.len() {
            1 => Ok(found.remove(0)),
            _ => Err(missing(found.into_iter().map(|run| run.id).collect())),
        }
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

    /// The files that a run began with.
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

    /// Whether the price of every model that a run asked is known.
    pub fn is_cost_known(&self, id: RunId) -> Result<bool, RunServiceError> {
        self.get(id)?;
        let is_unknown = self.engine.read(|reader| runs::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// What a run asks while it waits for the user, oldest first; nothing in any other state.
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

    /// Ends a run: at once when nobody works on it, otherwise whoever does is asked to.
    /// Says whether it is over already.
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
                    let taken = usage::of_run(unit, id)?;
                    runs::cancel(
                        unit,
                        id,
                        &Ended {
                            result: None,
                            error: Some((why.to_string(), why.code().as_str().to_owned())),
                            usage: taken.usage,
                            model_calls: taken.model_calls,
                            tool_calls: taken.tool_calls,
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

    /// Walks a complete run again from its stored steps, doing nothing, and says whether it comes to the
    /// same state.
    pub fn replay(&self, id: RunId, actor: &Actor) -> Result<Outcome, RunServiceError> {
        let view = self.view(id)?;
        let (input, context) = begun_with(&view.run)?;
        let log = Recorded(
            view.steps
                .into_iter()
                .map(|view| (view.step.path.clone(), view.step))
                .collect::<HashMap<_, _>>(),
        );
        let cancel = Cancel::new();
        let walked = Walk {
            actor,
            input: State::new(input),
            context,
            limits: None,
            executor: &Idle,
            log: &log,
            observer: &Unwatched,
            cancel: &cancel,
        }
        .go();
        let outcome = walked
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

/// The state and the context that a run began with.
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

/// Does nothing: every step of a replay is known.
struct Idle;

impl Idle {
    fn refuse() -> Failure {
        Failure {
            kind: FailureKind::Refused,
            message: "this step was not finished in the run".to_owned(),
            taken: cleveragents_actors::ports::Taken::default(),
        }
    }
}

impl Executor for Idle {
    fn agent(&self, _call: &AgentCall<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }
}
