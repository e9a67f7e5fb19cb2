//! What the methods do, whatever binding they came by.

use std::sync::Arc;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{TaskId, Timestamp};
use cleveragents_store::tasks::{Change, Task, TaskFilter};
use cleveragents_store::{Error, tasks};
use serde_json::{Map, Value, json};

use super::fault::{Fault, Reason};
use super::method::Act;
use super::stream::Updates;
use super::tasks::NOT_OVER;
use super::wire::{self, Fields};
use super::{card, push, send};
use crate::app::App;
use crate::gate::Permit;

/// How many tasks a page holds when nothing is said, and at most.
const PAGE: i64 = 50;
const PAGE_MAXIMUM: i64 = 100;

/// What a method gives.
pub(crate) enum Outcome {
    Value(Value),
    Updates(Updates),
}

/// Who asks, and for what.
pub(crate) struct Ask {
    pub(crate) app: Arc<App>,
    pub(crate) permit: Permit,
    /// What the method needs.
    pub(crate) permission: Permission,
    pub(crate) params: Map<String, Value>,
}

impl Ask {
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields(&self.params)
    }

    /// Checks that the caller may do this in a namespace.
    pub(super) async fn allowed(&self, namespace: &str) -> Result<(), Fault> {
        let permit = &self.permit;
        permit
            .with(&self.app, Scope::Tasks, self.permission, namespace)
            .await
            .map_err(Fault::from)
    }

    /// The task with an id, in which the caller may do this. What it cannot see does not exist.
    pub(super) async fn task(&self, id: &str) -> Result<Task, Fault> {
        let Ok(task) = id.parse::<TaskId>() else {
            return Err(Fault::no_task(id));
        };
        let engine = Arc::clone(&self.app.engine);
        let found = crate::blocking(move || engine.read(|reader| tasks::get(reader, task))).await?;
        let task = found
            .filter(|task| self.is_tenant(&task.namespace))
            .ok_or_else(|| Fault::no_task(id))?;
        let checked = self.allowed(&task.namespace).await;
        let caller = self.permit.caller();
        if checked.is_err() && !caller.may(Scope::Tasks, Permission::Read, &task.namespace) {
            return Err(Fault::no_task(id));
        }
        checked.map(|()| task)
    }

    /// Whether the tenant that the caller names, if it does, is a namespace.
    fn is_tenant(&self, namespace: &str) -> bool {
        match self.fields().text("tenant") {
            Ok(Some(tenant)) => tenant == namespace,
            _ => true,
        }
    }
}

/// Does what a method does.
pub(crate) async fn perform(act: Act, ask: Ask) -> Result<Outcome, Fault> {
    let value = match act {
        Act::Send => send::send(ask).await?,
        Act::SendStreaming => return send::stream(ask).await.map(Outcome::Updates),
        Act::Subscribe => return subscribe(ask).await.map(Outcome::Updates),
        Act::Get => get(ask).await?,
        Act::List => list(ask).await?,
        Act::Cancel => cancel(ask).await?,
        Act::PushCreate => push::create(ask).await?,
        Act::PushGet => push::get(ask).await?,
        Act::PushList => push::list(ask).await?,
        Act::PushDelete => push::delete(ask).await?,
        Act::Card => {
            // Whoever may look at nothing has no card of their own.
            if ask
                .permit
                .caller()
                .reach(Scope::Tasks, ask.permission)
                .is_empty()
            {
                ask.allowed("*").await?;
            }
            card::extended(&ask.app, &ask.permit).await
        }
    };
    Ok(Outcome::Value(value))
}

async fn get(ask: Ask) -> Result<Value, Fault> {
    let history = ask.fields().history()?;
    let task = ask.task(ask.fields().needed("id")?).await?;
    let engine = Arc::clone(&ask.app.engine);
    let found = crate::blocking(move || {
        engine.read(|reader| {
            // Again, so that all of it is from one moment.
            let task = tasks::get(reader, task.id)?.unwrap_or(task);
            wire::document(reader, &task, history, true)
        })
    });
    found.await.map_err(Fault::from)
}

async fn subscribe(ask: Ask) -> Result<Updates, Fault> {
    let task = ask.task(ask.fields().needed("id")?).await?;
    let (engine, id) = (Arc::clone(&ask.app.engine), task.id);
    // Before the task is read, so that no change falls between the two.
    let watching = ask.app.tasks.watch(id);
    let (task, snapshot) = crate::blocking(move || {
        engine.read(|reader| {
            let task = tasks::get(reader, id)?.unwrap_or(task);
            let snapshot = wire::document(reader, &task, None, true)?;
            Ok::<_, Error>((task, snapshot))
        })
    })
    .await?;
    if task.state.is_over() {
        return Err(Fault::new(
            Reason::UnsupportedOperation,
            "the task is over: it has no more updates",
        ));
    }
    Ok(Updates::after(ask.app, &task, watching, &snapshot, false))
}

async fn cancel(ask: Ask) -> Result<Value, Fault> {
    let task = ask.task(ask.fields().needed("id")?).await?;
    let id = task.id;
    let engine = ask.app.engine_of(ask.permit.caller());
    let cancelled = crate::blocking(move || {
        engine.write(move |unit| {
            let change = Change {
                from: NOT_OVER,
                runner: None,
                to: cleveragents_domain::TaskState::Canceled,
                message: None,
                told: &wire::status_update,
            };
            let changed = tasks::change(unit, id, &change)?;
            changed
                .map(|task| wire::document(unit, &task, None, true))
                .transpose()
        })
    })
    .await?;
    let Some(document) = cancelled else {
        return Err(Fault::new(
            Reason::TaskNotCancelable,
            "the task is over and cannot be cancelled",
        ));
    };
    ask.app.tasks.stop(id);
    ask.app.tasks.wake(id);
    super::plan::cancelled(&ask.app, ask.permit.caller(), &task);
    Ok(document)
}

async fn list(ask: Ask) -> Result<Value, Fault> {
    let fields = ask.fields();
    let size = fields.number("pageSize")?.unwrap_or(PAGE);
    if !(1..=PAGE_MAXIMUM).contains(&size) {
        return Err(Fault::params("`pageSize` must be from 1 to 100"));
    }
    let since = fields.text("statusTimestampAfter")?;
    let since = since.map(str::parse::<Timestamp>).transpose();
    let filter = TaskFilter {
        visible: ask.permit.visible(),
        namespace: fields.text("tenant")?.map(str::to_owned),
        context: fields.id("contextId")?.map(str::to_owned),
        state: match fields.get("status") {
            Some(state) => wire::state(state)?,
            None => None,
        },
        since: since.map_err(|error| Fault::params(error.to_string()))?,
        after: fields.text("pageToken")?.map(cursor).transpose()?,
        limit: size.unsigned_abs() + 1,
    };
    let (history, with_artifacts) = (fields.history()?, fields.flag("includeArtifacts")?);
    if filter.visible.is_empty() {
        ask.allowed("*").await?;
    }
    let engine = Arc::clone(&ask.app.engine);
    crate::blocking(move || {
        engine.read(|reader| {
            let (mut found, total) = tasks::list(reader, &filter)?;
            let has_more = found.len() as u64 >= filter.limit;
            found.truncate(usize::try_from(size).unwrap_or_default());
            let next = match found.last() {
                Some(last) if has_more => {
                    hex::encode(format!("{}:{}", last.status_at.as_micros(), last.id))
                }
                _ => String::new(),
            };
            let mut documents = Vec::with_capacity(found.len());
            for task in &found {
                let mut document = wire::document(reader, task, history, with_artifacts)?;
                if with_artifacts && document.get("artifacts").is_none() {
                    document["artifacts"] = json!([]);
                }
                documents.push(document);
            }
            Ok::<_, Fault>(json!({
                "tasks": documents, "nextPageToken": next, "pageSize": size, "totalSize": total,
            }))
        })
    })
    .await
}

/// Where a page begins.
fn cursor(token: &str) -> Result<(Timestamp, String), Fault> {
    let read = || {
        let text = String::from_utf8(hex::decode(token).ok()?).ok()?;
        let (moment, id) = text.split_once(':')?;
        let id: TaskId = id.parse().ok()?;
        Some((Timestamp::from_micros(moment.parse().ok()?), id.to_string()))
    };
    read().ok_or_else(|| Fault::params("`pageToken` is not one of ours"))
}
