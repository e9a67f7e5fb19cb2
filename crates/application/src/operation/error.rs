//! [`OperationError`]: failure of an operation or of a service that it calls.
//!
//! Front ends show the message. Callers that need to distinguish errors use [`Diagnose::code`], never the message.

use std::error::Error;
use std::fmt;

use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::Value;

/// Failure of an operation: a stable code, a message that names the object, a hint, and details for
/// programs.
#[derive(Debug)]
pub struct OperationError(Box<Kind>);

#[derive(Debug)]
enum Kind {
    /// The error of a service, with its own code and hint; `hint` overrides the hint of the service.
    Service {
        error: Box<dyn Diagnose + Send + Sync>,
        hint: Option<Hint>,
    },
    /// A failure of the operation itself, not of a service it calls.
    Own {
        code: Code,
        message: String,
        hint: Option<Hint>,
        details: Value,
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl OperationError {
    /// A failure with a code and a message that names the object concerned.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Kind::Own {
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
            source: None,
        }))
    }

    /// An invalid request.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A broken invariant of the program itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    pub fn from_service(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self(Box::new(Kind::Service {
            error: Box::new(error),
            hint: None,
        }))
    }

    /// Sets the hint; it overrides the hint of a service.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<Hint>) -> Self {
        let (Kind::Own { hint, .. } | Kind::Service { hint, .. }) = &mut *self.0;
        *hint = Some(text.into());
        self
    }

    /// Sets the details of a failure created by [`new`](Self::new).
    #[must_use]
    pub fn with_details(mut self, facts: Value) -> Self {
        if let Kind::Own { details, .. } = &mut *self.0 {
            *details = facts;
        }
        self
    }

    /// Sets the cause of a failure created by [`new`](Self::new).
    #[must_use]
    pub fn caused_by(mut self, error: impl Error + Send + Sync + 'static) -> Self {
        if let Kind::Own { source, .. } = &mut *self.0 {
            *source = Some(Box::new(error));
        }
        self
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Service { error, .. } => error.fmt(formatter),
            Kind::Own { message, .. } => formatter.write_str(message),
        }
    }
}

impl Error for OperationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Kind::Service { error, .. } => error.source(),
            Kind::Own { source, .. } => {
                let source = source.as_deref()?;
                Some(source)
            }
        }
    }
}

impl Diagnose for OperationError {
    fn code(&self) -> Code {
        match &*self.0 {
            Kind::Service { error, .. } => error.code(),
            Kind::Own { code, .. } => *code,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match &*self.0 {
            Kind::Service { error, hint } => hint.clone().or_else(|| error.hint()),
            Kind::Own { hint, .. } => hint.clone(),
        }
    }

    fn details(&self) -> Value {
        match &*self.0 {
            Kind::Service { error, .. } => error.details(),
            Kind::Own { details, .. } => details.clone(),
        }
    }
}

/// Implements `From` for the errors of services, so that `?` works in operations.
macro_rules! from_service_errors {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for OperationError {
            fn from(error: $error) -> Self {
                Self::from_service(error)
            }
        })+
    };
}

from_service_errors!(
    crate::AuditError,
    crate::PlanQueryError,
    crate::ContextServiceError,
    crate::DefinitionError,
    crate::InvariantError,
    crate::LeaseError,
    crate::McpServiceError,
    crate::PlanError,
    crate::ProjectError,
    crate::ResourceError,
    crate::RunServiceError,
    crate::SandboxError,
    crate::SessionError,
    crate::SkillError,
    crate::TokenError,
    crate::ToolError,
    crate::SyncError,
    crate::TrackerError,
    crate::TurnError,
    crate::ValidationError,
    crate::WorkItemError,
    cleveragents_mcp::McpError,
    cleveragents_models::ModelError,
    cleveragents_store::Error,
);
