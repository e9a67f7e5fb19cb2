//! `/api/v1/events`: the event log as a stream. A client that reconnects with the position of its last event receives
//! every event exactly once.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::identity::{Namespaces, Permission, Scope};
use cleveragents_domain::{Code, Event, EventKind, Position};
use futures_util::stream;
use http::HeaderName;
use http::header::CACHE_CONTROL;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::request;
use super::types::EventDocument;
use crate::app::App;
use crate::authorize::Permit;
use crate::callers::Credentials;
use crate::event_scope;
use crate::live_events::EventListener;
use crate::problem::Problem;
use crate::routes::{Parameter, Route, RouteScope, Verb, permitted, schema_of};

/// The header that browsers send to resume a stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Reconnection delay that clients receive.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Get,
    path: "/api/v1/events",
    scope: Scope::Events,
    permission: Permission::Read,
    place: RouteScope::Any,
    summary: "Stream the events that the caller may see, as server-sent events",
    parameters: &[
        Parameter {
            name: "kind",
            place: "query",
            about: "Only these kinds: exact (`plan.created`) or a prefix (`plan.`), separated by commas or repeated",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "subject",
            place: "query",
            about: "Only events of this object: the id of a session, plan and so on",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "namespace",
            place: "query",
            about: "Only events of this namespace",
            schema: schema_of::<Option<String>>,
        },
        Parameter {
            name: "after",
            place: "query",
            about: "The position to start after, 0 for all events; default: only new events. `Last-Event-ID` takes precedence",
            schema: schema_of::<Option<u64>>,
        },
        Parameter {
            name: "Last-Event-ID",
            place: "header",
            about: "The position of the last received event",
            schema: schema_of::<Option<u64>>,
        },
    ],
    body: None,
    answer: (200, Some(schema_of::<EventDocument>)),
    handler: permitted!(events),
}];

/// The requested events.
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
            if !EventKind::ALL
                .iter()
                .any(|known| matches_kind(kind, *known))
            {
                return Err(Problem::new(
                    Code::MalformedRequest,
                    "`kind` does not name a kind of event",
                )
                .with_hint("write a kind such as `plan.created`, or a prefix such as `plan.`"));
            }
        }
        Ok((filter, after))
    }

    fn matches(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| matches_kind(kind, event.kind)))
            && self
                .subject
                .as_ref()
                .is_none_or(|subject| *subject == event.subject)
    }
}

/// True if `text`, a kind or a prefix that ends with a dot, matches a kind.
fn matches_kind(text: &str, kind: EventKind) -> bool {
    text == kind.as_str() || (text.ends_with('.') && kind.as_str().starts_with(text))
}

fn position(text: &str) -> Result<Position, Problem> {
    text.trim().parse().map(Position).map_err(|_| {
        Problem::new(Code::MalformedRequest, "a position is a whole number")
            .with_hint("send the `id` of the last event that you received")
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
    if app.shutdown.has_started() {
        return Err(crate::shutdown::stopping());
    }
    let newest = app.feed.newest().await?;
    // A position after the newest event comes from another database, so the stream starts after the newest event.
    let begin = after.unwrap_or(newest).min(newest);
    let stream = EventStream {
        listener: app.feed.listen(begin),
        visible: permit.visible(),
        credentials: Credentials::from_request(request.headers(), permit.peer()),
        last: begin,
        sent: begin,
        keep_alive: keep_alive(&app),
        filter,
        app,
    };
    let first = sse::Event::default().retry(RETRY).id(begin.0.to_string());
    let events = stream::unfold((Some(first), stream), |(first, mut stream)| async move {
        let event = match first {
            Some(first) => first,
            None => stream.next().await?,
        };
        Some((Ok::<_, std::convert::Infallible>(event), (None, stream)))
    });
    let headers = [
        (CACHE_CONTROL, "no-store"),
        // Proxies must not buffer the stream.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Sse::new(events)).into_response())
}

fn with_id(position: Position) -> sse::Event {
    sse::Event::default().id(position.0.to_string())
}

fn keep_alive(app: &App) -> Interval {
    let period = app.options.keep_alive;
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The namespaces that the caller may read now; `None` if the caller no longer has access.
async fn visible(credentials: &Credentials, app: &App) -> Option<Namespaces> {
    let caller = credentials.caller(&app.callers).await?;
    let visible = caller.reach(Scope::Events, Permission::Read);
    (!visible.is_empty()).then_some(visible)
}

/// The events for one client.
struct EventStream {
    app: Arc<App>,
    listener: EventListener,
    filter: Filter,
    visible: Namespaces,
    credentials: Credentials,
    /// The last event that was read.
    last: Position,
    /// The last position that was sent.
    sent: Position,
    keep_alive: Interval,
}

impl EventStream {
    /// The next event; `None` at the end, after which the client reconnects.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            let event = tokio::select! {
                biased;
                () = self.app.shutdown.started() => return None,
                _ = self.keep_alive.tick() => {
                    // Roles change and tokens are revoked while a client listens.
                    self.visible = visible(&self.credentials, &self.app).await?;
                    return Some(self.keep_alive_event());
                }
                event = self.listener.next() => event.ok()?,
            };
            self.last = event.position;
            if let Some(encoded) = self.encode(&event).await? {
                self.sent = event.position;
                return Some(encoded);
            }
        }
    }

    /// A keep-alive: the current position if the client does not know it, otherwise a comment.
    fn keep_alive_event(&mut self) -> sse::Event {
        if self.last == self.sent {
            return sse::Event::DEFAULT_KEEP_ALIVE;
        }
        self.sent = self.last;
        with_id(self.last)
    }

    /// Encodes an event. `Some(None)` if the event does not match the filter or the client may not see it. `None`,
    /// which ends the stream, if the namespace of the event cannot be read.
    async fn encode(&self, event: &Arc<Event>) -> Option<Option<sse::Event>> {
        if !self.filter.matches(event) {
            return Some(None);
        }
        let namespace = event_scope::namespace(&self.app.event_scope, event)
            .await
            .ok()?;
        let is_visible = match &namespace {
            Some(namespace) => {
                self.visible.contains(namespace)
                    && self
                        .filter
                        .namespace
                        .as_ref()
                        .is_none_or(|requested| **requested == **namespace)
            }
            None => self.visible == Namespaces::All && self.filter.namespace.is_none(),
        };
        if !is_visible {
            return Some(None);
        }
        let document = EventDocument::new(event, namespace.as_deref());
        let encoded = with_id(event.position).event(event.kind.as_str());
        Some(Some(encoded.json_data(document).ok()?))
    }
}
