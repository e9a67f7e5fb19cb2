//! A message comes in: it begins a task or goes on with one, in one unit of work, and then somebody works on it.

use std::sync::Arc;

use cleveragents_domain::identity::Scope;
use cleveragents_domain::{
    DEFAULT_PROFILE, EventKind, SessionId, TaskId, TaskKind, TaskState, TokenUsage,
};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::tasks::{Change, NewTask, Task};
use cleveragents_store::{UnitOfWork, sessions, tasks};
use serde_json::{Map, Value, json};

use super::acts::Ask;
use super::fault::{Fault, Reason};
use super::push::Wanted;
use super::stream::Updates;
use super::tasks::{Chunk, Watching};
use super::wire::{self, Fields, Incoming};
use super::{conformance, plan, run};
use crate::app::{App, ending};

/// The subject of a plan that is not made yet.
pub(super) const NO_PLAN: &str = "-";

/// The actor that answers with what it was told.
pub const ECHO: &str = "builtin/echo";

/// A message that was taken on.
struct Accepted {
    task: Task,
    /// How the task was when it was taken on.
    snapshot: Value,
    /// How it ended, if it was answered at once.
    ended: Option<Value>,
    watching: Watching,
}

/// What who sends a message sees of its task.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// How it is in the end.
    AtTheEnd,
    /// How it begins, and every change.
    FromTheBeginning,
}

/// What a message leads to.
enum Begun {
    Task(Box<Accepted>),
    /// An answer without a task.
    Message(Value),
}

/// `SendMessage`.
pub(super) async fn send(ask: Ask) -> Result<Value, Fault> {
    let configuration = ask.fields().within("configuration")?;
    let empty = Map::new();
    let configuration = configuration.unwrap_or(Fields(&empty));
    let is_immediate = configuration.flag("returnImmediately")?;
    let history = configuration.history()?;
    let accepted = match begin(&ask, Seen::AtTheEnd).await? {
        Begun::Message(message) => return Ok(json!({"message": message})),
        Begun::Task(accepted) => *accepted,
    };
    if let Some(ended) = accepted.ended {
        return Ok(json!({"task": ended}));
    }
    if is_immediate {
        return Ok(json!({"task": accepted.snapshot}));
    }
    let document = wait(&ask.app, accepted.task.id, accepted.watching, history).await?;
    Ok(json!({"task": document}))
}

/// `SendStreamingMessage`.
pub(super) async fn stream(ask: Ask) -> Result<Updates, Fault> {
    match begin(&ask, Seen::FromTheBeginning).await? {
        Begun::Message(message) => Ok(Updates::only(ask.app, &message)),
        Begun::Task(accepted) => Ok(Updates::after(
            ask.app,
            &accepted.task,
            accepted.watching,
            &accepted.snapshot,
            true,
        )),
    }
}

/// Waits until nobody works on a task any more, and gives it.
async fn wait(
    app: &Arc<App>,
    id: TaskId,
    mut watching: Watching,
    history: Option<u64>,
) -> Result<Value, Fault> {
    loop {
        // Asked once: if it came near after the look, who waits below has to hear of it.
        let is_ending = app.ending.is_near();
        let is_last_look = is_ending && !app.tasks.is_running(id);
        let engine = Arc::clone(&app.engine);
        let found = crate::blocking(move || {
            engine.read(|reader| {
                let task =
                    tasks::get(reader, id)?.ok_or_else(|| Fault::no_task(&id.to_string()))?;
                let is_done = task.state.is_over() || task.state.is_waiting();
                if is_done || is_last_look {
                    wire::document(reader, &task, history, true)
                        .map(Some)
                        .map_err(Fault::from)
                } else {
                    Ok(None)
                }
            })
        });
        if let Some(document) = found.await? {
            return Ok(document);
        }
        tokio::select! {
            () = watching.changed() => {}
            () = app.ending.near(), if !is_ending => {}
        }
    }
}

/// Checks a message, stores what it begins or goes on with, and has somebody work on it.
async fn begin(ask: &Ask, seen: Seen) -> Result<Begun, Fault> {
    let app = &ask.app;
    if app.ending.is_near() {
        return Err(ending().into());
    }
    let fields = ask.fields();
    let message = fields
        .within("message")?
        .ok_or_else(|| Fault::params("`message` is missing"))?;
    let message = Incoming::read(message)?;
    let empty = Map::new();
    let configuration = fields.within("configuration")?.unwrap_or(Fields(&empty));
    let history = configuration.history()?;
    let wanted = match configuration.within("taskPushNotificationConfig")? {
        Some(config) => Some(config),
        None => configuration.within("pushNotificationConfig")?,
    };
    let wanted = wanted.map(|config| Wanted::read(app, config)).transpose()?;
    message.check_kinds()?;
    if message.as_text()?.len() > app.options.max_message_bytes {
        let most = app.options.max_message_bytes;
        return Err(Fault::params(format!(
            "the message has more than {most} bytes"
        )));
    }
    match &message.task {
        Some(id) => go_on(ask, id, &message, wanted, history).await,
        None => make(ask, &message, wanted, history, seen).await,
    }
}

/// A message without a task begins one.
async fn make(
    ask: &Ask,
    message: &Incoming,
    wanted: Option<Wanted>,
    history: Option<u64>,
    seen: Seen,
) -> Result<Begun, Fault> {
    let app = &ask.app;
    let namespace = namespace(ask, message)?;
    ask.allowed(&namespace).await?;
    let new_session = SessionId::generate();
    let context = message
        .context
        .clone()
        .unwrap_or_else(|| new_session.to_string());
    if app.options.conformance.is_some()
        && let Some(text) = conformance::message(&message.id)
    {
        return Ok(Begun::Message(wire::said(&context, None, text)));
    }
    let own = message.own().cloned().unwrap_or_default();
    let kind = if own.contains_key("action") {
        plan::check(ask, &own).await?;
        TaskKind::Plan
    } else {
        TaskKind::Turn
    };
    let answer = at_once(app, kind, &own, message);
    let id = TaskId::generate();
    let new = NewTask {
        id,
        namespace,
        context,
        kind,
        subject: NO_PLAN.to_owned(),
        metadata: Value::Object(own),
        runner: app.tasks.runner().to_owned(),
    };
    let document = message.document(&new.context, &id.to_string());
    let message_id = message.id.clone();
    let is_new_context = message.context.is_none();
    let watching = app.tasks.watch(id);
    let engine = app.engine_of(ask.permit.caller());
    let store = move |unit: &mut UnitOfWork<'_>| {
        let session = session(unit, &new, new_session, is_new_context)?;
        let mut new = new.clone();
        if new.kind == TaskKind::Turn {
            new.subject = session.to_string();
        }
        let task = tasks::insert(unit, &new, &message_id, &document)?;
        if let Some(wanted) = &wanted {
            wanted.store(unit, &task)?;
        }
        // Nobody sees how a task was that is answered at once, but who hears of it step by step.
        let snapshot = if answer.is_none() || seen == Seen::FromTheBeginning {
            wire::document(unit, &task, history, true)?
        } else {
            Value::Null
        };
        let Some(answer) = &answer else {
            return Ok::<_, NotMade>((task, snapshot, None));
        };
        let ended = answer.add(unit, &new.runner, id, Some(TaskState::Completed))?;
        let ended = ended
            .map(|ended| wire::document(unit, &ended, history, true))
            .transpose()?;
        Ok((task, snapshot, ended))
    };
    let (task, snapshot, ended) = crate::blocking(move || {
        match engine.write(store.clone()) {
            // Once more: now the context is there.
            Err(NotMade::Raced) => engine.write(store),
            made => made,
        }
    })
    .await?;
    match &ended {
        Some(_) => app.tasks.wake(id),
        None => run::start(app, ask.permit.caller(), &task),
    }
    Ok(Begun::Task(Box::new(Accepted {
        task,
        snapshot,
        ended,
        watching,
    })))
}

/// The answer of an actor that needs nothing but the message: it is stored with it, in one unit of work.
fn at_once(
    app: &App,
    kind: TaskKind,
    own: &Map<String, Value>,
    message: &Incoming,
) -> Option<Chunk> {
    let named = own.get("actor").and_then(Value::as_str);
    let actor = named.or(app.options.actor.as_deref());
    (kind == TaskKind::Turn && actor == Some(ECHO))
        .then(|| message.as_text().unwrap_or_default())
        .map(|text| Chunk::whole(run::answer(&text)))
}

/// Why a task was not made.
enum NotMade {
    /// Somebody else made the same context in this moment.
    Raced,
    Fault(Fault),
}

impl From<Fault> for NotMade {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<cleveragents_store::Error> for NotMade {
    fn from(error: cleveragents_store::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<NotMade> for Fault {
    fn from(not: NotMade) -> Self {
        match not {
            NotMade::Raced => Self::new(Reason::Internal, "the context is being made"),
            NotMade::Fault(fault) => fault,
        }
    }
}

/// The namespace of a new task.
fn namespace(ask: &Ask, message: &Incoming) -> Result<String, Fault> {
    let named = ask.fields().text("tenant")?;
    let own = message.own().and_then(|own| own.get("namespace"));
    named
        .or_else(|| own.and_then(Value::as_str))
        .map(str::to_owned)
        .or_else(|| ask.permit.caller().home(Scope::Tasks))
        .ok_or_else(|| Fault::params("name the namespace of the task as `tenant`"))
}

/// The session of the context of a task, made if there is none.
fn session(
    unit: &mut UnitOfWork<'_>,
    new: &NewTask,
    fresh: SessionId,
    is_new: bool,
) -> Result<SessionId, NotMade> {
    let (namespace, context) = (&new.namespace, &new.context);
    if !is_new && let Some(session) = tasks::context(unit, namespace, context)? {
        return Ok(session);
    }
    // A conversation of the namespace may be gone on with by its id.
    if !is_new
        && let Ok(id) = context.parse::<SessionId>()
        && let Some(known) = sessions::get(unit, id)?
        && known.namespace == *namespace
    {
        tasks::add_context(unit, namespace, context, id)?;
        return Ok(id);
    }
    let session = NewSession {
        owner: None,
        name: None,
        actor: None,
        namespace: namespace.clone(),
        automation: DEFAULT_PROFILE.to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    };
    sessions::insert(unit, fresh, &session, EventKind::SessionCreated)?;
    if tasks::add_context(unit, namespace, context, fresh)? {
        return Ok(fresh);
    }
    Err(NotMade::Raced)
}

/// A message for a task answers what it asked.
async fn go_on(
    ask: &Ask,
    id: &str,
    message: &Incoming,
    wanted: Option<Wanted>,
    history: Option<u64>,
) -> Result<Begun, Fault> {
    let app = &ask.app;
    let task = ask.task(id).await?;
    if message
        .context
        .as_ref()
        .is_some_and(|context| *context != task.context)
    {
        return Err(Fault::params("the task belongs to another `contextId`"));
    }
    let document = message.document(&task.context, &task.id.to_string());
    let (message_id, runner) = (message.id.clone(), app.tasks.runner().to_owned());
    let watching = app.tasks.watch(task.id);
    let engine = app.engine_of(ask.permit.caller());
    let id = task.id;
    let (task, snapshot) = crate::blocking(move || {
        engine.write(move |unit| {
            let change = Change {
                from: &[TaskState::InputRequired, TaskState::AuthRequired],
                runner: None,
                to: TaskState::Working,
                message: None,
                told: &wire::status_update,
            };
            let Some(mut task) = tasks::change(unit, id, &change)? else {
                return Err(not_now(tasks::get(unit, id)?.as_ref(), id));
            };
            tasks::add_message(unit, id, &message_id, &document)?;
            tasks::take_over(unit, id, &task.runner, &runner)?;
            task.runner.clone_from(&runner);
            if let Some(wanted) = &wanted {
                wanted.store(unit, &task)?;
            }
            let snapshot = wire::document(unit, &task, history, true)?;
            Ok((task, snapshot))
        })
    })
    .await?;
    app.tasks.wake(id);
    run::start(app, ask.permit.caller(), &task);
    Ok(Begun::Task(Box::new(Accepted {
        task,
        snapshot,
        ended: None,
        watching,
    })))
}

/// Why a task takes no message.
fn not_now(task: Option<&Task>, id: TaskId) -> Fault {
    let unsupported = |text: &str| Fault::new(Reason::UnsupportedOperation, text);
    match task {
        None => Fault::no_task(&id.to_string()),
        Some(task) if task.state.is_over() => {
            unsupported("the task is over; send the message without `taskId`")
        }
        Some(_) => unsupported("the task is being worked on and takes no message now"),
    }
}
