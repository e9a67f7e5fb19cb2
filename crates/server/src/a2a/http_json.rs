//! The HTTP+JSON binding below `/a2a/v1`: the path selects the method.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_a2a::http_json::{self, MatchedRequest, Verb};
use cleveragents_a2a::{Method, ProtocolVersion};
use http::header;
use http::request::Parts;
use serde_json::{Map, Value};

use super::binding;
use super::error::RequestError;
use super::handlers::{self, MethodCall, MethodResponse, MethodResult};
use crate::app::App;
use crate::authorize::Permit;
use crate::callers::Credentials;
use crate::problem::Problem;
use crate::request_body;

/// Answers a request.
pub(super) async fn answer(
    app: Arc<App>,
    permit: Permit,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let outcome = match http_json::method(matched_request(&permit, &parts)) {
        Ok((method, from_path)) => call(app, permit, &parts, body, method, from_path).await,
        Err(error) => Err(error.into()),
    };
    let mut response = outcome.unwrap_or_else(|error| error.http_json_response());
    binding::name_used_extensions(&parts.headers, &mut response);
    Ok(response)
}

/// A request as the router matched it.
fn matched_request<'a>(permit: &'a Permit, parts: &'a Parts) -> MatchedRequest<'a> {
    MatchedRequest {
        verb: match parts.method {
            http::Method::GET | http::Method::HEAD => Verb::Get,
            http::Method::DELETE => Verb::Delete,
            _ => Verb::Post,
        },
        path: parts.uri.path(),
        tenant: permit.parameter("tenant"),
        task: permit.parameter("task"),
        config: permit.parameter("config"),
    }
}

async fn call(
    app: Arc<App>,
    permit: Permit,
    parts: &Parts,
    body: axum::body::Body,
    method: Method,
    from_path: Map<String, Value>,
) -> Result<Response, RequestError> {
    let version = binding::version(parts)?;
    if version != ProtocolVersion::V1_0 {
        return Err(binding::unsupported_version());
    }
    binding::check_offered(&app, &parts.headers, method)?;
    let mut params = if parts.method == http::Method::POST {
        binding::check_content_type(&parts.headers)?;
        let bytes = request_body::read(&app, body).await?;
        http_json::read_body(method, &bytes)?
    } else {
        binding::query(&parts.uri)
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect()
    };
    http_json::merge(method, &mut params, from_path);
    let peer = permit.peer();
    let call = MethodCall {
        app,
        permit,
        method,
        version,
        params,
    };
    match handlers::handle(call).await? {
        MethodResult::Response(response) => {
            let body = match *response {
                MethodResponse::Empty(()) => "{}".to_owned(),
                response => binding::json(&response)?,
            };
            Ok(([(header::CONTENT_TYPE, http_json::MEDIA_TYPE)], body).into_response())
        }
        MethodResult::Updates(updates) => {
            let credentials = Credentials::from_request(&parts.headers, peer);
            let write = |event: binding::Event, update: binding::Update<'_>| match update {
                Ok(update) => event.json_data(update),
                Err(error) => event.json_data(error.error().http_json()),
            };
            Ok(binding::stream(credentials, updates, write))
        }
    }
}
