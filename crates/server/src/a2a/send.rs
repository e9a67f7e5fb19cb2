//! Sends a message: stores it with its task in one unit of work, then runs the task.

use std::sync::Arc;

use cleveragents_a2a::{
    Artifact, Error, ErrorReason, Fields, Message, Part, PushNotificationConfig, StreamResponse,
    Task,
};
use cleveragents_application::{
    ArtifactChunk, NewTask, Snapshot, TaskRecord, TaskReply, TaskView, agent_message, prompt_text,
    task_options,
};
use cleveragents_domain::identity::Scope;
use cleveragents_domain::{SessionId, TaskId, TaskKind};
use serde_json::{Map, Value};

use super::error::RequestError;
use super::handlers::MethodCall;
use super::registry::TaskWatch;
use super::stream::UpdateStream;
use super::{conformance, plan, push, run};
use crate::app::App;
use crate::shutdown::stopping;

/// Name of the actor that answers with the text of the message.
pub const ECHO: &str = "builtin/echo";

/// Accepted media types of message parts, and of results. All parts become text.
pub(super) const MEDIA_TYPES: [&str; 2] = ["text/plain", "application/json"];

/// The id and the name of the artifact with the answer of a turn.
const ANSWER: &str = "answer";

/// The result of a message: a task, or an answer without a task.
enum SendOutcome {
    Task(Box<AcceptedTask>),
    /// An answer without a task.
    Message(Box<Message>),
}

/// The task of a message.
struct AcceptedTask {
    record: TaskRecord,
    /// The task including the message; `None` if the caller does not need it.
    snapshot: Option<Task>,
    /// The completed task, if it was answered at once.
    completed: Option<Task>,
    watch: TaskWatch,
}

/// `SendMessage`.
pub(super) async fn send(call: MethodCall) -> Result<StreamResponse, RequestError> {
    let configuration = call.fields().object("configuration")?;
    let empty = Map::new();
    let configuration = configuration.unwrap_or(Fields(&empty));
    let is_immediate = configuration.flag("returnImmediately")?;
    let history = configuration.history_length()?;
    let sent = match accept(&call, Snapshot::Unanswered).await? {
        SendOutcome::Message(message) => return Ok(StreamResponse::Message(*message)),
        SendOutcome::Task(sent) => *sent,
    };
    if let Some(completed) = sent.completed {
        return Ok(StreamResponse::Task(completed));
    }
    let task = match sent.snapshot {
        Some(snapshot) if is_immediate => snapshot,
        _ => wait(&call.app, sent.record.id, sent.watch, history).await?,
    };
    Ok(StreamResponse::Task(task))
}

/// `SendStreamingMessage`.
pub(super) async fn stream(call: MethodCall) -> Result<UpdateStream, RequestError> {
    match accept(&call, Snapshot::Created).await? {
        SendOutcome::Message(message) => Ok(UpdateStream::only(call.app, *message)),
        SendOutcome::Task(sent) => {
            let missing = || RequestError::new(ErrorReason::Internal, "the task was not read back");
            let snapshot = sent.snapshot.ok_or_else(missing)?;
            let (app, record, watch) = (call.app, &sent.record, sent.watch);
            Ok(UpdateStream::after(app, record, watch, snapshot, true))
        }
    }
}

/// Waits until no server runs the task, and returns the task.
async fn wait(
    app: &Arc<App>,
    id: TaskId,
    mut watch: TaskWatch,
    history: Option<u64>,
) -> Result<Task, RequestError> {
    let view = TaskView::with_history(history);
    loop {
        // Read only once: if the shutdown starts after this read, the wait below must end.
        let is_ending = app.shutdown.has_started();
        let is_last_read = is_ending && !app.tasks.is_running(id);
        let tasks = app.services.tasks();
        let settled = crate::blocking(move || tasks.view_settled(id, view, is_last_read));
        if let Some(task) = settled.await? {
            return Ok(task);
        }
        tokio::select! {
            () = watch.changed() => {}
            () = app.shutdown.started(), if !is_ending => {}
        }
    }
}

/// Checks a message, stores it with the task that it starts or answers, and starts to run the task.
async fn accept(call: &MethodCall, snapshot: Snapshot) -> Result<SendOutcome, RequestError> {
    let app = &call.app;
    if app.shutdown.has_started() {
        return Err(stopping().into());
    }
    let fields = call.fields();
    let message = fields
        .object("message")?
        .ok_or_else(|| Error::invalid_params("`message` is missing"))?;
    let message = Message::read(message)?;
    let empty = Map::new();
    let configuration = fields.object("configuration")?.unwrap_or(Fields(&empty));
    let history = configuration.history_length()?;
    let config = match configuration.object("taskPushNotificationConfig")? {
        Some(config) => Some(config),
        None => configuration.object("pushNotificationConfig")?,
    };
    let config = config
        .map(|config| push::read_config(call, config))
        .transpose()?;
    check_media_types(&message)?;
    let text = prompt_text(&message.parts).ok_or_else(|| {
        let message = "a file must hold text in UTF-8";
        Error::new(ErrorReason::ContentTypeNotSupported, message)
    })?;
    if text.len() > app.options.max_message_bytes {
        let limit = app.options.max_message_bytes;
        let message = format!("the message has more than {limit} bytes");
        return Err(RequestError::invalid_params(message));
    }
    if message.task_id.is_some() {
        reply(call, message, config, history).await
    } else {
        create(call, message, text, config, history, snapshot).await
    }
}

fn check_media_types(message: &Message) -> Result<(), RequestError> {
    for kind in message
        .parts
        .iter()
        .filter_map(|part| part.media_type.as_deref())
    {
        let plain = kind.split(';').next().unwrap_or_default().trim();
        let mut accepted = MEDIA_TYPES.iter();
        if !accepted.any(|known| known.eq_ignore_ascii_case(plain)) {
            return Err(RequestError::new(
                ErrorReason::ContentTypeNotSupported,
                format!("parts must be {}", MEDIA_TYPES.join(" or ")),
            ));
        }
    }
    Ok(())
}

/// Creates and runs a task for a message that names no task. `text` is the text of the message.
async fn create(
    call: &MethodCall,
    message: Message,
    text: String,
    push: Option<PushNotificationConfig>,
    history: Option<u64>,
    snapshot: Snapshot,
) -> Result<SendOutcome, RequestError> {
    let app = &call.app;
    let namespace = namespace(call, &message)?;
    call.authorize(&namespace).await?;
    if app.options.conformance.is_some()
        && let Some(text) = conformance::direct_response(&message.message_id)
    {
        let fresh = || SessionId::generate().to_string();
        let context = message.context_id.unwrap_or_else(fresh);
        return Ok(SendOutcome::Message(Box::new(agent_message(
            &context, None, text,
        ))));
    }
    let options = task_options(&message).cloned().unwrap_or_default();
    let kind = if options.contains_key("action") {
        plan::authorize(call, &options).await?;
        TaskKind::Plan
    } else {
        TaskKind::Turn
    };
    let answer = immediate_answer(app, kind, &options, text);
    let id = TaskId::generate();
    let new = NewTask {
        id,
        namespace,
        kind,
        options,
        runner: app.tasks.runner().to_owned(),
        message,
        push,
        answer,
        history,
        snapshot,
    };
    let watch = app.tasks.watch(id);
    let tasks = app.services_of(call.permit.caller()).tasks();
    let created = crate::blocking(move || tasks.create(new)).await?;
    match &created.completed {
        Some(_) => app.tasks.wake(id),
        None => run::start(app, call.permit.caller(), &created.record),
    }
    Ok(SendOutcome::Task(Box::new(AcceptedTask {
        record: created.record,
        snapshot: created.snapshot,
        completed: created.completed,
        watch,
    })))
}

/// The answer of an actor that needs only the message. The answer is stored with the message, in one unit of work.
fn immediate_answer(
    app: &App,
    kind: TaskKind,
    options: &Map<String, Value>,
    text: String,
) -> Option<ArtifactChunk> {
    let requested = options.get("actor").and_then(Value::as_str);
    let actor = requested.or(app.options.actor.as_deref());
    (kind == TaskKind::Turn && actor == Some(ECHO)).then(|| ArtifactChunk::whole(answer(text)))
}

/// The artifact with the answer of a turn, or with a piece of it.
pub(super) fn answer(text: impl Into<String>) -> Artifact {
    Artifact {
        artifact_id: ANSWER.to_owned(),
        name: Some(ANSWER.to_owned()),
        parts: vec![Part::text(text)],
    }
}

/// The namespace of a new task.
fn namespace(call: &MethodCall, message: &Message) -> Result<String, RequestError> {
    let tenant = call.fields().text("tenant")?;
    let option = task_options(message).and_then(|options| options.get("namespace"));
    tenant
        .or_else(|| option.and_then(Value::as_str))
        .map(str::to_owned)
        .or_else(|| call.permit.caller().home(Scope::Tasks))
        .ok_or_else(|| RequestError::invalid_params("name the namespace of the task as `tenant`"))
}

/// Passes a message to the waiting task that it names, and resumes the task.
async fn reply(
    call: &MethodCall,
    message: Message,
    push: Option<PushNotificationConfig>,
    history: Option<u64>,
) -> Result<SendOutcome, RequestError> {
    let app = &call.app;
    let task = call
        .task(message.task_id.as_deref().unwrap_or_default())
        .await?;
    let context = message.context_id.as_ref();
    if context.is_some_and(|context| *context != task.context) {
        return Err(RequestError::invalid_params(
            "the task belongs to another `contextId`",
        ));
    }
    let id = task.id;
    let reply = TaskReply {
        runner: app.tasks.runner().to_owned(),
        message: message.in_task(Some(&task.context), Some(&id.to_string())),
        push,
        history,
    };
    let watch = app.tasks.watch(id);
    let tasks = app.services_of(call.permit.caller()).tasks();
    let (record, snapshot) = crate::blocking(move || tasks.reply(id, reply)).await?;
    app.tasks.wake(id);
    run::start(app, call.permit.caller(), &record);
    Ok(SendOutcome::Task(Box::new(AcceptedTask {
        record,
        snapshot: Some(snapshot),
        completed: None,
        watch,
    })))
}
