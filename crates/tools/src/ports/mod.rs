//! Traits through which the gate uses the rest of the program; the `application` crate implements them.

mod approver;
mod budget;
mod ledger;
mod redact;
mod workspace;

pub use approver::{Approval, ApprovalRequest, Approver, Question, QuestionKind, Reply};
pub use budget::{Budget, BudgetRefusal, Reservation, Spending, SpendingLimits};
pub use ledger::{FinishedCall, Ledger, OutputPage, RefusedCall, Scope, StartedCall, Window};
pub use redact::{MASK, Redact, is_secret_name, redact_value, shortened};
pub use workspace::{
    Attribution, BackgroundWorkspace, CapturedChanges, Command, Part, PartPath, Workspace,
    WorkspaceFolders,
};

use std::fmt;

use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::Value;

/// An error in the implementation of a port, such as a failed write to the store. The model did not cause it.
#[derive(Debug)]
pub struct PortError(Box<dyn Diagnose + Send + Sync>);

impl fmt::Display for PortError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl PortError {
    /// Wraps an error.
    pub fn new(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl Diagnose for PortError {
    fn code(&self) -> Code {
        self.0.code()
    }

    fn hint(&self) -> Option<Hint> {
        self.0.hint()
    }

    fn details(&self) -> Value {
        self.0.details()
    }
}
