//! [`PlanFrontEnd`]: the front end of a running plan.

use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;

use crate::observer::Observer;

/// The front end of a running plan.
#[derive(Clone, Copy)]
pub struct PlanFrontEnd<'a> {
    /// Asks the user for approvals and for answers to questions.
    pub approver: &'a dyn Approver,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the plan.
    pub cancel: &'a Cancel,
}
