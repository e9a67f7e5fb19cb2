//! [`Failure`]: an error with a code, message, hint and details, independent of the protocol that reports it.

use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::Value;

/// An error with a code, message, hint and details. Each protocol converts it to its own form.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    code: Code,
    message: String,
    hint: Option<Hint>,
    details: Value,
}

impl Failure {
    /// A failure without hint and details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
        }
    }

    /// Adds a hint: how to fix the problem.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds machine-readable details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Converts any error that has a code.
    pub fn from_error(error: &dyn Diagnose) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            hint: error.hint(),
            details: error.details(),
        }
    }
}

impl Diagnose for Failure {
    fn code(&self) -> Code {
        self.code
    }

    fn hint(&self) -> Option<Hint> {
        self.hint.clone()
    }

    fn details(&self) -> Value {
        self.details.clone()
    }
}

impl From<cleveragents_application::StoreError> for Failure {
    fn from(error: cleveragents_application::StoreError) -> Self {
        Self::from_error(&error)
    }
}
