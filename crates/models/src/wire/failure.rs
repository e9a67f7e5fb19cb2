//! Classifies failed responses of providers, whose error formats differ, by [`ErrorKind`].

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{Target, text};
use crate::error::{ErrorKind, ModelError};
use crate::limits::retry_after;
use crate::redact::Redactor;

/// Maximum number of characters of a provider's message that are shown.
const MAX_MESSAGE_LENGTH: usize = 600;

/// A failure as received: a status and body, or an event in the middle of a stream.
pub(crate) struct ErrorReply<'a> {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) body: Value,
}

/// Converts a failed response into an error.
pub(crate) fn failure(target: &Target, reply: &ErrorReply<'_>, redactor: &Redactor) -> ModelError {
    let message = message(&reply.body);
    let pause = requested_pause(reply.headers);
    let kind = kind(reply, &message, pause);
    let shown: String = redactor
        .text(&message)
        .chars()
        .take(MAX_MESSAGE_LENGTH)
        .collect();
    let status = reply.status.filter(|_| shown.is_empty());
    let shown = match status {
        Some(status) => format!("the provider answered with status {status}"),
        None if shown.is_empty() => "the provider reported a failure".to_owned(),
        None => shown,
    };
    let error = target.error(kind, shown).with_retry_after(pause);
    match reply.status {
        Some(status) => error.with_status(status),
        None => error,
    }
}

/// Returns the message of the provider, which may be at different places of the body.
fn message(body: &Value) -> String {
    let body = body
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(body);
    let places = [
        "/error/message",
        "/response/error/message",
        "/message",
        "/error",
        "/detail",
        "/detail/0/msg",
    ];
    let reported = places
        .iter()
        .map(|place| text(body, place))
        .find(|text| !text.is_empty());
    match (reported, body) {
        (Some(reported), _) => reported.to_owned(),
        (None, Value::String(plain)) => plain.trim().to_owned(),
        (None, _) => String::new(),
    }
}

fn kind(reply: &ErrorReply<'_>, message: &str, retry_after: Option<Duration>) -> ErrorKind {
    let body = &reply.body;
    let body = body
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(body);
    let words = [
        "/error/type",
        "/error/code",
        "/error/status",
        "/type",
        "/code",
        "/response/error/code",
    ]
    .map(|place| text(body, place).to_ascii_lowercase())
    .join(" ");
    let message = message.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let mentions = |parts: &[&str]| parts.iter().any(|part| message.contains(part));

    if has(&[
        "context_length_exceeded",
        "request_too_large",
        "string_above_max_length",
    ]) || mentions(&[
        "maximum context length",
        "context length exceeded",
        "exceeds the context",
        "exceed context limit",
        "exceed the configured limit",
        "exceeds the maximum number of tokens",
        "prompt is too long",
        "input is too long",
        "input token count",
        "exceed_context_size",
    ]) {
        return ErrorKind::ContextTooLong;
    }
    if has(&["content_filter", "content_policy", "responsibleaipolicy"]) {
        return ErrorKind::ContentFiltered;
    }
    if has(&["insufficient_quota", "billing"]) || mentions(&["credit balance is too low"]) {
        return ErrorKind::QuotaExceeded;
    }
    // An event within a stream has no status of its own, but may contain one.
    let status_in_body = || {
        let code = body.pointer("/error/code").or_else(|| body.get("code"))?;
        u16::try_from(code.as_u64()?).ok()
    };
    match reply.status.or_else(status_in_body) {
        Some(400..=499) if mentions(&["api key not valid", "invalid api key"]) => ErrorKind::Auth,
        Some(status) => kind_of_status(status, retry_after),
        None if has(&["rate_limit"]) => ErrorKind::RateLimited { retry_after },
        None if has(&["authentication", "permission"]) => ErrorKind::Auth,
        None if has(&["not_found"]) => ErrorKind::NotFound,
        None if has(&["invalid_request", "invalid_argument"]) => ErrorKind::BadRequest,
        None => ErrorKind::Overloaded,
    }
}

/// Kind of error for a status, if the body contains nothing more specific.
pub(crate) fn kind_of_status(status: u16, retry_after: Option<Duration>) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Auth,
        402 => ErrorKind::QuotaExceeded,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        413 => ErrorKind::ContextTooLong,
        429 => ErrorKind::RateLimited { retry_after },
        400..=499 => ErrorKind::BadRequest,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::Protocol,
    }
}

fn requested_pause(headers: Option<&HeaderMap>) -> Option<Duration> {
    let headers = headers?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    retry_after(header, SystemTime::now())
}
