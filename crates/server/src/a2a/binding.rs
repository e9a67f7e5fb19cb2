//! Shared parts of both bindings: versions, content types, extensions and streams.

use axum::response::sse::Sse;
use axum::response::{IntoResponse as _, Response};
use cleveragents_a2a::{
    EXTENSIONS_HEADER, Error, ErrorReason, Method, ProtocolVersion, StreamResponse, VERSION_HEADER,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use serde::Serialize;
use tokio::time::Instant;

use super::error::RequestError;
use super::extension;
use super::stream::UpdateStream;
use crate::app::App;
use crate::callers::Credentials;
use crate::options::Conformance;

pub(super) use axum::response::sse::Event;

/// An update to write as an event, or the error that ends the stream.
pub(super) type Update<'a> = Result<&'a StreamResponse, &'a RequestError>;

/// The extension that the card requires in the `extension` profile of the conformance kit.
pub(super) const REQUIRED_EXTENSION: &str = "urn:a2a:tck:required-extension";

/// The protocol version of a client.
pub(super) fn version(parts: &Parts) -> Result<ProtocolVersion, RequestError> {
    let requested = match parts.headers.get(VERSION_HEADER) {
        Some(value) => Some(value.to_str().unwrap_or("?").to_owned()),
        None => query(&parts.uri)
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER))
            .map(|(_, value)| value),
    };
    ProtocolVersion::of_request(requested.as_deref()).ok_or_else(unsupported_version)
}

/// The error for a version that this server or the method does not support.
pub(super) fn unsupported_version() -> RequestError {
    let message = "this version of A2A is not supported; send `A2A-Version: 1.0`";
    Error::new(ErrorReason::VersionNotSupported, message)
        .with("supportedVersions", "1.0, 0.3")
        .into()
}

/// The query parameters.
pub(super) fn query(uri: &Uri) -> Vec<(String, String)> {
    let parsed = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    parsed.map(|query| query.0).unwrap_or_default()
}

/// Checks that the content type of a body is JSON, if the client names one.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), RequestError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_json = ["application/json", "application/a2a+json"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(kind));
    if is_json {
        return Ok(());
    }
    Err(RequestError::new(
        ErrorReason::ContentTypeNotSupported,
        "the body must be application/json",
    ))
}

/// Rejects methods that the agent card does not offer. The card offers all methods, except in profiles of the
/// conformance kit.
pub(super) fn check_offered(
    app: &App,
    headers: &HeaderMap,
    method: Method,
) -> Result<(), RequestError> {
    match app.options.conformance {
        None | Some(Conformance::Full) => Ok(()),
        Some(Conformance::Minimal) => match method {
            Method::CreatePushConfig
            | Method::GetPushConfig
            | Method::ListPushConfigs
            | Method::DeletePushConfig => Err(RequestError::new(
                ErrorReason::PushNotificationNotSupported,
                "this agent does not support push notifications",
            )),
            Method::SendStreamingMessage
            | Method::SubscribeToTask
            | Method::GetExtendedAgentCard => Err(RequestError::new(
                ErrorReason::UnsupportedOperation,
                "the agent card does not offer this method",
            )),
            Method::SendMessage | Method::GetTask | Method::ListTasks | Method::CancelTask => {
                Ok(())
            }
        },
        Some(Conformance::Extension) if requests_extension(headers, REQUIRED_EXTENSION) => Ok(()),
        Some(Conformance::Extension) => Err(Error::new(
            ErrorReason::ExtensionSupportRequired,
            "a required extension is missing; send `A2A-Extensions`",
        )
        .with("extension", REQUIRED_EXTENSION)
        .into()),
    }
}

/// True if the client requests an extension.
fn requests_extension(headers: &HeaderMap, uri: &str) -> bool {
    headers
        .get_all(EXTENSIONS_HEADER)
        .iter()
        .chain(headers.get_all("x-a2a-extensions"))
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|name| name.trim() == uri)
}

/// Adds a header with the requested extensions that this server implements.
pub(super) fn name_used_extensions(request_headers: &HeaderMap, response: &mut Response) {
    if requests_extension(request_headers, extension::URI) {
        let used = HeaderValue::from_static(extension::URI);
        response.headers_mut().insert(EXTENSIONS_HEADER, used);
    }
}

pub(super) fn json(body: &impl Serialize) -> Result<String, RequestError> {
    serde_json::to_string(body)
        .map_err(|error| RequestError::new(ErrorReason::Internal, error.to_string()))
}

/// A stream with one event per update, written by a binding. Ends when the caller may no longer see the task.
pub(super) fn stream(
    credentials: Credentials,
    updates: UpdateStream,
    write: impl Fn(Event, Update<'_>) -> Result<Event, axum::Error> + Send + 'static,
) -> Response {
    let check_at = Instant::now() + updates.keep_alive();
    let begin = (updates, write, credentials, check_at);
    let events = futures_util::stream::unfold(begin, |mut state| async {
        let (updates, write, credentials, check_at) = &mut state;
        if Instant::now() >= *check_at {
            if !updates.is_permitted(credentials).await {
                return None;
            }
            *check_at = Instant::now() + updates.keep_alive();
        }
        let event = match tokio::time::timeout_at(*check_at, updates.next()).await {
            Err(_) => Ok(Event::default().comment("alive")),
            Ok(None) => return None,
            Ok(Some(Ok(update))) => write(Event::default(), Ok(&update)),
            Ok(Some(Err(error))) => write(Event::default().event("error"), Err(&error)),
        };
        Some((event, state))
    });
    let headers = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (headers, Sse::new(events)).into_response()
}
