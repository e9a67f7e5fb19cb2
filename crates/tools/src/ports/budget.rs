//! [`Budget`]: reserves calls and cost before a call and records the actual cost after it, so that
//! parallel calls cannot exceed the limits together.

use cleveragents_domain::MicroUsd;

use super::PortError;
use crate::name::ToolName;

/// Limits on calls and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingLimits {
    /// Maximum number of tool calls in one response of the model, or in one step of a plan.
    pub calls_per_step: Option<u64>,
    /// Maximum cost of one plan.
    pub cost_per_plan: Option<MicroUsd>,
    /// Maximum total cost.
    pub total_cost: Option<MicroUsd>,
}

/// The expected usage of one call.
#[derive(Debug, Clone, Copy)]
pub struct Spending<'a> {
    /// The tool to call.
    pub tool: &'a ToolName,
    /// Expected cost.
    pub cost: MicroUsd,
    /// Limits that apply to the call.
    pub limits: SpendingLimits,
}

/// Reason of a refused reservation.
#[derive(Debug)]
pub enum BudgetRefusal {
    /// The response of the model, or the step of the plan, reached its limit of tool calls.
    Calls {
        /// Maximum number of calls.
        limit: u64,
    },
    /// The cost would exceed a limit.
    Money {
        /// Maximum cost.
        limit: MicroUsd,
        /// Cost spent or reserved so far.
        used: MicroUsd,
    },
    /// The usage could not be read or stored.
    Failed(PortError),
}

/// A reservation of one call and its cost. Dropping it without [`charge`](Self::charge) releases it.
pub trait Reservation {
    /// Replaces the reservation by the actual cost.
    fn charge(self: Box<Self>, cost: MicroUsd) -> Result<(), PortError>;
}

/// Enforces limits on calls and cost.
pub trait Budget: Send + Sync {
    /// Checks the limits and reserves the expected usage atomically. When both kinds of limits are
    /// exceeded, returns [`BudgetRefusal::Money`].
    fn reserve(&self, spending: &Spending<'_>) -> Result<Box<dyn Reservation + '_>, BudgetRefusal>;
}
