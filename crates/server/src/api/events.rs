//! `/api/v1/events`: what happens, while it happens. Who comes back with the position of the last event it heard of
//! misses nothing and hears nothing twice.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use cleveragents_domain::identity::{Namespaces, Permission, Scope};
use cleveragents_domain::{Code, Event, EventKind, Position};
use futures_util::stream;
use http::HeaderName;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::request;
use super::types::EventDocument;
use crate::app::App;
use crate::callers::Again;
use crate::feed::Listening;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::routes::{Parameter, Place, Route, Verb, permitted, schema_of};

/// What browsers send when they come back.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a listener waits before it comes back, in milliseconds.
const RETRY: u32 = 1_000;

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Get,
    path: "/api/v1/events",
    scope: Scope::Events,
    permission: Permission::Read,
    place: Place::Any,
    summary: "What happens, while it happens: one server-sent event for each thing the caller may see",
    parameters: &[
        Parameter {
            name: "kind",
            place: "query",
            about: "Only these kinds: exact (`plan.created`) or a beginning with a point (`plan.`); commas or repeated",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "subject",
            place: "query",
            about: "Only what happens to this: the id of a session, a plan and so on",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "namespace",
            place: "query",
            about: "Only what happens in this namespace",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "after",
            place: "query",
            about: "The position to begin after, 0 for all; without it only what is new. `Last-Event-ID` goes before",
            schema: schema_of::<Option<u64>>,
        },
        Parameter {
            name: "Last-Event-ID",
            place: "header",
            about: "The position of the last event heard of",
            schema: schema_of::<Option<u64>>,
        },
    ],
    body: None,
    answer: (200, Some(schema_of::<EventDocument>)),
    handler: permitted!(events),
}];

/// Which events are asked for.
#[derive(Debug, Default)]
struct Filter {
    kinds: Vec<String>,
    subject: Option<String>,
    namespace: Option<String>,
}

impl Filter {
    fn read(pairs: Vec<(String, String)>) -> Result<(Self, Option<Position>), Problem> {
        let mut filter = Self::default();
        let mut after = None;
        for (name, value) in pairs {
            match name.as_str() {
                "kind" => filter.kinds.extend(
                    value
                        .split(',')
                        .map(|kind| kind.trim().to_owned())
                        .filter(|kind| !kind.is_empty()),
                ),
                "subject" => filter.subject = Some(value),
                "namespace" => filter.namespace = Some(value),
                "after" => after = Some(position(&value)?),
                _ => {}
            }
        }
        for kind in &filter.kinds {
            if !EventKind::ALL.iter().any(|known| suits(kind, *known)) {
                return Err(
                    Problem::new(Code::MalformedRequest, "`kind` names no kind of event")
                        .with_hint(
                            "write a kind such as `plan.created`, or its beginning such as `plan.`",
                        ),
                );
            }
        }
        Ok((filter, after))
    }

    fn wants(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| suits(kind, event.kind)))
            && self
                .subject
                .as_ref()
                .is_none_or(|subject| *subject == event.subject)
    }
}

/// Whether a kind is meant by a text.
fn suits(text: &str, kind: EventKind) -> bool {
    text == kind.as_str() || (text.ends_with('.') && kind.as_str().starts_with(text))
}

fn position(text: &str) -> Result<Position, Problem> {
    text.trim().parse().map(Position).map_err(|_| {
        Problem::new(Code::MalformedRequest, "a position is a whole number")
            .with_hint("send the `id` of the last event that you heard of")
    })
}

async fn events(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let (filter, mut after) = Filter::read(request::query(request.uri())?)?;
    if let Some(namespace) = &filter.namespace {
        permit.in_namespace(&app, namespace).await?;
    }
    if let Some(value) = request.headers().get(LAST_EVENT_ID) {
        after = Some(position(value.to_str().unwrap_or_default())?);
    }
    if app.ending.is_near() {
        return Err(crate::app::ending());
    }
    let newest = app.feed.newest().await?;
    // Whoever knows a later position than there is heard of it from another database.
    let begin = after.unwrap_or(newest).min(newest);
    let told = Told {
        listening: app.feed.listen(begin),
        visible: permit.visible(),
        again: Again::of(request.headers(), permit.peer()),
        last: begin,
        said: begin,
        pulse: pulse(&app),
        filter,
        app,
    };
    let first = Bytes::from(format!("retry: {RETRY}\nid: {}\n\n", begin.0));
    let body = stream::unfold((Some(first), told), |(first, mut told)| async move {
        let block = match first {
            Some(first) => first,
            None => told.next().await?,
        };
        Some((Ok::<_, std::convert::Infallible>(block), (None, told)))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Proxies must not keep it back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

fn pulse(app: &App) -> Interval {
    let every = app.options.keep_alive;
    let mut pulse = tokio::time::interval_at(Instant::now() + every, every);
    pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pulse
}

/// What the caller may see now; nothing when it is refused.
async fn visible(again: &Again, app: &App) -> Option<Namespaces> {
    let caller = again.caller(&app.callers).await?;
    let visible = caller.reach(Scope::Events, Permission::Read);
    (!visible.is_empty()).then_some(visible)
}

/// Somebody who is told what happens.
struct Told {
    app: Arc<App>,
    listening: Listening,
    filter: Filter,
    visible: Namespaces,
    again: Again,
    /// The last event that was looked at.
    last: Position,
    /// The last position that was told.
    said: Position,
    pulse: Interval,
}

impl Told {
    /// The next block; nothing at the end, after which the listener comes back.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let event = tokio::select! {
                biased;
                () = self.app.ending.near() => return None,
                _ = self.pulse.tick() => {
                    // Roles change and tokens are revoked while somebody listens.
                    self.visible = visible(&self.again, &self.app).await?;
                    return Some(self.sign_of_life());
                }
                event = self.listening.next() => event.ok()?,
            };
            self.last = event.position;
            if let Some(block) = self.block(&event).await? {
                self.said = event.position;
                return Some(block);
            }
        }
    }

    /// Says where the listener is, if it does not know, or nothing at all.
    fn sign_of_life(&mut self) -> Bytes {
        if self.last == self.said {
            return Bytes::from_static(b":\n\n");
        }
        self.said = self.last;
        Bytes::from(format!("id: {}\n\n", self.last.0))
    }

    /// An event as it is sent, if the listener wants it and may see it. Ends when that cannot be found out.
    async fn block(&self, event: &Event) -> Option<Option<Bytes>> {
        if !self.filter.wants(event) {
            return Some(None);
        }
        let namespace = self.app.belongs.namespace(event).await.ok()?;
        let is_seen = match &namespace {
            Some(namespace) => {
                self.visible.contains(namespace)
                    && self
                        .filter
                        .namespace
                        .as_ref()
                        .is_none_or(|wanted| **wanted == **namespace)
            }
            None => self.visible == Namespaces::All && self.filter.namespace.is_none(),
        };
        if !is_seen {
            return Some(None);
        }
        let data = serde_json::to_string(&EventDocument::of(event, namespace.as_deref())).ok()?;
        let (position, kind) = (event.position.0, event.kind);
        Some(Some(Bytes::from(format!(
            "id: {position}\nevent: {kind}\ndata: {data}\n\n"
        ))))
    }
}
