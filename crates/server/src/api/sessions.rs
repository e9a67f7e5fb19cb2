//! Conversations (sessions).

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{SearchScope, SessionError, SessionFilter};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{ActorName, Code, Sequence, Session, SessionId, SessionName};
use http::{StatusCode, header};
use serde::Deserialize;

use super::paging::{CURSOR, LIMIT, PageRequest};
use super::request::{self, etag};
use super::types::{
    ChangedSessionDocument, ForkDocument, HitDocument, NewSessionDocument, Page, SessionDocument,
};
use crate::app::App;
use crate::authorize::Permit;
use crate::problem::Problem;
use crate::routes::{Parameter, Route, RouteScope, Verb, permitted, schema_of};

/// Maximum number of search results.
const MAX_RESULTS: u64 = 100;

const IF_MATCH: Parameter = Parameter {
    name: "If-Match",
    place: "header",
    about: "The `ETag` of the conversation as it was read; if it has changed since, nothing is changed (412)",
    schema: schema_of::<Option<String>>,
};

const NAMESPACE: Parameter = Parameter {
    name: "namespace",
    place: "query",
    about: "Only conversations of this namespace",
    schema: schema_of::<Option<String>>,
};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: RouteScope::Any,
        summary: "List the conversations that the caller may see, newest first",
        parameters: &[
            LIMIT,
            CURSOR,
            NAMESPACE,
            Parameter {
                name: "name",
                place: "query",
                about: "Only conversations whose name contains this text, ignoring case",
                schema: schema_of::<Option<String>>,
            },
            Parameter {
                name: "actor",
                place: "query",
                about: "Only conversations with this actor",
                schema: schema_of::<Option<String>>,
            },
        ],
        body: None,
        answer: (200, Some(schema_of::<Page<SessionDocument>>)),
        handler: permitted!(list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: RouteScope::Body,
        summary: "Create a conversation",
        parameters: &[],
        body: Some(schema_of::<NewSessionDocument>),
        answer: (201, Some(schema_of::<SessionDocument>)),
        handler: permitted!(create),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/search",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: RouteScope::Any,
        summary: "Search messages by words, best match first",
        parameters: &[
            Parameter {
                name: "q",
                place: "query",
                about: "The words; `\"…\"` for a phrase, `*` at the end of a word for a prefix",
                schema: schema_of::<String>,
            },
            Parameter {
                name: "session",
                place: "query",
                about: "Only messages of this conversation",
                schema: schema_of::<Option<String>>,
            },
            Parameter {
                name: "role",
                place: "query",
                about: "Only messages of this role: `user`, `assistant`, `system` or `tool`",
                schema: schema_of::<Option<String>>,
            },
            LIMIT,
        ],
        body: None,
        answer: (200, Some(schema_of::<Page<HitDocument>>)),
        handler: permitted!(find),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{session}",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: RouteScope::Session,
        summary: "A conversation without its messages",
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<SessionDocument>)),
        handler: permitted!(show),
    },
    Route {
        verb: Verb::Patch,
        path: "/api/v1/sessions/{session}",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: RouteScope::Session,
        summary: "Rename a conversation",
        parameters: &[IF_MATCH],
        body: Some(schema_of::<ChangedSessionDocument>),
        answer: (200, Some(schema_of::<SessionDocument>)),
        handler: permitted!(change),
    },
    Route {
        verb: Verb::Delete,
        path: "/api/v1/sessions/{session}",
        scope: Scope::Sessions,
        permission: Permission::Manage,
        place: RouteScope::Session,
        summary: "Delete a conversation with its messages",
        parameters: &[IF_MATCH],
        body: None,
        answer: (204, None),
        handler: permitted!(delete),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions/{session}/forks",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: RouteScope::Session,
        summary: "Fork a conversation: create one with its first messages, in the same namespace",
        parameters: &[],
        body: Some(schema_of::<ForkDocument>),
        answer: (201, Some(schema_of::<SessionDocument>)),
        handler: permitted!(fork),
    },
];

#[derive(Debug, Deserialize)]
struct ListQuery {
    namespace: Option<String>,
    name: Option<String>,
    actor: Option<String>,
}

async fn list(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let paging = PageRequest::<SessionId>::read(&request)?;
    let query: ListQuery = request::query(request.uri())?;
    let sessions = app.sessions_of(permit.caller());
    let filter = SessionFilter {
        visible: permit.visible(),
        namespace: query.namespace.map(without_nul).transpose()?,
        name_contains: query.name.map(without_nul).transpose()?,
        actor: query.actor.as_deref().map(actor).transpose()?,
        ..SessionFilter::default()
    };
    let (before, count) = (paging.after, paging.query_limit());
    let rows = crate::blocking(move || sessions.page(&filter, before, count)).await?;
    let page: Page<SessionDocument> = paging.page(rows, |last| last.id);
    Ok(axum::Json(page).into_response())
}

/// Rejects texts with NUL characters, which not every database can search for.
fn without_nul(text: String) -> Result<String, Problem> {
    if text.contains('\0') {
        return Err(Problem::new(
            Code::MalformedRequest,
            "a parameter holds a character that cannot be stored",
        ));
    }
    Ok(text)
}

fn actor(name: &str) -> Result<ActorName, Problem> {
    name.parse::<ActorName>()
        .map_err(|error| Problem::new(Code::InvalidName, error.to_string()))
}

fn session_name(name: &str) -> Result<SessionName, Problem> {
    name.parse::<SessionName>()
        .map_err(|error| SessionError::from(error).into())
}

async fn create(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let new: NewSessionDocument = request::json(&app, request).await?;
    let namespace = match new.namespace {
        Some(namespace) => namespace,
        None => permit.caller().home(Scope::Sessions).ok_or_else(|| {
            Problem::new(Code::MalformedRequest, "`namespace` is missing")
                .with_hint("name the namespace of the new session")
        })?,
    };
    check_namespace(&namespace)?;
    permit.in_namespace(&app, &namespace).await?;
    let name = new.name.as_deref().map(session_name).transpose()?;
    let actor = new.actor.as_deref().map(actor).transpose()?;
    let sessions = app.sessions_of(permit.caller());
    let session = crate::blocking(move || {
        sessions.create_in(
            &namespace,
            name,
            actor,
            cleveragents_domain::DEFAULT_PROFILE,
        )
    })
    .await?;
    Ok(created_response(&session))
}

/// Checks that a text is a valid namespace.
fn check_namespace(text: &str) -> Result<(), Problem> {
    let name: Result<cleveragents_domain::Name, _> = format!("{text}/x").parse();
    match name {
        Ok(name) if name.namespace() == text && name.server().is_none() => Ok(()),
        _ => Err(Problem::new(
            Code::MalformedRequest,
            "`namespace` must consist of lowercase letters, digits, `_` or `-`",
        )),
    }
}

fn created_response(session: &Session) -> Response {
    let location = format!("/api/v1/sessions/{}", session.id);
    let headers = [
        (header::LOCATION, location),
        (header::ETAG, etag(session.version)),
    ];
    let body = axum::Json(SessionDocument::from(session));
    (StatusCode::CREATED, headers, body).into_response()
}

fn session_response(session: &Session) -> Response {
    let headers = [(header::ETAG, etag(session.version))];
    (headers, axum::Json(SessionDocument::from(session))).into_response()
}

async fn show(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let session = crate::blocking(move || sessions.get(id)).await?;
    Ok(session_response(&session))
}

async fn change(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let expect = request::expected(request.headers())?;
    let changed: ChangedSessionDocument = request::json(&app, request).await?;
    let name = session_name(&changed.name)?;
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let session = crate::blocking(move || sessions.rename(id, name, expect))
        .await
        .map_err(request::unexpected)?;
    Ok(session_response(&session))
}

async fn delete(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let expect = request::expected(request.headers())?;
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    crate::blocking(move || sessions.delete_expected(id, expect))
        .await
        .map_err(request::unexpected)?;
    app.forget_session(id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn fork(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let requested: ForkDocument = request::json(&app, request).await?;
    let name = requested.name.as_deref().map(session_name).transpose()?;
    let at = requested.at.map(Sequence);
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let session = crate::blocking(move || sessions.fork(id, at, name, None)).await?;
    Ok(created_response(&session))
}

#[derive(Debug, Deserialize)]
struct SearchQuery {
    q: String,
    session: Option<String>,
    role: Option<String>,
    limit: Option<u64>,
}

async fn find(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let query: SearchQuery = request::query(request.uri())?;
    let session = query.session.map(|id| id.parse::<SessionId>());
    let role = query.role.map(|role| role.parse());
    let scope = SearchScope {
        session: session
            .transpose()
            .map_err(|error| Problem::from_error(&error))?,
        role: role
            .transpose()
            .map_err(|error: cleveragents_domain::RoleError| SessionError::from(error))?,
        visible: permit.visible(),
    };
    let limit = query.limit.unwrap_or(MAX_RESULTS).clamp(1, MAX_RESULTS);
    let sessions = app.sessions_of(permit.caller());
    let hits = crate::blocking(move || sessions.search(&query.q, &scope, limit, None)).await?;
    Ok(axum::Json(Page {
        items: hits.iter().map(HitDocument::from).collect(),
        next_cursor: None,
    })
    .into_response())
}
