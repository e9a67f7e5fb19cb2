//! Reads requests: JSON bodies, query parameters, versions in headers.

use axum::body::Body;
use axum::extract::{Query, Request};
use cleveragents_application::ExpectedVersion;
use cleveragents_domain::{Code, Version};
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;
use crate::request_body;

/// The body of a request as JSON.
pub(crate) async fn json<T: DeserializeOwned>(app: &App, request: Request) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    parse(&whole(app, &parts.headers, body).await?)
}

/// The complete bytes of a body, whose content type must be JSON or missing.
pub(crate) async fn whole(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<bytes::Bytes, Problem> {
    let is_json = headers.get(CONTENT_TYPE).is_none_or(|kind| {
        let kind = kind.to_str().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(
            Problem::new(Code::MalformedRequest, "the body must be application/json")
                .with_status(http::StatusCode::UNSUPPORTED_MEDIA_TYPE),
        );
    }
    request_body::read(app, body).await
}

/// Reads JSON.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        Problem::new(
            Code::MalformedRequest,
            format!("the body cannot be read: {error}"),
        )
    })
}

/// The query parameters.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Query::try_from_uri(uri)
        .map(|Query(query)| query)
        .map_err(|error| {
            Problem::new(
                Code::MalformedRequest,
                format!("a parameter cannot be read: {}", error.body_text()),
            )
        })
}

/// The version that a change expects, from `If-Match`.
pub(crate) fn expected(headers: &HeaderMap) -> Result<ExpectedVersion, Problem> {
    let Some(value) = headers.get(IF_MATCH) else {
        return Ok(ExpectedVersion::Any);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(ExpectedVersion::Any);
    }
    let version = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .and_then(|text| text.parse().ok());
    version
        .map(|version| ExpectedVersion::Exactly(Version(version)))
        .ok_or_else(|| {
            Problem::new(
                Code::MalformedRequest,
                "`If-Match` does not hold a version of this server",
            )
            .with_hint("send the `ETag` of the response that you read")
        })
}

/// The problem of a failed change; for a version conflict the status is 412.
pub(crate) fn unexpected(error: cleveragents_application::SessionError) -> Problem {
    let problem = Problem::from(error);
    if problem.code == Code::VersionConflict.as_str() {
        return problem.with_status(http::StatusCode::PRECONDITION_FAILED);
    }
    problem
}

pub(crate) fn etag(version: Version) -> String {
    format!("\"{version}\"")
}
