//! [`ApplyGuard`]: further preconditions of an apply, checked in the unit of work that starts it.

use std::fmt;
use std::sync::Arc;

use cleveragents_domain::PlanId;
use cleveragents_store::{Error, UnitOfWork};

/// The check of a guard: receives the unit of work, the plan and the state of its changes, and returns the unmet
/// conditions.
type GuardCheck =
    dyn Fn(&mut UnitOfWork<'_>, PlanId, &str) -> Result<Vec<String>, Error> + Send + Sync;

/// Conditions of the caller of an apply. They are checked in the unit of work that starts the apply, for the exact
/// changes that are applied: a condition that changes before is seen, and one that changes later is too late.
#[derive(Clone)]
pub struct ApplyGuard(Arc<GuardCheck>);

impl ApplyGuard {
    /// Creates a guard. `check` returns the unmet conditions for a plan and the state of its changes.
    pub fn new(
        check: impl Fn(&mut UnitOfWork<'_>, PlanId, &str) -> Result<Vec<String>, Error>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// The unmet conditions.
    pub(super) fn unmet(
        &self,
        unit: &mut UnitOfWork<'_>,
        plan: PlanId,
        state: &str,
    ) -> Result<Vec<String>, Error> {
        (self.0)(unit, plan, state)
    }
}

impl fmt::Debug for ApplyGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApplyGuard")
    }
}
