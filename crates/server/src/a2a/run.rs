//! Working on a task: the turn of the conversation, or one of the built-in actors that need no model.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, SessionId, TaskId, TaskKind, TaskState};
use cleveragents_process::Cancel;
use cleveragents_store::tasks::Task;
use cleveragents_store::{Engine, Error, sessions, tasks, turns};
use serde_json::{Value, json};

use super::tasks::{Chunk, OPEN};
use super::{conformance, plan, wire};
use crate::app::App;
use crate::problem::Problem;
use crate::program::{Failure, Listener, Tell, Told};

/// What answers come as.
const ANSWER: &str = "answer";

/// How long text is gathered before it is told, and how much.
const GATHERED: Duration = Duration::from_millis(150);
const GATHERED_BYTES: usize = 1 << 10;

/// Begins to work on a task that was taken on, without waiting for it.
pub(super) fn start(app: &Arc<App>, caller: &Arc<Caller>, task: &Task) {
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    let (id, session) = (task.id, task.subject.parse::<SessionId>().ok());
    crate::beside(async move {
        let worker = crate::beside(work_in_turn(
            Arc::clone(&app),
            Arc::clone(&caller),
            id,
            session,
        ));
        let why = match worker.await {
            Ok(Ok(())) => return,
            // Whoever starts the server again goes on with it.
            Ok(Err(problem)) if problem.code == Code::ServerEnding.as_str() => return,
            Ok(Err(problem)) => problem.detail,
            Err(_) => "something went wrong inside the server".to_owned(),
        };
        let engine = app.engine_of(&caller);
        let failed = crate::blocking(move || {
            app.tasks
                .change(&engine, id, OPEN, TaskState::Failed, Some(&why))
        });
        // Without the database nothing can be told; the next start finds the task.
        let _told = failed.await;
    });
}

async fn work_in_turn(
    app: Arc<App>,
    caller: Arc<Caller>,
    id: TaskId,
    session: Option<SessionId>,
) -> Result<(), Problem> {
    let _turn = match session {
        Some(session) => Some(app.tasks.turn(session).await),
        None => None,
    };
    let (inner, by) = (Arc::clone(&app), Arc::clone(&caller));
    app.run(&caller, move |cancel| {
        let work = Work {
            engine: inner.engine_of(&by),
            app: &inner,
            caller: &by,
            id,
            cancel,
        };
        work.run().map_err(|failure| Problem::of(&failure))
    })
    .await
}

/// One task that is worked on.
pub(super) struct Work<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) engine: Arc<Engine>,
    pub(super) caller: &'a Arc<Caller>,
    pub(super) id: TaskId,
    pub(super) cancel: &'a Cancel,
}

impl Work<'_> {
    fn run(&self) -> Result<(), Failure> {
        // Before the task is taken up: who cancels it either prevents that or finds what to stop.
        let _runs = self.app.tasks.runs(self.id, self.cancel);
        let before = self.engine.read(|reader| tasks::get(reader, self.id))?;
        let Some(before) = before else {
            return Ok(());
        };
        let task = match before.state {
            TaskState::Submitted => self.become_state(TaskState::Working, None)?,
            TaskState::Working => Some(before.clone()),
            _ => None,
        };
        let Some(task) = task else {
            return Ok(());
        };
        let outcome = self.work_on(&task, before.state == TaskState::Submitted);
        match outcome {
            Err(failure) if self.is_cut_off() => {
                drop(failure);
                Ok(())
            }
            Err(failure) => {
                let why = Problem::of(&failure).detail;
                self.become_state(TaskState::Failed, Some(&why))?;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn work_on(&self, task: &Task, is_new: bool) -> Result<(), Failure> {
        let said = self
            .engine
            .read(|reader| tasks::messages(reader, self.id, None))?;
        let last = said
            .iter()
            .rev()
            .find(|message| message["role"] != "ROLE_AGENT")
            .cloned()
            .unwrap_or_default();
        let empty = Vec::new();
        let parts = last["parts"].as_array().unwrap_or(&empty);
        let text = wire::text_of(parts).unwrap_or_default();
        if task.kind == TaskKind::Plan {
            return plan::work(self, task, &text);
        }
        let named = task.metadata.get("actor").and_then(Value::as_str);
        let actor = named.or(self.app.options.actor.as_deref());
        if self.app.options.conformance.is_some() {
            let id = last["messageId"].as_str().unwrap_or_default();
            return conformance::work(self, id);
        }
        self.turn(task, text, actor, is_new)
    }

    /// A turn of the conversation.
    fn turn(
        &self,
        task: &Task,
        text: String,
        actor: Option<&str>,
        is_new: bool,
    ) -> Result<(), Failure> {
        let session: SessionId = task
            .subject
            .parse()
            .map_err(|_| Failure::new(Code::Internal, "the task names no session"))?;
        let prompt = match self.found(task, session, is_new)? {
            Found::Nothing => Some(text),
            Found::CutOff => None,
            Found::Answer(answer) => return self.answer_whole(&answer),
        };
        let pieces = Pieces {
            work: self,
            state: Mutex::default(),
        };
        let told = self.app.program.tell(&Tell {
            caller: self.caller,
            session,
            prompt,
            actor: actor.map(str::to_owned),
            is_actor_given: task.metadata.get("actor").is_none() && actor.is_some(),
            listener: &pieces,
            cancel: self.cancel,
        })?;
        match told {
            Told::Answered { text } => pieces.end(&text)?,
            Told::Waiting { question } => {
                self.become_state(TaskState::InputRequired, Some(&question))?;
            }
            Told::Stopped if self.is_cut_off() => {}
            Told::Stopped => {
                self.become_state(TaskState::Canceled, Some("the turn was stopped"))?;
            }
        }
        Ok(())
    }

    /// What an earlier attempt at this turn left, by a server that is gone.
    fn found(&self, task: &Task, session: SessionId, is_new: bool) -> Result<Found, Failure> {
        let (count, is_running) = self.engine.read(|reader| {
            let found = sessions::get(reader, session)?;
            let running = turns::running(reader, session)?;
            Ok::<_, Error>((
                found.map_or(0, |found| found.message_count),
                running.is_some(),
            ))
        })?;
        let begun_at = task.metadata.get("begun_at").and_then(Value::as_u64);
        let of_this = task.metadata.get("messages").and_then(Value::as_u64);
        let messages = self
            .engine
            .read(|reader| tasks::messages(reader, self.id, None))?;
        let is_again = !is_new && of_this == Some(messages.len() as u64);
        if is_again && is_running {
            return Ok(Found::CutOff);
        }
        if is_again && begun_at.is_some_and(|begun| count > begun) {
            return self.last_answer(session, count);
        }
        let mut metadata = task.metadata.clone();
        metadata["begun_at"] = count.into();
        metadata["messages"] = messages.len().into();
        let (id, runner) = (self.id, self.app.tasks.runner().to_owned());
        let subject = task.subject.clone();
        self.engine
            .write(move |unit| tasks::remember(unit, id, &runner, &subject, &metadata))?;
        Ok(Found::Nothing)
    }

    fn last_answer(&self, session: SessionId, count: u64) -> Result<Found, Failure> {
        let last = self.engine.read(|reader| {
            cleveragents_store::messages::page(
                reader,
                session,
                cleveragents_domain::Sequence(count.saturating_sub(1)),
                1,
            )
        })?;
        Ok(match last.first() {
            Some(last) if last.role == cleveragents_domain::Role::Assistant => {
                Found::Answer(last.content.clone())
            }
            // The question was stored and the turn failed: it is not asked twice.
            _ => Found::CutOff,
        })
    }

    /// Comes into a state, unless the task is over or another server's.
    pub(super) fn become_state(
        &self,
        state: TaskState,
        text: Option<&str>,
    ) -> Result<Option<Task>, Failure> {
        let changed = self
            .app
            .tasks
            .change(&self.engine, self.id, OPEN, state, text)?;
        if changed.is_none() {
            // Nobody wants what would come.
            self.cancel.cancel();
        }
        Ok(changed)
    }

    /// Adds a piece of a result.
    pub(super) fn add(&self, chunk: Chunk, then: Option<TaskState>) -> Result<(), Failure> {
        let added = self.app.tasks.add(&self.engine, self.id, chunk, then)?;
        if added.is_none() {
            self.cancel.cancel();
        }
        Ok(())
    }

    /// Ends with an answer that is there at once.
    pub(super) fn answer_whole(&self, text: &str) -> Result<(), Failure> {
        let chunk = Chunk::whole(answer(text));
        self.add(chunk, Some(TaskState::Completed))
    }

    /// Whether the server ends and the task is to be gone on with by the next one.
    fn is_cut_off(&self) -> bool {
        self.cancel.is_cancelled() && self.app.ending.is_near()
    }
}

enum Found {
    Nothing,
    CutOff,
    Answer(String),
}

pub(super) fn answer(text: &str) -> Value {
    json!({"artifactId": ANSWER, "name": "answer", "parts": [{"text": text}]})
}

/// Tells an answer while it comes.
struct Pieces<'a> {
    work: &'a Work<'a>,
    state: Mutex<Gathered>,
}

struct Gathered {
    /// What was told.
    told: String,
    /// What is not told yet.
    text: String,
    since: Instant,
    is_first: bool,
}

impl Default for Gathered {
    fn default() -> Self {
        Self {
            told: String::new(),
            text: String::new(),
            since: Instant::now(),
            is_first: true,
        }
    }
}

impl Gathered {
    /// The next piece, which holds what was gathered.
    fn take(&mut self, is_last: bool) -> Chunk {
        let text = std::mem::take(&mut self.text);
        self.told.push_str(&text);
        self.since = Instant::now();
        Chunk {
            artifact: answer(&text),
            is_appended: !std::mem::take(&mut self.is_first),
            is_last,
        }
    }
}

impl Listener for Pieces<'_> {
    fn text(&self, piece: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // More is gathered the more there is: the whole answer is stored anew with each piece.
        let enough = GATHERED_BYTES.max(state.told.len() / 4);
        // The last piece is told at the end.
        let is_enough = state.text.len() >= enough || state.since.elapsed() >= GATHERED;
        let chunk = (is_enough && !state.text.is_empty()).then(|| state.take(false));
        state.text.push_str(piece);
        drop(state);
        if let Some(chunk) = chunk {
            // What could not be told now is part of the whole that is told at the end.
            let _told = self.work.add(chunk, None);
        }
    }

    fn reset(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = Gathered::default();
    }
}

impl Pieces<'_> {
    /// Tells the rest, or the whole if what was told is no part of it.
    fn end(&self, text: &str) -> Result<(), Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = text.strip_prefix(state.told.as_str()).map(str::to_owned);
        let chunk = match rest {
            Some(rest) if !rest.is_empty() && !state.is_first => {
                state.text = rest;
                state.take(true)
            }
            _ => Chunk::whole(answer(text)),
        };
        drop(state);
        self.work.add(chunk, Some(TaskState::Completed))
    }
}
