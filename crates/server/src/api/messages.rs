//! The messages of a conversation.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{AppendOutcome, AppendRequest, SessionError};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, NewMessage, Role, Sequence};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::paging::{CURSOR, LIMIT, PageRequest};
use super::types::{
    MessageDocument, NewMessageDocument, NewMessagesDocument, Page, StoredMessagesDocument,
};
use super::{idempotency, request};
use crate::app::App;
use crate::authorize::Permit;
use crate::problem::Problem;
use crate::routes::{Route, RouteScope, Verb, permitted, permitted_with_keys, schema_of};

/// Maximum number of messages of one request.
const MAX_MESSAGES: usize = 1_000;

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{session}/messages",
        scope: Scope::Sessions,
        permission: Permission::Read,
        place: RouteScope::Session,
        summary: "List the messages of a conversation, in order",
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: (200, Some(schema_of::<Page<MessageDocument>>)),
        handler: permitted!(list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions/{session}/messages",
        scope: Scope::Sessions,
        permission: Permission::Write,
        place: RouteScope::Session,
        summary: "Append a message or a list of messages; they are durable when the response arrives",
        parameters: &[],
        body: Some(schema_of::<NewMessagesDocument>),
        answer: (201, Some(schema_of::<StoredMessagesDocument>)),
        handler: permitted_with_keys!(append),
    },
];

async fn list(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let paging = PageRequest::<u64>::read(&request)?;
    let from = Sequence(paging.after.map_or(0, |last| last.saturating_add(1)));
    // Databases hold signed 64-bit numbers.
    let from = Sequence(from.0.min(i64::MAX.cast_unsigned()));
    let (sessions, id) = (app.sessions_of(permit.caller()), permit.session()?);
    let count = paging.query_limit();
    let rows = crate::blocking(move || sessions.messages(id, from, count)).await?;
    let page: Page<MessageDocument> = paging.page(rows, |last| last.sequence.0);
    Ok(axum::Json(page).into_response())
}

async fn append(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = request::whole(&app, &parts.headers, body).await?;
    let key = idempotency::key(&app, permit.caller(), &parts, &bytes)?;
    let is_list = bytes.trim_ascii_start().starts_with(b"[");
    let new: Vec<NewMessageDocument> = if is_list {
        request::parse(&bytes)?
    } else {
        vec![request::parse(&bytes)?]
    };
    if new.is_empty() || new.len() > MAX_MESSAGES {
        return Err(Problem::new(
            Code::MalformedRequest,
            format!("a list must have 1 to {MAX_MESSAGES} messages"),
        ));
    }
    let messages = new
        .into_iter()
        .map(|new| message(new, app.options.max_message_bytes))
        .collect::<Result<_, _>>()?;
    let session = permit.session()?;
    let append = AppendRequest::new(session, messages, is_list, key);
    match app.appender.append(append).await? {
        AppendOutcome::Stored(body) => {
            let kind = [(CONTENT_TYPE, "application/json")];
            Ok((StatusCode::CREATED, kind, body).into_response())
        }
        AppendOutcome::NoSession => Err(SessionError::NotFound(session.to_string()).into()),
        AppendOutcome::Repeated(claim) => idempotency::repeated(claim),
    }
}

fn message(new: NewMessageDocument, limit: usize) -> Result<NewMessage, Problem> {
    let role: Role = new
        .role
        .parse()
        .map_err(|error: cleveragents_domain::RoleError| SessionError::from(error))?;
    let message = NewMessage::new(role, new.content, new.metadata, limit);
    Ok(message.map_err(SessionError::from)?)
}
