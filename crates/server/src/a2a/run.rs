//! Working on a task: a turn of its conversation, or its plan.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{
    ArtifactChunk, Services, TaskRecord, TaskService, TurnStart, prompt_text,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, SessionId, TaskId, TaskKind, TaskState};
use cleveragents_process::Cancel;
use serde_json::Value;

use super::send::answer;
use super::{conformance, plan};
use crate::app::App;
use crate::problem::Problem;
use crate::program::{Failure, Listener, Tell, Told};

/// How long text of an answer is collected before it is stored, and how much.
const COLLECT_TIME: Duration = Duration::from_millis(150);
const COLLECT_BYTES: usize = 1 << 10;

/// Starts to work on a task, without waiting for it.
pub(super) fn start(app: &Arc<App>, caller: &Arc<Caller>, task: &TaskRecord) {
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    let (id, session) = (task.id, task.subject.parse::<SessionId>().ok());
    crate::beside(async move {
        let worker = crate::beside(run_in_turn(
            Arc::clone(&app),
            Arc::clone(&caller),
            id,
            session,
        ));
        let why = match worker.await {
            Ok(Ok(())) => return,
            // The next server continues with it.
            Ok(Err(problem)) if problem.code == Code::ServerEnding.as_str() => return,
            Ok(Err(problem)) => problem.detail,
            Err(_) => "something went wrong inside the server".to_owned(),
        };
        let tasks = app.services_of(&caller).tasks();
        let failed = crate::blocking(move || {
            let failed = tasks.change_state(id, app.tasks.runner(), TaskState::Failed, Some(&why));
            app.tasks.wake(id);
            failed
        });
        // Without the database nothing can be stored; the next start finds the task.
        let _stored = failed.await;
    });
}

async fn run_in_turn(
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
        let services = inner.services_of(&by);
        let run = TaskRun {
            tasks: services.tasks(),
            services,
            app: &inner,
            caller: &by,
            id,
            cancel,
        };
        run.run().map_err(|failure| Problem::of(&failure))
    })
    .await
}

/// The work of this server on a task.
pub(super) struct TaskRun<'a> {
    pub(super) app: &'a Arc<App>,
    /// Acting as the caller.
    pub(super) services: Services,
    pub(super) tasks: TaskService,
    pub(super) caller: &'a Arc<Caller>,
    pub(super) id: TaskId,
    pub(super) cancel: &'a Cancel,
}

impl TaskRun<'_> {
    fn run(&self) -> Result<(), Failure> {
        // Registered before the state changes: a cancellation either prevents that or finds what to stop.
        let _running = self.app.tasks.start(self.id, self.cancel);
        let Some(before) = self.tasks.get(self.id)? else {
            return Ok(());
        };
        let is_new = before.state == TaskState::Submitted;
        let task = match before.state {
            TaskState::Submitted => self.change_state(TaskState::Working, None)?,
            TaskState::Working => Some(before),
            _ => None,
        };
        let Some(task) = task else {
            return Ok(());
        };
        match self.work(&task, is_new) {
            Err(failure) if !self.is_interrupted() => {
                let why = Problem::of(&failure).detail;
                self.change_state(TaskState::Failed, Some(&why))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn work(&self, task: &TaskRecord, is_new: bool) -> Result<(), Failure> {
        let request = self.tasks.last_request(self.id)?;
        let parts = request.as_ref().map(|request| request.parts.as_slice());
        let text = prompt_text(parts.unwrap_or_default()).unwrap_or_default();
        if task.kind == TaskKind::Plan {
            return plan::work(self, task, &text);
        }
        if self.app.options.conformance.is_some() {
            let id = request.map_or_else(String::new, |request| request.message_id);
            return conformance::work(self, &id);
        }
        let named = task.metadata.get("actor").and_then(Value::as_str);
        let actor = named.or(self.app.options.actor.as_deref());
        self.turn(task, text, actor, is_new)
    }

    /// Runs a turn of the conversation.
    fn turn(
        &self,
        task: &TaskRecord,
        text: String,
        actor: Option<&str>,
        is_new: bool,
    ) -> Result<(), Failure> {
        let session: SessionId = task
            .subject
            .parse()
            .map_err(|_| Failure::new(Code::Internal, "the task names no session"))?;
        let runner = self.app.tasks.runner();
        let prompt = match self.tasks.begin_turn(task, runner, session, is_new)? {
            TurnStart::New => Some(text),
            TurnStart::Resume => None,
            TurnStart::Answered(text) => {
                let chunk = ArtifactChunk::whole(answer(text));
                return self.add_artifact(chunk, Some(TaskState::Completed));
            }
        };
        let stream = AnswerStream {
            run: self,
            state: Mutex::default(),
        };
        let told = self.app.program.tell(&Tell {
            caller: self.caller,
            session,
            prompt,
            actor: actor.map(str::to_owned),
            is_actor_given: task.metadata.get("actor").is_none() && actor.is_some(),
            listener: &stream,
            cancel: self.cancel,
        })?;
        match told {
            Told::Answered { text } => stream.finish(&text)?,
            Told::Waiting { question } => {
                self.change_state(TaskState::InputRequired, Some(&question))?;
            }
            Told::Stopped if self.is_interrupted() => {}
            Told::Stopped => {
                self.change_state(TaskState::Canceled, Some("the turn was stopped"))?;
            }
        }
        Ok(())
    }

    /// Changes the state, unless the task is over or another server's; then the work is cancelled.
    pub(super) fn change_state(
        &self,
        state: TaskState,
        text: Option<&str>,
    ) -> Result<Option<TaskRecord>, Failure> {
        let runner = self.app.tasks.runner();
        let changed = self.tasks.change_state(self.id, runner, state, text)?;
        self.app.tasks.wake(self.id);
        if changed.is_none() {
            self.cancel.cancel();
        }
        Ok(changed)
    }

    /// Adds a chunk of an artifact, and may end the task with it. Cancels the work when the task is over or another
    /// server's.
    pub(super) fn add_artifact(
        &self,
        chunk: ArtifactChunk,
        then: Option<TaskState>,
    ) -> Result<(), Failure> {
        let runner = self.app.tasks.runner();
        let added = self.tasks.add_artifact(self.id, runner, chunk, then)?;
        self.app.tasks.wake(self.id);
        if added.is_none() {
            self.cancel.cancel();
        }
        Ok(())
    }

    /// Whether the server ends, so that the next one resumes the task.
    fn is_interrupted(&self) -> bool {
        self.cancel.is_cancelled() && self.app.ending.is_near()
    }
}

/// Stores an answer piece by piece while it comes.
struct AnswerStream<'a> {
    run: &'a TaskRun<'a>,
    state: Mutex<CollectedText>,
}

struct CollectedText {
    /// What is stored.
    stored: String,
    /// What is not stored yet.
    text: String,
    since: Instant,
    is_first: bool,
}

impl Default for CollectedText {
    fn default() -> Self {
        Self {
            stored: String::new(),
            text: String::new(),
            since: Instant::now(),
            is_first: true,
        }
    }
}

impl CollectedText {
    /// The chunk with the text that is not stored yet.
    fn take(&mut self, is_last: bool) -> ArtifactChunk {
        let text = std::mem::take(&mut self.text);
        self.stored.push_str(&text);
        self.since = Instant::now();
        ArtifactChunk {
            artifact: answer(text),
            is_appended: !std::mem::take(&mut self.is_first),
            is_last,
        }
    }
}

impl Listener for AnswerStream<'_> {
    fn text(&self, piece: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The longer the answer the more is collected: the whole answer is written with each chunk.
        let enough = COLLECT_BYTES.max(state.stored.len() / 4);
        // The last chunk is stored at the end.
        let is_enough = state.text.len() >= enough || state.since.elapsed() >= COLLECT_TIME;
        let chunk = (is_enough && !state.text.is_empty()).then(|| state.take(false));
        state.text.push_str(piece);
        drop(state);
        if let Some(chunk) = chunk {
            // What could not be stored now is part of the whole answer at the end.
            let _stored = self.run.add_artifact(chunk, None);
        }
    }

    fn reset(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = CollectedText::default();
    }
}

impl AnswerStream<'_> {
    /// Stores the rest, or the whole answer if what is stored is not its beginning.
    fn finish(&self, text: &str) -> Result<(), Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = text.strip_prefix(state.stored.as_str()).map(str::to_owned);
        let chunk = match rest {
            Some(rest) if !rest.is_empty() && !state.is_first => {
                state.text = rest;
                state.take(true)
            }
            _ => ArtifactChunk::whole(answer(text)),
        };
        drop(state);
        self.run.add_artifact(chunk, Some(TaskState::Completed))
    }
}
