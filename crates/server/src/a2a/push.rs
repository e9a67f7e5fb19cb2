//! Push notifications: where somebody wants to be told of a task, and telling them. Updates are delivered from the
//! database, each at least once and in order, by whatever server is there.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{TaskId, Timestamp};
use cleveragents_outbound::{self as outbound, Refused};
use cleveragents_store::pushes::{self, PushConfig};
use cleveragents_store::tasks::Task;
use cleveragents_store::{Error, UnitOfWork, tasks};
use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};

use super::acts::Ask;
use super::fault::{Fault, Reason};
use super::old;
use super::wire::{self, Fields};
use crate::app::App;

/// How many places a task may be pushed to.
const MOST: u64 = 16;

/// How long one delivery may take, and how long it is the one's who took it upon itself.
const PATIENCE: Duration = Duration::from_secs(15);
const CLAIMED_SECONDS: i64 = 30;

/// How many deliveries are under way at a time.
const AT_A_TIME: usize = 16;

/// How often a delivery is tried, and the longest pause between two attempts. With the first pause of a second this
/// makes about a quarter of an hour.
const ATTEMPTS: u64 = 12;
const LONGEST_PAUSE_SECONDS: i64 = 120;

/// How often is looked for what other processes left.
const LOOK: Duration = Duration::from_secs(5);

/// Where somebody wants to be told.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    id: String,
    config: Map<String, Value>,
}

impl Wanted {
    /// Reads where somebody wants to be told, and refuses what could never be called.
    pub(super) fn read(app: &App, fields: Fields<'_>) -> Result<Self, Fault> {
        let url = fields.needed("url")?;
        outbound::check(url, app.options.allow_private_addresses).map_err(|refused| {
            Fault::params(format!("`url` may not be called: {refused}")).with("field", "url")
        })?;
        let id = match fields.id("id")? {
            Some(id) => id.to_owned(),
            None => TaskId::generate().to_string(),
        };
        let mut config = Map::new();
        config.insert("id".to_owned(), id.clone().into());
        config.insert("url".to_owned(), url.into());
        if let Some(token) = header_text(fields, "token")? {
            config.insert("token".to_owned(), token.into());
        }
        if let Some(authentication) = fields.within("authentication")? {
            let mut kept = Map::new();
            kept.insert(
                "scheme".to_owned(),
                header_text(authentication, "scheme")?
                    .ok_or_else(|| Fault::params("`authentication.scheme` is missing"))?
                    .into(),
            );
            if let Some(credentials) = header_text(authentication, "credentials")? {
                kept.insert("credentials".to_owned(), credentials.into());
            }
            config.insert("authentication".to_owned(), Value::Object(kept));
        }
        // Who speaks 0.3 is told in 0.3.
        if fields.flag(old::MARK)? {
            config.insert(old::MARK.to_owned(), true.into());
        }
        Ok(Self { id, config })
    }

    /// Stores it for a task.
    pub(super) fn store(&self, unit: &mut UnitOfWork<'_>, task: &Task) -> Result<(), Fault> {
        let config = Value::Object(self.config.clone());
        if pushes::set(unit, task, &self.id, &config, MOST)? {
            return Ok(());
        }
        let message = format!("a task is pushed to {MOST} places at most");
        Err(Fault::new(Reason::Params, message))
    }
}

/// A text that can be sent in a header.
fn header_text<'a>(fields: Fields<'a>, name: &str) -> Result<Option<&'a str>, Fault> {
    let text = fields.text(name)?;
    match text {
        Some(text) if http::HeaderValue::from_str(text).is_err() => Err(Fault::params(format!(
            "`{name}` cannot be sent in a header"
        ))),
        text => Ok(text),
    }
}

/// As who asked for it sees it.
fn shown(push: &PushConfig) -> Value {
    let mut config = push.config.clone();
    if let Some(fields) = config.as_object_mut() {
        fields.remove(old::MARK);
        fields.insert("taskId".to_owned(), push.task.to_string().into());
    }
    config
}

pub(super) async fn create(ask: Ask) -> Result<Value, Fault> {
    let task = ask.task(ask.fields().needed("taskId")?).await?;
    let wanted = Wanted::read(&ask.app, ask.fields())?;
    let engine = ask.app.engine_of(ask.permit.caller());
    let id = wanted.id.clone();
    let found = crate::blocking(move || {
        engine.write(move |unit| {
            // Again: what it is told begins with what comes next.
            let task = tasks::get(unit, task.id)?.unwrap_or_else(|| task.clone());
            wanted.store(unit, &task)?;
            pushes::of_task(unit, task.id).map_err(Fault::from)
        })
    })
    .await?;
    found
        .iter()
        .find(|push| push.id == id)
        .map(shown)
        .ok_or_else(|| Fault::new(Reason::Internal, "what was stored is not there"))
}

async fn all(ask: &Ask) -> Result<Vec<PushConfig>, Fault> {
    let task = ask.task(ask.fields().needed("taskId")?).await?;
    let engine = Arc::clone(&ask.app.engine);
    crate::blocking(move || engine.read(|reader| pushes::of_task(reader, task.id)))
        .await
        .map_err(Fault::from)
}

pub(super) async fn get(ask: Ask) -> Result<Value, Fault> {
    let all = all(&ask).await?;
    let id = match ask.fields().id("id")? {
        Some(id) => id,
        // 0.3 may leave it out when there is one only.
        None if ask.fields().flag(old::MARK)? && all.len() == 1 => {
            all.first().map_or("", |push| push.id.as_str())
        }
        None => return Err(Fault::params("`id` is missing")),
    };
    let found = all.iter().find(|push| push.id == id);
    found.map(shown).ok_or_else(|| {
        Fault::new(
            Reason::TaskNotFound,
            "the task has no push notification of this id",
        )
    })
}

pub(super) async fn list(ask: Ask) -> Result<Value, Fault> {
    // There are never more than fit on a page.
    ask.fields().number("pageSize")?;
    let all = all(&ask).await?;
    Ok(json!({"configs": all.iter().map(shown).collect::<Vec<_>>(), "nextPageToken": ""}))
}

pub(super) async fn delete(ask: Ask) -> Result<Value, Fault> {
    let task = ask.task(ask.fields().needed("taskId")?).await?;
    let id = ask.fields().needed("id")?.to_owned();
    let engine = ask.app.engine_of(ask.permit.caller());
    crate::blocking(move || engine.write(move |unit| pushes::remove(unit, task.id, &id))).await?;
    Ok(Value::Null)
}

/// Delivers updates for as long as the server is there.
pub(super) async fn deliver(app: Arc<App>) {
    loop {
        let engine = Arc::clone(&app.engine);
        let found =
            crate::blocking(move || engine.read(|reader| pushes::undelivered(reader, 256))).await;
        let found: Vec<PushConfig> = found.unwrap_or_default();
        let now = Timestamp::now();
        let (due, later): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|push| push.next_at <= now);
        let is_any_due = !due.is_empty();
        futures_util::stream::iter(due)
            .for_each_concurrent(AT_A_TIME, |push| one(Arc::clone(&app), push))
            .await;
        if is_any_due {
            continue;
        }
        let micros = later
            .iter()
            .map(|push| push.next_at.as_micros() - now.as_micros())
            .min();
        let pause = micros.and_then(|micros| u64::try_from(micros).ok());
        let pause = pause.map_or(LOOK, Duration::from_micros).min(LOOK);
        let _woken = tokio::time::timeout(pause, app.tasks.undelivered.notified()).await;
    }
}

/// Delivers the next update to one place, if nobody else does.
async fn one(app: Arc<App>, push: PushConfig) {
    let (engine, claimed) = (Arc::clone(&app.engine), push.clone());
    let body = crate::blocking(move || {
        let until = Timestamp::now().plus_seconds(CLAIMED_SECONDS);
        let wanted = claimed.clone();
        if !engine.write(move |unit| pushes::claim(unit, &wanted, until))? {
            return Ok(None);
        }
        engine.read(|reader| {
            let is_old = claimed.config.get(old::MARK).is_some();
            let found = tasks::updates(reader, claimed.task, claimed.next_number, 1)?;
            match tasks::get(reader, claimed.task)? {
                Some(task) if is_old => {
                    let document = wire::document(reader, &task, None, true)?;
                    Ok(Some(old::task(&document)))
                }
                _ => Ok::<_, Error>(found.into_iter().next()),
            }
        })
    })
    .await;
    let Ok(Some(body)) = body else {
        return;
    };
    let sent = send(&app, &push, &body).await;
    let engine = Arc::clone(&app.engine);
    let stored = crate::blocking(move || {
        engine.write(move |unit| match &sent {
            Ok(()) => pushes::delivered(unit, &push, push.next_number + 1, None),
            Err(why) if !why.may_pass || push.attempts + 1 >= ATTEMPTS => {
                pushes::delivered(unit, &push, push.next_number + 1, Some(&why.text))
            }
            Err(why) => {
                let doubled = 1_i64 << push.attempts.min(10);
                let pause = doubled.min(LONGEST_PAUSE_SECONDS);
                let next = unit.now().plus_seconds(pause);
                pushes::failed(unit, &push, next, &why.text)
            }
        })
    });
    // Without the database it is delivered again when the claim is over.
    let _stored = stored.await;
}

/// Why something was not delivered.
struct Undelivered {
    text: String,
    /// Whether another attempt may succeed.
    may_pass: bool,
}

async fn send(app: &App, push: &PushConfig, body: &Value) -> Result<(), Undelivered> {
    let text = |pointer: &str| push.config.pointer(pointer).and_then(Value::as_str);
    let url = text("/url").unwrap_or_default();
    let target = outbound::resolve(url, app.options.allow_private_addresses)
        .await
        .map_err(|refused| Undelivered {
            may_pass: matches!(refused, Refused::Unresolved),
            text: refused.to_string(),
        })?;
    let mut request = target
        .post(PATIENCE)
        .map_err(|why| Undelivered {
            text: why,
            may_pass: false,
        })?
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(
            "A2A-Version",
            if push.config.get(old::MARK).is_some() {
                "0.3"
            } else {
                "1.0"
            },
        );
    if let (Some(scheme), Some(credentials)) = (
        text("/authentication/scheme"),
        text("/authentication/credentials"),
    ) {
        request = request.header(
            http::header::AUTHORIZATION,
            outbound::secret(&format!("{scheme} {credentials}")),
        );
    }
    if let Some(token) = text("/token") {
        request = request.header("X-A2A-Notification-Token", outbound::secret(token));
    }
    let answer = request.body(body.to_string()).send().await;
    match answer {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(Undelivered {
            text: format!("it answered {}", answer.status()),
            may_pass: answer.status().is_server_error()
                || matches!(answer.status().as_u16(), 408 | 425 | 429),
        }),
        Err(error) => Err(Undelivered {
            text: format!("it cannot be reached: {}", outbound::deepest(&error)),
            may_pass: true,
        }),
    }
}
