//! [`RequestError`]: an error of an A2A request, with the response of each binding.

use axum::response::{IntoResponse as _, Response};
use cleveragents_a2a::{Error, ErrorReason, json_rpc};
use cleveragents_application::{StoreError, TaskError};
use cleveragents_domain::{Code, Diagnose, Kind};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::log::FailureCode;
use crate::problem::Problem;

/// Error of a request, with the earliest time of a retry.
#[derive(Debug, Clone)]
pub(crate) struct RequestError {
    error: Error,
    /// Earliest retry, in seconds from now.
    retry_after: Option<u64>,
}

impl RequestError {
    pub(crate) fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Error::new(reason, message).into()
    }

    /// Wrong parameters.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Error::invalid_params(message).into()
    }

    /// The error as the protocol defines it.
    pub(crate) const fn error(&self) -> &Error {
        &self.error
    }

    /// The response of JSON-RPC to a request with an id.
    pub(crate) fn json_rpc_response(&self, id: &Value) -> Response {
        let status = self.error.reason().json_rpc_http_status();
        self.response(status, &json_rpc::failure(id, &self.error))
    }

    pub(crate) fn http_json_response(&self) -> Response {
        self.response(self.error.reason().http_status(), &self.error.http_json())
    }

    fn response(&self, status: u16, body: &Value) -> Response {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body.to_string()).into_response();
        let code = self.error.fact("code");
        let code = code.unwrap_or_else(|| self.error.reason().name());
        response
            .extensions_mut()
            .insert(FailureCode(code.to_owned()));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Converts an error of this program. The cause of an internal error is logged and not sent.
    fn from_problem(reason: ErrorReason, problem: Problem) -> Self {
        let mut error = Error::new(reason, problem.detail).with("code", problem.code);
        if let Some(hint) = problem.hint {
            error = error.with("hint", hint);
        }
        if !problem.suggestions.is_empty() {
            error = error.with("suggestions", json!(problem.suggestions).to_string());
        }
        Self {
            error,
            retry_after: problem.retry_after,
        }
    }
}

/// The A2A reason that corresponds to an error code of this program. docs/reference/a2a.md lists the reasons that A2A
/// does not define.
pub(crate) fn reason_of(code: Code) -> ErrorReason {
    match code {
        Code::Internal => ErrorReason::Internal,
        Code::UnknownOperation => ErrorReason::MethodNotFound,
        Code::TaskNotFound => ErrorReason::TaskNotFound,
        Code::Unauthenticated => ErrorReason::Unauthenticated,
        Code::Forbidden | Code::LocalOnly => ErrorReason::Forbidden,
        Code::BudgetExceeded | Code::ModelQuotaExceeded => ErrorReason::BudgetExceeded,
        Code::VersionConflict => ErrorReason::VersionConflict,
        Code::RequestTooLarge => ErrorReason::RequestTooLarge,
        Code::TooManyRequests => ErrorReason::RateLimited,
        Code::ServerBusy
        | Code::ServerEnding
        | Code::DatabaseBusy
        | Code::DatabaseUnavailable
        | Code::DatabaseReadOnly
        | Code::DiskFull => ErrorReason::Unavailable,
        Code::UnknownConfigKey | Code::InvalidConfigValue | Code::MalformedConfig => {
            ErrorReason::InvalidConfiguration
        }
        Code::OutputExists
        | Code::ResourceExists
        | Code::ResourceTypeExists
        | Code::LinkExists
        | Code::ProjectExists
        | Code::SandboxExists
        | Code::ToolExists
        | Code::ActorExists
        | Code::ContextExists
        | Code::McpServerExists
        | Code::SkillExists
        | Code::ActionExists
        | Code::ProfileExists
        | Code::InvariantExists
        | Code::AttachmentExists
        | Code::TokenExists
        | Code::PoolExists
        | Code::ItemSourceExists => ErrorReason::AlreadyExists,
        Code::InvariantViolated
        | Code::PlanFailed
        | Code::PreflightFailed
        | Code::PlanConstrained
        | Code::NothingToApply
        | Code::PlanCancelled => ErrorReason::PlanFailed,
        code => match code.kind() {
            Kind::Usage => ErrorReason::InvalidParams,
            Kind::NotFound => ErrorReason::NotFound,
            Kind::Conflict | Kind::HumanNeeded | Kind::Failed => ErrorReason::InvalidState,
        },
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

impl From<Problem> for RequestError {
    fn from(problem: Problem) -> Self {
        let reason = Code::parse(&problem.code).map_or(ErrorReason::Internal, reason_of);
        Self::from_problem(reason, problem)
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        let problem = Problem::from_error(&failure);
        Self {
            retry_after: None,
            ..Self::from_problem(reason_of(failure.code()), problem)
        }
    }
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        // The error is logged with its cause. SQL text is not sent.
        let problem = Problem::from_error(&error);
        match reason_of(error.code()) {
            reason @ ErrorReason::Unavailable => Self {
                retry_after: Some(1),
                ..Self::new(reason, "the database does not respond")
            },
            _ => Self::new(ErrorReason::Internal, problem.detail),
        }
    }
}

impl From<TaskError> for RequestError {
    fn from(error: TaskError) -> Self {
        let unsupported = |text: &str| Self::new(ErrorReason::UnsupportedOperation, text);
        match error {
            TaskError::NotFound(id) => Error::task_not_found(&id.to_string()).into(),
            TaskError::Over => {
                unsupported("the task has finished; send the message without `taskId`")
            }
            TaskError::Busy => unsupported("the task is running and accepts no message now"),
            error @ TaskError::TooManyPushConfigs(_) => Self::invalid_params(error.to_string()),
            error @ TaskError::ContextBusy => Self::new(ErrorReason::Internal, error.to_string()),
            TaskError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorReason, reason_of};
    use cleveragents_domain::{Code, Kind};

    /// Each code named `…Exists` and each code of a failed plan must be in the table, regardless of its title.
    #[test]
    fn the_reason_follows_from_the_code_and_not_from_its_title() {
        for code in Code::ALL.iter().copied() {
            let reason = reason_of(code);
            let exists = format!("{code:?}").ends_with("Exists");
            assert_eq!(reason == ErrorReason::AlreadyExists, exists, "{code:?}");
            let is_plan_failure = code.kind() == Kind::Failed && code.as_str().starts_with("CA-11");
            assert_eq!(
                reason == ErrorReason::PlanFailed,
                is_plan_failure,
                "{code:?}"
            );
        }
    }
}
