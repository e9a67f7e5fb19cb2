//! HTTP+JSON below `/a2a/v1`: the same methods, by path.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{Method as Verb, header};
use serde_json::{Map, Value, json};

use super::acts::{self, Ask, Outcome};
use super::binding;
use super::fault::{Fault, Reason};
use super::method::{Act, Version};
use crate::app::App;
use crate::callers::Again;
use crate::gate::{self, Permit};
use crate::problem::Problem;

/// Answers a request.
pub(super) async fn answer(
    app: Arc<App>,
    permit: Permit,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let outcome = match asked(&permit, &parts) {
        Ok((act, params)) => perform(app, permit, &parts, body, act, params).await,
        Err(fault) => Err(fault),
    };
    let mut response = outcome.unwrap_or_else(|fault| fault.rest_response());
    binding::extensions(&parts.headers, &mut response);
    Ok(response)
}

/// What a path asks for, with what the path says.
fn asked(permit: &Permit, parts: &Parts) -> Result<(Act, Map<String, Value>), Fault> {
    let mut params = Map::new();
    let mut put = |name: &str, value: &str| params.insert(name.to_owned(), value.into());
    let tenant = permit.parameter("tenant");
    if !tenant.is_empty() {
        put("tenant", tenant);
    }
    let path = parts.uri.path();
    let is_get = parts.method == Verb::GET || parts.method == Verb::HEAD;
    let (task, config) = (permit.parameter("task"), permit.parameter("config"));
    let act = if path.ends_with("/message:send") {
        Act::Send
    } else if path.ends_with("/message:stream") {
        Act::SendStreaming
    } else if path.ends_with("/extendedAgentCard") {
        Act::Card
    } else if task.is_empty() {
        Act::List
    } else if !config.is_empty() {
        put("taskId", task);
        put("id", config);
        if is_get {
            Act::PushGet
        } else {
            Act::PushDelete
        }
    } else if path.ends_with("/pushNotificationConfigs") {
        put("taskId", task);
        if is_get {
            Act::PushList
        } else {
            Act::PushCreate
        }
    } else {
        let (id, verb) = task.rsplit_once(':').unwrap_or((task, ""));
        put("id", id);
        match (verb, is_get) {
            ("", true) => Act::Get,
            ("subscribe", _) => Act::Subscribe,
            ("cancel", false) => Act::Cancel,
            _ => {
                return Err(Fault::new(
                    Reason::Method,
                    "a task can be looked at, and takes `:cancel` and `:subscribe`",
                ));
            }
        }
    };
    Ok((act, params))
}

async fn perform(
    app: Arc<App>,
    permit: Permit,
    parts: &Parts,
    body: axum::body::Body,
    act: Act,
    from_path: Map<String, Value>,
) -> Result<Response, Fault> {
    if binding::version(parts)? != Version::One {
        return Err(binding::unsupported());
    }
    binding::check_offered(&app, &parts.headers, act)?;
    let mut params = if parts.method == Verb::POST {
        binding::check_kind(&parts.headers)?;
        let bytes = gate::body(&app, body).await?;
        read(&bytes, matches!(act, Act::Cancel | Act::Subscribe))?
    } else {
        binding::query(&parts.uri)
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect()
    };
    // What the path says counts more; a body may spell it otherwise.
    for name in ["task_id", "tenant", "taskId"] {
        params.remove(name);
    }
    if act != Act::PushCreate {
        params.remove("id");
    }
    params.extend(from_path);
    let method = act
        .method()
        .ok_or_else(|| Fault::new(Reason::Internal, "the method is not in the table"))?;
    let peer = permit.peer();
    let ask = Ask {
        app,
        permit,
        permission: method.permission,
        params,
    };
    Ok(match acts::perform(act, ask).await? {
        Outcome::Value(value) => {
            let value = if value.is_null() { json!({}) } else { value };
            let kind = [(header::CONTENT_TYPE, "application/a2a+json")];
            (kind, value.to_string()).into_response()
        }
        Outcome::Updates(updates) => {
            let again = Again::of(&parts.headers, peer);
            binding::events(again, updates, |update| match update {
                Ok(update) => update.clone(),
                Err(fault) => fault.rest(),
            })
        }
    })
}

fn read(bytes: &[u8], may_be_empty: bool) -> Result<Map<String, Value>, Fault> {
    if may_be_empty && bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Fault::new(Reason::Request, "the body must be an object")),
        Err(_) => Err(Fault::new(Reason::Parse, "the body is not JSON")),
    }
}
