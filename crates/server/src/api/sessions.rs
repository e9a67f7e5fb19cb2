//! Conversations and their messages.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, Role, Sequence};
use cleveragents_store::sessions::SessionFilter;
use http::{StatusCode, header};
use serde::Deserialize;

use super::request::{self, etag};
use super::types::{
    MessageDocument, NewMessageDocument, NewSessionDocument, Page, SessionDocument, StoredDocument,
};
use crate::app::App;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::routes::{Parameter, Place, Route, Verb, permitted, schema_of};

/// How many things a page holds when nothing is said, and at most.
const PAGE: u64 = 50;
const PAGE_MAXIMUM: u64 = 500;

static PAGING: &[Parameter] = &[
    Parameter {
        name: "limit",
        place: "query",
        about: "How many to give, 50 when left out and 500 at most",
        schema: schema_of::<Option<u64>>,
    },
    Parameter {
        name: "cursor",
        place: "query",
        about: "The `next_cursor` of the page before",
        schema: schema_of::<Option<String>>,
    },
];

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: Place::Any,
        summary: "The conversations that the caller may see, the newest first",
        parameters: PAGING,
        body: None,
        answer: (200, Some(schema_of::<Page<SessionDocument>>)),
        handler: permitted!(list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: Place::Body,
        summary: "Makes a conversation",
        parameters: &[],
        body: Some(schema_of::<NewSessionDocument>),
        answer: (201, Some(schema_of::<SessionDocument>)),
        handler: permitted!(create),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{session}",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: Place::Session,
        summary: "A conversation without its messages",
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<SessionDocument>)),
        handler: permitted!(show),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{session}/messages",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: Place::Session,
        summary: "The messages of a conversation, in order",
        parameters: PAGING,
        body: None,
        answer: (200, Some(schema_of::<Page<MessageDocument>>)),
        handler: permitted!(messages),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions/{session}/messages",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: Place::Session,
        summary: "Appends a message; it is on disk when the answer comes",
        parameters: &[],
        body: Some(schema_of::<NewMessageDocument>),
        answer: (201, Some(schema_of::<StoredDocument>)),
        handler: permitted!(append),
    },
];

#[derive(Debug, Deserialize)]
struct Paging {
    limit: Option<u64>,
    cursor: Option<u64>,
}

impl Paging {
    fn read(request: &Request) -> Result<(u64, u64), Problem> {
        let paging: Self = request::query(request.uri())?;
        let limit = paging.limit.unwrap_or(PAGE).clamp(1, PAGE_MAXIMUM);
        Ok((limit, paging.cursor.unwrap_or_default()))
    }
}

async fn list(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let (limit, offset) = Paging::read(&request)?;
    let sessions = app.sessions_of(permit.caller());
    let filter = SessionFilter {
        visible: permit.visible(),
        limit: Some(limit),
        offset,
        ..SessionFilter::default()
    };
    let page = crate::blocking(move || {
        let (page, _) = sessions.list(&filter)?;
        page.sessions
            .iter()
            .map(|listed| sessions.get(listed.id))
            .collect::<Result<Vec<_>, _>>()
            .map(|found| (found, page.matching))
    })
    .await?;
    let (found, matching) = page;
    let next = offset + found.len() as u64;
    Ok(axum::Json(Page {
        items: found.iter().map(SessionDocument::from).collect(),
        next_cursor: (next < matching && !found.is_empty()).then(|| next.to_string()),
    })
    .into_response())
}

async fn create(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let new: NewSessionDocument = request::json(&app, request).await?;
    let namespace = match new.namespace {
        Some(namespace) => namespace,
        None => permit.caller().home(Scope::Sessions).ok_or_else(|| {
            Problem::new(Code::MalformedRequest, "`namespace` is missing")
                .with_hint("name the namespace in which the session is made")
        })?,
    };
    permit.in_namespace(&app, &namespace).await?;
    let wrong = |error: &dyn cleveragents_domain::Diagnose| Problem::of(error);
    let name = new
        .name
        .map(|name| name.parse::<cleveragents_domain::SessionName>())
        .transpose()
        .map_err(|error| Problem::new(Code::MalformedRequest, error.to_string()))?;
    let actor = new
        .actor
        .map(|actor| actor.parse::<cleveragents_domain::ActorName>())
        .transpose()
        .map_err(|error| Problem::new(Code::InvalidName, error.to_string()))?;
    let sessions = app.sessions_of(permit.caller());
    let session = crate::blocking(move || {
        sessions.create_in(
            &namespace,
            name,
            actor,
            cleveragents_domain::DEFAULT_PROFILE,
        )
    })
    .await
    .map_err(|error| wrong(&error))?;
    let place = format!("/api/v1/sessions/{}", session.id);
    let headers = [
        (header::LOCATION, place),
        (header::ETAG, etag(session.version)),
    ];
    let body = axum::Json(SessionDocument::from(&session));
    Ok((StatusCode::CREATED, headers, body).into_response())
}

async fn show(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let session = crate::blocking(move || sessions.get(id)).await?;
    let headers = [(header::ETAG, etag(session.version))];
    Ok((headers, axum::Json(SessionDocument::from(&session))).into_response())
}

async fn messages(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let (limit, from) = Paging::read(&request)?;
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let found = crate::blocking(move || sessions.messages(id, Sequence(from), limit + 1)).await?;
    let shown = found
        .len()
        .min(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = (found.len() > shown).then(|| from + limit);
    Ok(axum::Json(Page {
        items: found
            .iter()
            .take(shown)
            .map(MessageDocument::from)
            .collect(),
        next_cursor: next.map(|next| next.to_string()),
    })
    .into_response())
}

async fn append(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let new: NewMessageDocument = request::json(&app, request).await?;
    let role: Role = new
        .role
        .parse()
        .map_err(|error: cleveragents_domain::RoleError| {
            Problem::new(Code::MalformedRequest, error.to_string())
        })?;
    let message = app
        .sessions_of(permit.caller())
        .message(role, new.content, new.metadata)?;
    let id = message.id();
    let stored = app
        .appender
        .append(permit.session()?, vec![message])
        .await?;
    let sequence = stored.first().copied().unwrap_or(Sequence(0));
    let body = axum::Json(StoredDocument {
        id: id.to_string(),
        sequence: sequence.0,
    });
    Ok((StatusCode::CREATED, body).into_response())
}
