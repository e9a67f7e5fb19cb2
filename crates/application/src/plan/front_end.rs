//! [`PlanFrontEnd`]: the front end of a running plan.

use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;

use crate::observer::Observer;

/// The front end of a running plan.
#[derive(Clone, Copy)]
pub struct PlanFrontEnd<'a> {
    /// Receives requests for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the plan.
    pub cancel: &'a Cancel,
}
