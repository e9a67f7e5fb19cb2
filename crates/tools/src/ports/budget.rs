//! [`Budget`]: calls and money, reserved before a call and settled after it, so that parallel calls
//! cannot overspend together.

use cleveragents_domain::MicroUsd;

use super::PortError;
use crate::name::ToolName;

/// What may be spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingLimits {
    /// Calls of tools in one step.
    pub calls_per_step: Option<u64>,
    /// Money for one plan.
    pub cost_per_plan: Option<MicroUsd>,
    /// Money for everything.
    pub total_cost: Option<MicroUsd>,
}

/// What a call would spend: one call and this much money.
#[derive(Debug, Clone, Copy)]
pub struct Spending<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// What it is expected to cost.
    pub cost: MicroUsd,
    /// What may be spent.
    pub limits: SpendingLimits,
}

/// Why nothing was reserved.
#[derive(Debug)]
pub enum BudgetRefusal {
    /// The step has no call left. Told before a lack of money, when both are used up.
    Calls {
        /// How many are allowed.
        limit: u64,
    },
    /// The money would not suffice.
    Money {
        /// How much is allowed.
        limit: MicroUsd,
        /// How much is spent or reserved.
        used: MicroUsd,
    },
    /// It could not be found out.
    Failed(PortError),
}

/// Something reserved. Dropped without being settled it is given back, as if never asked for.
pub trait Reservation {
    /// Turns the reservation into what was really spent.
    fn settle(self: Box<Self>, cost: MicroUsd) -> Result<(), PortError>;
}

/// Calls and money.
pub trait Budget: Send + Sync {
    /// Reserves what a call would spend, in one step with the check of the limits. Of several that are
    /// exceeded, the one on money is told, not the one on calls.
    fn reserve(&self, spending: &Spending<'_>) -> Result<Box<dyn Reservation + '_>, BudgetRefusal>;
}
