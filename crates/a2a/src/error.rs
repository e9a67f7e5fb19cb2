//! [`Error`]: the failure of a request, in the format of each binding. Contains the complete table of error codes.

use serde_json::{Value, json};

/// Domain of the reasons that the protocol defines.
const PROTOCOL_DOMAIN: &str = "a2a-protocol.org";

/// Domain of the reasons that CleverAgents adds.
const OWN_DOMAIN: &str = "cleveragents";

/// Machine-readable reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReason {
    /// The task does not exist, or is not visible to the caller.
    TaskNotFound,
    /// The task has ended, so it cannot be cancelled.
    TaskNotCancelable,
    /// The agent does not support push notifications.
    PushNotificationNotSupported,
    /// The agent does not support the operation, or does not support it for this task.
    UnsupportedOperation,
    /// The agent does not accept the media type of a part or of the body.
    ContentTypeNotSupported,
    /// The client must support an extension.
    ExtensionSupportRequired,
    /// The agent does not support the protocol version.
    VersionNotSupported,
    /// The body is not JSON.
    Parse,
    /// The body is not a request.
    InvalidRequest,
    /// The method does not exist.
    MethodNotFound,
    /// The parameters are invalid.
    InvalidParams,
    /// The server failed.
    Internal,
    /// Something other than a task does not exist.
    NotFound,
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller's role does not permit this.
    Forbidden,
    /// The operation is not possible in this state, or failed.
    InvalidState,
    /// The entity already exists.
    AlreadyExists,
    /// A budget is exhausted.
    BudgetExceeded,
    /// Another process changed the entity first.
    VersionConflict,
    PlanFailed,
    InvalidConfiguration,
    RequestTooLarge,
    /// The caller sends too many requests.
    RateLimited,
    /// The server, or its database, is temporarily unavailable.
    Unavailable,
}

/// Wire representation of a reason.
struct Wire {
    /// JSON-RPC code.
    code: i64,
    /// HTTP status.
    status: u16,
    /// Name of the gRPC status.
    grpc: &'static str,
    /// Name of the reason.
    reason: &'static str,
}

const fn wire(code: i64, status: u16, grpc: &'static str, reason: &'static str) -> Wire {
    Wire {
        code,
        status,
        grpc,
        reason,
    }
}

impl ErrorReason {
    /// All reasons.
    pub const ALL: [Self; 24] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::ExtensionSupportRequired,
        Self::VersionNotSupported,
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::NotFound,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::InvalidState,
        Self::AlreadyExists,
        Self::BudgetExceeded,
        Self::VersionConflict,
        Self::PlanFailed,
        Self::InvalidConfiguration,
        Self::RequestTooLarge,
        Self::RateLimited,
        Self::Unavailable,
    ];

    const fn wire(self) -> Wire {
        const PRECONDITION: &str = "FAILED_PRECONDITION";
        const ARGUMENT: &str = "INVALID_ARGUMENT";
        const EXHAUSTED: &str = "RESOURCE_EXHAUSTED";
        match self {
            Self::TaskNotFound => wire(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => wire(-32002, 400, PRECONDITION, "TASK_NOT_CANCELABLE"),
            Self::PushNotificationNotSupported => {
                wire(-32003, 400, PRECONDITION, "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::UnsupportedOperation => wire(-32004, 400, PRECONDITION, "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => {
                wire(-32005, 400, ARGUMENT, "CONTENT_TYPE_NOT_SUPPORTED")
            }
            Self::ExtensionSupportRequired => {
                wire(-32008, 400, PRECONDITION, "EXTENSION_SUPPORT_REQUIRED")
            }
            Self::VersionNotSupported => wire(-32009, 400, PRECONDITION, "VERSION_NOT_SUPPORTED"),
            Self::Parse => wire(-32700, 400, ARGUMENT, "PARSE_ERROR"),
            Self::InvalidRequest => wire(-32600, 400, ARGUMENT, "INVALID_REQUEST"),
            Self::MethodNotFound => wire(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::InvalidParams => wire(-32602, 400, ARGUMENT, "INVALID_PARAMS"),
            Self::Internal => wire(-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
            Self::NotFound => wire(-32010, 404, "NOT_FOUND", "NOT_FOUND"),
            Self::Unauthenticated => wire(-32011, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
            Self::Forbidden => wire(-32012, 403, "PERMISSION_DENIED", "FORBIDDEN"),
            Self::InvalidState => wire(-32013, 409, PRECONDITION, "INVALID_STATE"),
            Self::AlreadyExists => wire(-32014, 409, PRECONDITION, "INVALID_STATE"),
            Self::BudgetExceeded => wire(-32015, 409, PRECONDITION, "INVALID_STATE"),
            Self::VersionConflict => wire(-32016, 409, PRECONDITION, "INVALID_STATE"),
            Self::PlanFailed => wire(-32017, 409, PRECONDITION, "INVALID_STATE"),
            Self::InvalidConfiguration => wire(-32018, 409, PRECONDITION, "INVALID_STATE"),
            Self::RequestTooLarge => wire(-32019, 413, ARGUMENT, "REQUEST_TOO_LARGE"),
            Self::RateLimited => wire(-32019, 429, EXHAUSTED, "BUSY"),
            Self::Unavailable => wire(-32019, 503, EXHAUSTED, "BUSY"),
        }
    }

    /// JSON-RPC code.
    pub const fn code(self) -> i64 {
        self.wire().code
    }

    /// HTTP status of the HTTP+JSON binding.
    pub const fn http_status(self) -> u16 {
        self.wire().status
    }

    /// HTTP status of the JSON-RPC binding: 200, except where a client or a proxy must act on it without reading the
    /// body.
    pub const fn json_rpc_http_status(self) -> u16 {
        match self.wire().status {
            status @ (401 | 403 | 413 | 429 | 503) => status,
            _ => 200,
        }
    }

    /// Name of the reason, such as `TASK_NOT_FOUND`.
    pub const fn name(self) -> &'static str {
        self.wire().reason
    }

    /// Whether the protocol defines the reason; CleverAgents adds the others.
    const fn is_of_protocol(self) -> bool {
        !matches!(self.code(), -32019..=-32010)
    }
}

/// A request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    reason: ErrorReason,
    message: String,
    /// Machine-readable facts, in the order in which they were added.
    metadata: Vec<(String, String)>,
}

impl Error {
    /// Creates an error without facts.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            metadata: Vec::new(),
        }
    }

    /// Creates an error for invalid parameters.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorReason::InvalidParams, message)
    }

    /// Creates an error for a field with an unexpected value.
    pub fn invalid_field(name: &str, expected: &str) -> Self {
        Self::invalid_params(format!("`{name}` must be {expected}")).with("field", name)
    }

    /// Creates an error for a task that does not exist, or is not visible to the caller.
    pub fn task_not_found(id: &str) -> Self {
        let shown: String = id.chars().take(64).collect();
        Self::new(ErrorReason::TaskNotFound, "the task does not exist").with("taskId", shown)
    }

    /// Adds a machine-readable fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.push((name.to_owned(), value.into()));
        self
    }

    /// Reason of the failure.
    pub const fn reason(&self) -> ErrorReason {
        self.reason
    }

    /// Returns a fact by name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        let mut facts = self.metadata.iter();
        facts
            .find(|(fact_name, _)| fact_name == name)
            .map(|(_, value)| value.as_str())
    }

    fn details(&self) -> Value {
        let domain = if self.reason.is_of_protocol() {
            PROTOCOL_DOMAIN
        } else {
            OWN_DOMAIN
        };
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason.name(), "domain": domain,
        });
        if !self.metadata.is_empty() {
            let facts = self.metadata.iter().cloned();
            info["metadata"] = facts
                .map(|(name, value)| (name, Value::String(value)))
                .collect();
        }
        json!([info])
    }

    /// The `error` of a JSON-RPC response.
    pub fn json_rpc(&self) -> Value {
        json!({"code": self.reason.code(), "message": self.message, "data": self.details()})
    }

    /// The body of an HTTP+JSON response.
    pub fn http_json(&self) -> Value {
        let wire = self.reason.wire();
        json!({"error": {
            "code": wire.status, "status": wire.grpc, "message": self.message,
            "details": self.details(),
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorReason};
    use serde_json::json;

    #[test]
    fn each_binding_reports_the_same_error() {
        let error = Error::task_not_found("t");
        let details = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org", "metadata": {"taskId": "t"},
        }]);
        assert_eq!(
            error.json_rpc(),
            json!({"code": -32001, "message": "the task does not exist", "data": details})
        );
        assert_eq!(
            error.http_json(),
            json!({"error": {"code": 404, "status": "NOT_FOUND",
                "message": "the task does not exist", "details": details}})
        );
        let own = Error::new(ErrorReason::Unavailable, "busy").json_rpc();
        assert_eq!(own["data"][0]["domain"], "cleveragents");
    }

    #[test]
    fn codes_stay_in_the_ranges_that_are_reserved_for_them() {
        for reason in ErrorReason::ALL {
            let code = reason.code();
            let is_json_rpc = code == -32700 || (-32603..=-32600).contains(&code);
            let is_a2a = (-32009..=-32001).contains(&code);
            let is_own = (-32019..=-32010).contains(&code);
            assert!(is_json_rpc || is_a2a || is_own, "{reason:?} is {code}");
            assert_eq!(reason.is_of_protocol(), !is_own, "{reason:?}");
        }
    }

    #[test]
    fn json_rpc_uses_http_statuses_only_where_proxies_and_clients_act_on_them() {
        for (reason, status) in [
            (ErrorReason::TaskNotFound, 200),
            (ErrorReason::Internal, 200),
            (ErrorReason::Unauthenticated, 401),
            (ErrorReason::Forbidden, 403),
            (ErrorReason::RequestTooLarge, 413),
            (ErrorReason::RateLimited, 429),
            (ErrorReason::Unavailable, 503),
        ] {
            assert_eq!(reason.json_rpc_http_status(), status, "{reason:?}");
        }
    }
}
