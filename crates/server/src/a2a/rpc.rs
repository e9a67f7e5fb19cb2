//! JSON-RPC: one endpoint for the methods of 1.0, those of 0.3, and the operations of the program.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::Code;
use http::request::Parts;
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use super::acts::{self, Ask, Outcome};
use super::fault::{Fault, Reason};
use super::method::{Act, METHODS, Method, Version};
use super::{binding, extension, old};
use crate::app::App;
use crate::callers::Again;
use crate::gate::{self, Permit};
use crate::problem::Problem;

/// What a look at the endpoint gives.
pub(super) async fn look(_app: Arc<App>, _request: Request) -> Result<Response, Problem> {
    let problem = Problem::new(Code::MalformedRequest, "JSON-RPC is sent here with POST")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
        .with_hint("`/.well-known/agent-card.json` tells how to call");
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(header::ALLOW, http::HeaderValue::from_static("POST"));
    Ok(response)
}

/// Answers a request.
pub(super) async fn answer(
    app: Arc<App>,
    permit: Permit,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let read = match binding::check_kind(&parts.headers) {
        Ok(()) => gate::body(&app, body).await.map_err(Fault::from),
        Err(fault) => Err(fault),
    };
    let (id, outcome) = match read.and_then(|bytes| Envelope::read(&bytes)) {
        Err(fault) => (Value::Null, Err(fault)),
        Ok(envelope) => {
            let id = envelope.id.clone();
            (id, dispatch(app, permit, &parts, envelope).await)
        }
    };
    let mut response = match outcome {
        Ok(response) => response,
        Err(fault) => fault.rpc_response(&id),
    };
    binding::extensions(&parts.headers, &mut response);
    Ok(response)
}

/// A request of JSON-RPC.
struct Envelope {
    id: Value,
    method: Result<(String, Map<String, Value>), Fault>,
}

impl Envelope {
    fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|_| Fault::new(Reason::Parse, "the body is not JSON"))?;
        let wrong = |why: &str| Fault::new(Reason::Request, why);
        let Value::Object(mut fields) = value else {
            return Err(wrong("a request is one object; batches are not taken"));
        };
        let id = match fields.remove("id") {
            None | Some(Value::Null) => Value::Null,
            Some(id @ Value::String(_)) => id,
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.into(),
            Some(_) => return Err(wrong("`id` must be a text or a whole number")),
        };
        let method = match (fields.remove("jsonrpc"), fields.remove("method")) {
            (Some(Value::String(version)), Some(Value::String(method))) if version == "2.0" => {
                match fields.remove("params") {
                    None | Some(Value::Null) => Ok((method, Map::new())),
                    Some(Value::Object(params)) => Ok((method, params)),
                    Some(_) => Err(Fault::params("`params` must be an object")),
                }
            }
            _ => Err(wrong("`jsonrpc` must be \"2.0\" and `method` a text")),
        };
        Ok(Self { id, method })
    }
}

/// The method of a name, and the version that has it.
fn method(name: &str) -> Option<(&'static Method, Version)> {
    METHODS.iter().find_map(|method| {
        if method.name == name {
            Some((method, Version::One))
        } else if method.old_name == Some(name) {
            Some((method, Version::Old))
        } else {
            None
        }
    })
}

async fn dispatch(
    app: Arc<App>,
    permit: Permit,
    parts: &Parts,
    envelope: Envelope,
) -> Result<Response, Fault> {
    let id = envelope.id;
    let (name, params) = envelope.method?;
    if let Some(operation) = name.strip_prefix(extension::PREFIX) {
        binding::version(parts)?;
        let result = extension::call(&app, &permit, operation, params).await?;
        return Ok(success(&id, &result));
    }
    let Some((method, spoken)) = method(&name) else {
        let shown: String = name.chars().take(64).collect();
        return Err(Fault::new(
            Reason::Method,
            format!("there is no method `{shown}`"),
        ));
    };
    if binding::version(parts)? != spoken {
        return Err(binding::unsupported());
    }
    let act = method.act;
    binding::check_offered(&app, &parts.headers, act)?;
    let is_old = spoken == Version::Old;
    let params = if is_old {
        old::params(act, &params)?
    } else {
        params
    };
    let peer = permit.peer();
    let ask = Ask {
        app,
        permit,
        permission: method.permission,
        params,
    };
    let shaped = move |act: Act, value: &Value| {
        if is_old {
            old::result(act, value)
        } else {
            value.clone()
        }
    };
    Ok(match acts::perform(act, ask).await? {
        Outcome::Value(value) => success(&id, &shaped(act, &value)),
        Outcome::Updates(updates) => {
            let again = Again::of(&parts.headers, peer);
            binding::events(again, updates, move |update| match update {
                Ok(update) => json!({"jsonrpc": "2.0", "id": id, "result": shaped(act, update)}),
                Err(fault) => json!({"jsonrpc": "2.0", "id": id, "error": fault.rpc()}),
            })
        }
    })
}

fn success(id: &Value, result: &Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, body.to_string()).into_response()
}
