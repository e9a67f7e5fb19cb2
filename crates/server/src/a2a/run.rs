//! Runs a task: a turn of its conversation, or its plan.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{
    AgentEvent, ArtifactChunk, FrontEnd, MessageActor, MessageOutcome, MessageTurn, Observer,
    Services, TaskRecord, TaskService, TurnStart, prompt_text,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, SessionId, TaskId, TaskKind, TaskState};
use cleveragents_process::Cancel;
use serde_json::Value;

use super::send::answer;
use super::turn_queue::TurnPlace;
use super::{conformance, plan};
use crate::app::App;
use crate::failure::Failure;
use crate::problem::Problem;

/// Time and number of bytes after which collected text is stored as a chunk of the answer.
const COLLECT_TIME: Duration = Duration::from_millis(150);
const COLLECT_BYTES: usize = 1 << 10;

/// Runs a task in the background. Tasks of one conversation run in the order in which they are started.
pub(super) fn start(app: &Arc<App>, caller: &Arc<Caller>, task: &TaskRecord) {
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    let id = task.id;
    let session = task.subject.parse::<SessionId>().ok();
    let place = session.map(|session| app.tasks.enter_queue(session));
    crate::spawn_task(async move {
        let worker = crate::spawn_task(run_in_turn(
            Arc::clone(&app),
            Arc::clone(&caller),
            id,
            place,
        ));
        let reason = match worker.await {
            Ok(Ok(())) => return,
            // The next server resumes the task.
            Ok(Err(problem)) if problem.code == Code::ServerEnding.as_str() => return,
            Ok(Err(problem)) => problem.detail,
            Err(_) => "internal server error".to_owned(),
        };
        let tasks = app.services_of(&caller).tasks();
        let failed = crate::blocking(move || {
            let failed =
                tasks.change_state(id, app.tasks.runner(), TaskState::Failed, Some(&reason));
            app.tasks.wake(id);
            failed
        });
        // If the database does not respond, the next server that starts resumes the task.
        let _stored = failed.await;
    });
}

async fn run_in_turn(
    app: Arc<App>,
    caller: Arc<Caller>,
    id: TaskId,
    place: Option<TurnPlace>,
) -> Result<(), Problem> {
    if let Some(place) = &place {
        place.wait_until_first().await;
    }
    let (inner, run_caller) = (Arc::clone(&app), Arc::clone(&caller));
    app.run(&caller, move |cancel| {
        let services = inner.services_of(&run_caller);
        let run = TaskRun {
            tasks: services.tasks(),
            services,
            app: &inner,
            caller: &run_caller,
            id,
            cancel,
        };
        run.run().map_err(|failure| Problem::from_error(&failure))
    })
    .await
}

/// A run of a task by this server.
pub(super) struct TaskRun<'a> {
    pub(super) app: &'a Arc<App>,
    /// The services, acting as the caller.
    pub(super) services: Services,
    pub(super) tasks: TaskService,
    pub(super) caller: &'a Arc<Caller>,
    pub(super) id: TaskId,
    pub(super) cancel: &'a Cancel,
}

impl TaskRun<'_> {
    fn run(&self) -> Result<(), Failure> {
        // Registered before the state changes, so that a cancellation either prevents the change or stops the run.
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
        match self.execute(&task, is_new) {
            Err(failure) if !self.is_interrupted() => {
                let reason = Problem::from_error(&failure).detail;
                self.change_state(TaskState::Failed, Some(&reason))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn execute(&self, task: &TaskRecord, is_new: bool) -> Result<(), Failure> {
        let request = self.tasks.last_request(self.id)?;
        let parts = request.as_ref().map(|request| request.parts.as_slice());
        let text = prompt_text(parts.unwrap_or_default()).unwrap_or_default();
        if task.kind == TaskKind::Plan {
            return plan::run_plan(self, task, &text);
        }
        if self.app.options.conformance.is_some() {
            let id = request.map_or_else(String::new, |request| request.message_id);
            return conformance::run_script(self, &id);
        }
        let requested = task.metadata.get("actor").and_then(Value::as_str);
        let requested = requested.map(|name| MessageActor::Requested(name.to_owned()));
        let configured = self.app.options.actor.clone();
        let actor = requested.or_else(|| configured.map(MessageActor::Configured));
        self.turn(task, text, actor, is_new)
    }

    /// Runs a turn of the conversation.
    fn turn(
        &self,
        task: &TaskRecord,
        text: String,
        actor: Option<MessageActor>,
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
        let stream = Arc::new(AnswerStream {
            writer: self.writer(),
            state: Mutex::default(),
        });
        let context = self.app.application.for_caller(Caller::clone(self.caller));
        let context = context
            .with_front_end(FrontEnd {
                observer: Arc::clone(&stream) as _,
                ..FrontEnd::default()
            })
            .cancelled_by(self.cancel);
        let message = MessageTurn {
            session,
            prompt,
            actor,
        };
        match message
            .run(&context)
            .map_err(|error| Failure::from_error(&error))?
        {
            MessageOutcome::Answered(text) => stream.finish(&text)?,
            MessageOutcome::Waiting(question) => {
                self.change_state(TaskState::InputRequired, Some(&question))?;
            }
            MessageOutcome::Cancelled if self.is_interrupted() => {}
            MessageOutcome::Cancelled => {
                self.change_state(TaskState::Canceled, Some("the turn was stopped"))?;
            }
        }
        Ok(())
    }

    /// Creates a writer that adds artifacts to the task.
    fn writer(&self) -> ArtifactWriter {
        ArtifactWriter {
            app: Arc::clone(self.app),
            tasks: self.tasks.clone(),
            id: self.id,
            cancel: self.cancel.clone(),
        }
    }

    /// Changes the state. If the task has finished or belongs to another server, cancels the run instead.
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

    /// Adds a chunk of an artifact, and may finish the task with it.
    pub(super) fn add_artifact(
        &self,
        chunk: ArtifactChunk,
        then: Option<TaskState>,
    ) -> Result<(), Failure> {
        self.writer().add(chunk, then)
    }

    /// True if the shutdown of this server stopped the run; the next server resumes the task.
    fn is_interrupted(&self) -> bool {
        self.cancel.is_cancelled() && self.app.shutdown.has_started()
    }
}

/// Adds artifacts to a task while this server runs it.
struct ArtifactWriter {
    app: Arc<App>,
    tasks: TaskService,
    id: TaskId,
    cancel: Cancel,
}

impl ArtifactWriter {
    /// Adds a chunk of an artifact, and may finish the task with it. If the task has finished or belongs to another
    /// server, cancels the run instead.
    fn add(&self, chunk: ArtifactChunk, then: Option<TaskState>) -> Result<(), Failure> {
        let runner = self.app.tasks.runner();
        let added = self.tasks.add_artifact(self.id, runner, chunk, then)?;
        self.app.tasks.wake(self.id);
        if added.is_none() {
            self.cancel.cancel();
        }
        Ok(())
    }
}

/// Stores an answer chunk by chunk while it is generated.
struct AnswerStream {
    writer: ArtifactWriter,
    state: Mutex<CollectedText>,
}

struct CollectedText {
    /// Text that is stored.
    stored: String,
    /// Text that is not stored yet.
    text: String,
    last_stored_at: Instant,
    is_first: bool,
    /// True if a chunk could not be stored: the last chunk must then be the whole answer.
    is_incomplete: bool,
}

impl Default for CollectedText {
    fn default() -> Self {
        Self {
            stored: String::new(),
            text: String::new(),
            last_stored_at: Instant::now(),
            is_first: true,
            is_incomplete: false,
        }
    }
}

impl CollectedText {
    /// Returns the text that is not stored yet as a chunk, and counts it as stored.
    fn take_chunk(&mut self, is_last: bool) -> ArtifactChunk {
        let text = std::mem::take(&mut self.text);
        self.stored.push_str(&text);
        self.last_stored_at = Instant::now();
        ArtifactChunk {
            artifact: answer(text),
            is_appended: !std::mem::take(&mut self.is_first),
            is_last,
        }
    }
}

impl Observer for AnswerStream {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::Text { text, .. } => self.add_text(text),
            event if event.restarts_answer() => {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                *state = CollectedText::default();
            }
            _ => {}
        }
    }
}

impl AnswerStream {
    fn add_text(&self, piece: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Chunks grow with the answer, because storing a chunk rewrites the whole answer.
        let chunk_bytes = COLLECT_BYTES.max(state.stored.len() / 4);
        // The newest piece is held back, so that text remains for the last chunk, which `finish` stores.
        let is_due =
            state.text.len() >= chunk_bytes || state.last_stored_at.elapsed() >= COLLECT_TIME;
        let chunk = (is_due && !state.text.is_empty()).then(|| state.take_chunk(false));
        state.text.push_str(piece);
        drop(state);
        if let Some(chunk) = chunk {
            // A failed write does not stop the answer.
            if self.writer.add(chunk, None).is_err() {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.is_incomplete = true;
            }
        }
    }

    /// Stores the remaining text, or the whole answer if it does not begin with the stored text or a chunk is missing.
    fn finish(&self, text: &str) -> Result<(), Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let remaining = text.strip_prefix(state.stored.as_str()).map(str::to_owned);
        let chunk = match remaining {
            Some(remaining) if !remaining.is_empty() && !state.is_first && !state.is_incomplete => {
                state.text = remaining;
                state.take_chunk(true)
            }
            _ => ArtifactChunk::whole(answer(text)),
        };
        drop(state);
        self.writer.add(chunk, Some(TaskState::Completed))
    }
}
