//! Plans, as far as changesets and leases need them.

use crate::{PlanId, Timestamp};

/// A plan: the owner of changesets and the usual subject of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// The phase it is in.
    pub phase: String,
    /// Its state within the phase.
    pub state: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A plan that a session refers to, with the phase and state last known.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkedPlan {
    /// The plan.
    pub plan_id: PlanId,
    /// Its phase.
    pub phase: String,
    /// Its state.
    pub state: String,
}
