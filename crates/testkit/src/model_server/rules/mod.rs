//! Rules of the real providers. A [`ModelServer`](super::ModelServer) checks every request to the path of a provider's
//! API, and rejects a request that breaks a rule with status 400 in the provider's format.
//!
//! Each rule cites its public source. Rules about models apply to the families that the source names; only the general
//! rules apply to other models.

mod anthropic;
mod gemini;
mod image;
mod ollama;
mod openai_chat;
mod openai_responses;
mod openai_shared;
mod schema;
mod size;

use serde_json::{Value, json};

use super::{ReceivedRequest, Response};

/// Result of a check; the error is the reason of the rejection.
type CheckResult = Result<(), String>;

/// The error response to a request, in the format of its provider; `None` if the provider would accept the request.
pub fn refusal(request: &ReceivedRequest) -> Option<Response> {
    let (format, path) = Format::of_path(&request.path)?;
    let body: Value = match serde_json::from_str(&request.body) {
        Ok(body) => body,
        Err(error) => return Some(format.refuse(&format!("the body is not JSON: {error}"))),
    };
    if let Some(refusal) = size::refusal(format, &body, request.body.len()) {
        return Some(refusal);
    }
    let checked = match format {
        Format::Anthropic => anthropic::check(request, &body),
        Format::Gemini => gemini::check(gemini_model(path), &body),
        Format::Ollama => ollama::check(&body),
        Format::OpenaiChat => openai_chat::check(&body),
        Format::OpenaiResponses => openai_responses::check(&body),
    };
    checked.err().map(|message| format.refuse(&message))
}

/// A provider's API, recognised by the path of the request.
#[derive(Clone, Copy)]
enum Format {
    Anthropic,
    Gemini,
    Ollama,
    OpenaiChat,
    OpenaiResponses,
}

impl Format {
    fn of_path(path: &str) -> Option<(Self, &str)> {
        let path = path.split('?').next().unwrap_or_default();
        let format = if path.ends_with("/v1/messages") {
            Self::Anthropic
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Self::Gemini
        } else if path.ends_with("/api/chat") {
            Self::Ollama
        } else if path.ends_with("/chat/completions") {
            Self::OpenaiChat
        } else if path.ends_with("/responses") {
            Self::OpenaiResponses
        } else {
            return None;
        };
        Some((format, path))
    }

    /// Sources of the error formats: Anthropic "Errors" (docs.claude.com/en/api/errors), Google "Troubleshooting"
    /// (ai.google.dev/gemini-api/docs/troubleshooting), Ollama "API" (docs.ollama.com/api/errors), `OpenAI` "Error
    /// codes" (platform.openai.com/docs/guides/error-codes).
    fn refuse(self, message: &str) -> Response {
        let body = match self {
            Self::Anthropic => json!({"type": "error", "error": {
                "type": "invalid_request_error", "message": message}}),
            Self::Gemini => json!({"error": {
                "code": 400, "message": message, "status": "INVALID_ARGUMENT"}}),
            Self::Ollama => json!({"error": message}),
            Self::OpenaiChat | Self::OpenaiResponses => json!({"error": {
                "message": message, "type": "invalid_request_error", "param": null, "code": null}}),
        };
        Response::json(400, &body.to_string())
    }
}

/// Model name in `/v1beta/models/NAME:generateContent`.
fn gemini_model(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Fails with a message unless the condition holds.
fn ensure(holds: bool, message: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(message()) }
}

/// Checks that `value` has only fields in `known`.
fn known_fields(value: &Value, known: &[&str], refuse: impl Fn(&str) -> String) -> CheckResult {
    for name in value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
    {
        ensure(known.contains(&name.as_str()), || refuse(name))?;
    }
    Ok(())
}

/// Whether a name consists of letters, digits, `_` and `-`, and has at most `max_length` characters.
fn is_plain_name(name: &str, max_length: usize) -> bool {
    (1..=max_length).contains(&name.len())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-')
}

fn ensure_distinct<'a>(
    names: impl IntoIterator<Item = &'a str>,
    refuse: impl Fn(&str) -> String,
) -> CheckResult {
    let mut known = std::collections::HashSet::new();
    for name in names {
        ensure(known.insert(name), || refuse(name))?;
    }
    Ok(())
}
