//! JSON-RPC: one endpoint for the methods of A2A 1.0 and 0.3, and for the operations of the program.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_a2a::json_rpc::{self, Success};
use cleveragents_a2a::{ErrorReason, Method, ProtocolVersion, v0_3};
use cleveragents_domain::Code;
use http::request::Parts;
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::RequestError;
use super::handlers::{self, MethodCall, MethodResult};
use super::{binding, extension};
use crate::app::App;
use crate::authorize::Permit;
use crate::callers::Credentials;
use crate::problem::Problem;
use crate::request_body;

/// Responds to a GET, which JSON-RPC does not use.
pub(super) async fn explain(_app: Arc<App>, _request: Request) -> Result<Response, Problem> {
    let problem = Problem::new(
        Code::MalformedRequest,
        "this JSON-RPC endpoint supports only POST",
    )
    .with_status(StatusCode::METHOD_NOT_ALLOWED)
    .with_hint("`/.well-known/agent-card.json` describes how to call this agent");
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
    let (id, outcome) = match read(&app, &parts, body).await {
        Err(error) => (Value::Null, Err(error)),
        Ok(request) => {
            let outcome = call(app, permit, &parts, request.call, &request.id).await;
            (request.id, outcome)
        }
    };
    let mut response = outcome.unwrap_or_else(|error| error.json_rpc_response(&id));
    binding::name_used_extensions(&parts.headers, &mut response);
    Ok(response)
}

async fn read(
    app: &App,
    parts: &Parts,
    body: axum::body::Body,
) -> Result<json_rpc::Request, RequestError> {
    binding::check_content_type(&parts.headers)?;
    let body = request_body::read(app, body).await?;
    Ok(json_rpc::Request::parse(&body)?)
}

async fn call(
    app: Arc<App>,
    permit: Permit,
    parts: &Parts,
    call: Result<json_rpc::Call, cleveragents_a2a::Error>,
    id: &Value,
) -> Result<Response, RequestError> {
    let json_rpc::Call {
        method: name,
        params,
    } = call?;
    if let Some(operation) = name.strip_prefix(extension::PREFIX) {
        binding::version(parts)?;
        let result = extension::call(&app, &permit, operation, params).await?;
        return success(id, &result);
    }
    let Some((method, version)) = Method::from_name(&name) else {
        let shortened: String = name.chars().take(64).collect();
        return Err(RequestError::new(
            ErrorReason::MethodNotFound,
            format!("method `{shortened}` does not exist"),
        ));
    };
    if binding::version(parts)? != version {
        return Err(binding::unsupported_version());
    }
    binding::check_offered(&app, &parts.headers, method)?;
    let params = match version {
        ProtocolVersion::V1_0 => params,
        ProtocolVersion::V0_3 => v0_3::params_to_v1(method, &params)?,
    };
    let peer = permit.peer();
    let call = MethodCall {
        app,
        permit,
        method,
        version,
        params,
    };
    match handlers::handle(call).await? {
        MethodResult::Response(response) => match version {
            ProtocolVersion::V1_0 => success(id, &response),
            ProtocolVersion::V0_3 => success(id, &v0_3::result_from_v1(method, &json!(response))),
        },
        MethodResult::Updates(updates) => {
            let credentials = Credentials::from_request(&parts.headers, peer);
            let id = id.clone();
            let write =
                move |event: binding::Event, update: binding::Update<'_>| match (update, version) {
                    (Ok(update), ProtocolVersion::V1_0) => {
                        event.json_data(Success::new(&id, update))
                    }
                    (Ok(update), ProtocolVersion::V0_3) => {
                        let update = v0_3::result_from_v1(method, &json!(update));
                        event.json_data(Success::new(&id, &update))
                    }
                    (Err(error), _) => event.json_data(json_rpc::failure(&id, error.error())),
                };
            Ok(binding::stream(credentials, updates, write))
        }
    }
}

fn success<T: Serialize>(id: &Value, result: &T) -> Result<Response, RequestError> {
    let body = binding::json(&Success::new(id, result))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
