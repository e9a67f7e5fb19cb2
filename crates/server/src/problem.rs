//! [`Problem`]: errors of the HTTP API (RFC 9457), with the same codes as the command line.

use axum::response::{IntoResponse, Response};
use cleveragents_domain::{Code, Diagnose, Hint, Kind, Suggestion};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::log::{self, FailureCode};

/// The media type of a problem.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// An error in the HTTP API.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// A URN with the error code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The title of the error code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The failed request and the reason.
    pub detail: String,
    /// The stable code, such as `CA-0301`.
    pub code: String,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The operations that the hint names, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub suggestions: Vec<Suggestion>,
    /// Machine-readable details.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub details: Value,
    /// Seconds after which the request may be repeated.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

/// The HTTP status of an error code.
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::LocalOnly => StatusCode::FORBIDDEN,
        Code::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Code::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ServerBusy
        | Code::ServerEnding
        | Code::DatabaseUnavailable
        | Code::DatabaseBusy
        | Code::DatabaseReadOnly
        | Code::DiskFull => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal
        | Code::DatabaseDamaged
        | Code::DatabaseNewer
        | Code::StatementFailed
        | Code::ConstraintViolated
        | Code::MigrationFailed
        | Code::BlobMissing
        | Code::StoredValueInvalid => StatusCode::INTERNAL_SERVER_ERROR,
        _ => match code.kind() {
            Kind::Usage => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict | Kind::HumanNeeded => StatusCode::CONFLICT,
            Kind::Failed => StatusCode::UNPROCESSABLE_ENTITY,
        },
    }
}

impl Problem {
    /// Converts any error that has a code. The cause of an internal error is logged, not sent.
    pub fn from_error(error: &dyn Diagnose) -> Self {
        let code = error.code();
        let status = status(code);
        let is_unavailable = matches!(code, Code::ServerBusy | Code::ServerEnding);
        let is_internal = status.is_server_error() && !is_unavailable;
        let logged = is_internal
            .then(|| log::internal_error(code.as_str(), &cause(error)))
            .flatten();
        let problem = Self {
            kind: format!("urn:cleveragents:errors:{}", code.as_str()),
            title: code.title().to_owned(),
            status: status.as_u16(),
            detail: match logged {
                Some(request) => format!(
                    "internal server error; the server's log has the cause under request {request}"
                ),
                None if is_internal => {
                    "internal server error; the server's log has the cause".to_owned()
                }
                None => error.to_string(),
            },
            code: code.as_str().to_owned(),
            hint: None,
            suggestions: Vec::new(),
            details: match logged {
                Some(request) => json!({"request_id": request}),
                None if is_internal => Value::Null,
                None => error.details(),
            },
            // The client may retry soon, because the service may be available again.
            retry_after: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        match error.hint().filter(|_| !is_internal) {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }

    /// A problem without a hint.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self::from_error(&Failure::new(code, detail))
    }

    /// Adds a hint: how to fix the problem.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        let hint = hint.into();
        self.suggestions = hint.suggestions();
        self.hint = Some(hint.neutral());
        self
    }

    /// Replaces the HTTP status of the code.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status.as_u16();
        self
    }

    /// Sets after how many seconds the client may retry.
    #[must_use]
    pub const fn after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// An error with its causes, separated by colons.
fn cause(error: &dyn Diagnose) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::from_error(&failure)
    }
}

impl From<cleveragents_application::StoreError> for Problem {
    fn from(error: cleveragents_application::StoreError) -> Self {
        Self::from_error(&error)
    }
}

impl From<cleveragents_application::SessionError> for Problem {
    fn from(error: cleveragents_application::SessionError) -> Self {
        Self::from_error(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(FailureCode(self.code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::Problem;
    use cleveragents_application::StoreError as Error;
    use cleveragents_domain::Code;

    #[test]
    fn causes_of_internal_errors_are_not_sent() {
        for error in [
            Error::Statement("no such table: secrets".to_owned()),
            Error::Constraint("secrets.id".to_owned()),
            Error::Internal("secrets".to_owned()),
        ] {
            let problem = Problem::from_error(&error);
            assert_eq!(problem.status, 500);
            let reported = serde_json::to_string(&problem).expect("JSON");
            assert!(!reported.contains("secrets"), "{reported}");
        }
        let busy = Problem::new(Code::ServerBusy, "too much waits");
        assert_eq!((busy.status, busy.detail.as_str()), (503, "too much waits"));
    }

    #[test]
    fn hints_name_operations_and_no_commands() {
        let error = cleveragents_application::SessionError::NotFound("weekly".to_owned());
        let problem = serde_json::to_value(Problem::from_error(&error)).expect("JSON");
        assert_eq!(problem["hint"], "run `session/list` to list the sessions");
        assert_eq!(
            problem["suggestions"],
            serde_json::json!([{"operation": "session/list"}])
        );
        let plain = Problem::new(Code::ServerBusy, "too much waits");
        let plain = serde_json::to_value(plain).expect("JSON");
        assert_eq!(plain.get("suggestions"), None);
    }
}
