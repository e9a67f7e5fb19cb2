//! What both bindings share: versions, kinds of bodies, and answers that go on.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::Value;
use tokio::time::Instant;

use super::extension;
use super::fault::{Fault, Reason};
use super::method::{Act, Version};
use super::stream::Updates;
use crate::app::App;
use crate::callers::Again;
use crate::options::Conformance;

/// The version that a caller speaks.
pub(super) fn version(parts: &Parts) -> Result<Version, Fault> {
    let named = parts.headers.get("a2a-version");
    let named = match named {
        Some(value) => Some(value.to_str().unwrap_or("?").to_owned()),
        None => query(&parts.uri)
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("a2a-version"))
            .map(|(_, value)| value),
    };
    Version::read(named.as_deref()).ok_or_else(unsupported)
}

/// That a version is not spoken here.
pub(super) fn unsupported() -> Fault {
    Fault::new(
        Reason::Version,
        "this version of A2A is not spoken here; send `A2A-Version: 1.0`",
    )
    .with("supportedVersions", "1.0, 0.3")
}

/// The parameters after the question mark.
pub(super) fn query(uri: &Uri) -> Vec<(String, String)> {
    let found = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    found.map(|found| found.0).unwrap_or_default()
}

/// Checks that a body is JSON, as far as its sender says so.
pub(super) fn check_kind(headers: &HeaderMap) -> Result<(), Fault> {
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
    Err(Fault::new(
        Reason::ContentType,
        "the body must be application/json",
    ))
}

/// Refuses what the agent does not say that it can do. A server says everything, unless a profile of the conformance
/// kit has it say less.
pub(super) fn check_offered(app: &App, headers: &HeaderMap, act: Act) -> Result<(), Fault> {
    match app.options.conformance {
        None | Some(Conformance::Full) => Ok(()),
        Some(Conformance::Minimal) => match act {
            Act::PushCreate | Act::PushGet | Act::PushList | Act::PushDelete => Err(Fault::new(
                Reason::PushNotSupported,
                "this agent pushes nothing",
            )),
            Act::SendStreaming | Act::Subscribe | Act::Card => Err(Fault::new(
                Reason::UnsupportedOperation,
                "this agent does not say that it can do this",
            )),
            Act::Send | Act::Get | Act::List | Act::Cancel => Ok(()),
        },
        Some(Conformance::Extension) if knows(headers, REQUIRED_EXTENSION) => Ok(()),
        Some(Conformance::Extension) => Err(Fault::new(
            Reason::ExtensionRequired,
            "callers must know an extension; send `A2A-Extensions`",
        )
        .with("extension", REQUIRED_EXTENSION)),
    }
}

/// The extension that the conformance kit has agents require.
pub(super) const REQUIRED_EXTENSION: &str = "urn:a2a:tck:required-extension";

/// Whether a caller names an extension.
fn knows(headers: &HeaderMap, uri: &str) -> bool {
    headers
        .get_all("a2a-extensions")
        .iter()
        .chain(headers.get_all("x-a2a-extensions"))
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.trim() == uri)
}

/// Tells which of the extensions that a caller asked for are used.
pub(super) fn extensions(asked: &HeaderMap, response: &mut Response) {
    if knows(asked, extension::URI) {
        let used = HeaderValue::from_static(extension::URI);
        response.headers_mut().insert("a2a-extensions", used);
    }
}

/// An answer that goes on: one event for each update, as a binding writes it. Ends when the caller may not listen any
/// more.
pub(super) fn events(
    again: Again,
    updates: Updates,
    write: impl Fn(Result<&Value, &Fault>) -> Value + Send + 'static,
) -> Response {
    let asked_at = Instant::now() + updates.pulse();
    let begin = (updates, write, again, asked_at);
    let stream = futures_util::stream::unfold(begin, |mut told| async {
        let (updates, write, again, asked_at) = &mut told;
        if Instant::now() >= *asked_at {
            if !updates.may_be_heard(again).await {
                return None;
            }
            *asked_at = Instant::now() + updates.pulse();
        }
        let bytes = match tokio::time::timeout_at(*asked_at, updates.next()).await {
            Err(_) => Bytes::from_static(b": alive\n\n"),
            Ok(None) => return None,
            Ok(Some(Ok(update))) => Bytes::from(format!("data: {}\n\n", write(Ok(&update)))),
            Ok(Some(Err(fault))) => {
                Bytes::from(format!("event: error\ndata: {}\n\n", write(Err(&fault))))
            }
        };
        Some((Ok::<_, std::convert::Infallible>(bytes), told))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(stream)).into_response()
}
