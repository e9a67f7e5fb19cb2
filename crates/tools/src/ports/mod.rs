//! What the gate needs of the rest of the program, as traits: the engine implements them.

mod approver;
mod budget;
mod ledger;
mod redact;
mod workspace;

pub use approver::{Approval, ApprovalRequest, Approver, Question, Reply};
pub use budget::{Budget, BudgetRefusal, Reservation, Spending, SpendingLimits};
pub use ledger::{Begun, Ended, Ledger, OutputPage, RefusedCall, Scope, Window};
pub use redact::{MASK, Redact, is_secret_name, redact_value, shortened};
pub use workspace::{Attribution, Captured, Command, Part, PartPath, Workspace, WorkspaceFolders};

use std::fmt;

use cleveragents_domain::{Code, Diagnose};
use serde_json::Value;

/// Something behind a port that failed; not the doing of the model.
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
    /// Wraps the failure.
    pub fn new(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl Diagnose for PortError {
    fn code(&self) -> Code {
        self.0.code()
    }

    fn hint(&self) -> Option<String> {
        self.0.hint()
    }

    fn details(&self) -> Value {
        self.0.details()
    }
}
