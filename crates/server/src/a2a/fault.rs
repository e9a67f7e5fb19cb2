//! [`Fault`]: how A2A tells that something went wrong, the same for both bindings.

use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::{Code, Diagnose, Kind};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::log::FailureCode;
use crate::problem::Problem;
use crate::program::Failure;

/// The domain of the reasons that A2A defines, and of ours.
const DOMAIN: &str = "a2a-protocol.org";
const OWN_DOMAIN: &str = "cleveragents";

/// What can go wrong, as the protocol knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    TaskNotFound,
    TaskNotCancelable,
    PushNotSupported,
    UnsupportedOperation,
    ContentType,
    ExtensionRequired,
    Version,
    Parse,
    Request,
    Method,
    Params,
    Internal,
    /// One of ours: a code of JSON-RPC that A2A does not use, and a status.
    Own(i64, u16),
}

impl Reason {
    /// Code of JSON-RPC, status of HTTP, status of gRPC, reason.
    fn parts(self) -> (i64, u16, &'static str, &'static str) {
        let precondition = "FAILED_PRECONDITION";
        let argument = "INVALID_ARGUMENT";
        match self {
            Self::TaskNotFound => (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => (-32002, 400, precondition, "TASK_NOT_CANCELABLE"),
            Self::PushNotSupported => {
                (-32003, 400, precondition, "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::UnsupportedOperation => (-32004, 400, precondition, "UNSUPPORTED_OPERATION"),
            Self::ContentType => (-32005, 400, argument, "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::ExtensionRequired => (-32008, 400, precondition, "EXTENSION_SUPPORT_REQUIRED"),
            Self::Version => (-32009, 400, precondition, "VERSION_NOT_SUPPORTED"),
            Self::Parse => (-32700, 400, argument, "PARSE_ERROR"),
            Self::Request => (-32600, 400, argument, "INVALID_REQUEST"),
            Self::Method => (-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::Params => (-32602, 400, argument, "INVALID_PARAMS"),
            Self::Internal => (-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
            Self::Own(code, http) => {
                let (status, reason) = match http {
                    401 => ("UNAUTHENTICATED", "UNAUTHENTICATED"),
                    403 => ("PERMISSION_DENIED", "FORBIDDEN"),
                    404 => ("NOT_FOUND", "NOT_FOUND"),
                    409 => (precondition, "INVALID_STATE"),
                    413 => (argument, "REQUEST_TOO_LARGE"),
                    429 | 503 => ("RESOURCE_EXHAUSTED", "BUSY"),
                    _ => (precondition, "FAILED"),
                };
                (code, http, status, reason)
            }
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    reason: Reason,
    message: String,
    facts: Vec<(String, String)>,
    retry_after: Option<u64>,
}

impl Fault {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            facts: Vec::new(),
            retry_after: None,
        }
    }

    /// That parameters are wrong.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(Reason::Params, message)
    }

    /// That there is no such task, or none that the caller may see.
    pub(crate) fn no_task(id: &str) -> Self {
        let shown: String = id.chars().take(64).collect();
        Self::new(Reason::TaskNotFound, "the task does not exist").with("taskId", shown)
    }

    /// Adds a fact.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.facts.push((name.to_owned(), value.into()));
        self
    }

    fn details(&self) -> Value {
        let (_, _, _, reason) = self.reason.parts();
        let domain = match self.reason {
            Reason::Own(..) => OWN_DOMAIN,
            _ => DOMAIN,
        };
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain,
        });
        if !self.facts.is_empty() {
            let facts = self.facts.iter().cloned();
            info["metadata"] = facts
                .map(|(name, value)| (name, Value::String(value)))
                .collect();
        }
        json!([info])
    }

    /// The error object of JSON-RPC.
    pub(crate) fn rpc(&self) -> Value {
        let (code, ..) = self.reason.parts();
        json!({"code": code, "message": self.message, "data": self.details()})
    }

    /// The error object of the HTTP binding.
    pub(crate) fn rest(&self) -> Value {
        let (_, http, status, _) = self.reason.parts();
        json!({"error": {
            "code": http, "status": status, "message": self.message, "details": self.details(),
        }})
    }

    /// The status of an answer of JSON-RPC: that of HTTP where a caller must notice without reading.
    fn rpc_status(&self) -> StatusCode {
        match self.reason.parts().1 {
            status @ (401 | 403 | 413 | 429 | 503) => {
                StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
            }
            _ => StatusCode::OK,
        }
    }

    /// The answer of JSON-RPC to a request with an id.
    pub(crate) fn rpc_response(&self, id: &Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": id, "error": self.rpc()});
        self.answer(self.rpc_status(), &body)
    }

    /// The answer of the HTTP binding.
    pub(crate) fn rest_response(&self) -> Response {
        let status = StatusCode::from_u16(self.reason.parts().1);
        self.answer(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            &self.rest(),
        )
    }

    fn answer(&self, status: StatusCode, body: &Value) -> Response {
        let mut response = (status, body.to_string()).into_response();
        let mut facts = self.facts.iter();
        let code = facts.find(|(name, _)| name == "code");
        let code = code.map_or_else(
            || self.reason.parts().3.to_owned(),
            |(_, code)| code.clone(),
        );
        response.extensions_mut().insert(FailureCode(code));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The codes of JSON-RPC for what A2A has none for. docs/server.md lists them.
pub(crate) fn own(code: Code) -> Reason {
    match code {
        Code::Internal => return Reason::Internal,
        Code::UnknownOperation => return Reason::Method,
        Code::TaskNotFound => return Reason::TaskNotFound,
        Code::Unauthenticated => return Reason::Own(-32011, 401),
        Code::Forbidden | Code::LocalOnly => return Reason::Own(-32012, 403),
        Code::BudgetExceeded | Code::ModelQuotaExceeded => return Reason::Own(-32015, 409),
        Code::VersionConflict => return Reason::Own(-32016, 409),
        Code::RequestTooLarge => return Reason::Own(-32019, 413),
        Code::TooManyRequests => return Reason::Own(-32019, 429),
        Code::ServerBusy
        | Code::ServerEnding
        | Code::DatabaseBusy
        | Code::DatabaseUnavailable
        | Code::DatabaseReadOnly
        | Code::DiskFull => return Reason::Own(-32019, 503),
        Code::UnknownConfigKey | Code::InvalidConfigValue | Code::MalformedConfig => {
            return Reason::Own(-32018, 409);
        }
        _ => {}
    }
    let number = code.as_str().trim_start_matches("CA-").parse::<u32>();
    match code.kind() {
        Kind::Usage => Reason::Params,
        Kind::NotFound => Reason::Own(-32010, 404),
        Kind::Conflict if code.title().contains("exists") => Reason::Own(-32014, 409),
        Kind::Failed if matches!(number, Ok(1100..1200)) => Reason::Own(-32017, 409),
        Kind::Conflict | Kind::HumanNeeded | Kind::Failed => Reason::Own(-32013, 409),
    }
}

impl Fault {
    /// Any error that knows its code. What is wrong inside the server is not told.
    pub(crate) fn of(error: &dyn Diagnose) -> Self {
        let problem = Problem::of(error);
        let reason = own(error.code());
        let mut fault = Self::new(reason, problem.detail).with("code", problem.code);
        if let Some(hint) = problem.hint {
            fault = fault.with("hint", hint);
        }
        fault
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let reason = Code::ALL
            .iter()
            .find(|code| code.as_str() == problem.code)
            .map_or(Reason::Internal, |code| own(*code));
        let mut fault = Self::new(reason, problem.detail).with("code", problem.code);
        if let Some(hint) = problem.hint {
            fault = fault.with("hint", hint);
        }
        fault.retry_after = problem.retry_after;
        fault
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::of(&failure)
    }
}

impl From<cleveragents_store::Error> for Fault {
    fn from(error: cleveragents_store::Error) -> Self {
        // Logged with its cause; the text of a statement is not told.
        let problem = Problem::of(&error);
        match error.code() {
            code @ (Code::DatabaseBusy
            | Code::DatabaseUnavailable
            | Code::DatabaseReadOnly
            | Code::DiskFull) => Self {
                retry_after: Some(1),
                ..Self::new(own(code), "the database does not answer")
            },
            _ => Self::new(Reason::Internal, problem.detail),
        }
    }
}
