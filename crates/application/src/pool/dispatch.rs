//! [`Dispatch`]: one attempt on one item; [`RoleRunner`]: the port through which it is made.

use std::sync::Arc;

use cleveragents_domain::{
    Attempt, AttemptEvidence, Code, Finding, LeaseSubject, MergeOutcome, MicroUsd, PlanId,
    PoolDefinition, PoolRole, ReviewVerdict, Sighting, StoredReview, Tier, TriageDecision,
    WorkItem, WorkItemId,
};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, UnitOfWork, attempts, leases, pools};

use crate::lease::Fence;
use crate::operation::OperationError;

/// An attempt that was claimed: its lease is held, its row is stored and its budget is reserved.
#[derive(Debug, Clone)]
pub struct Dispatch {
    pub pool: Arc<PoolDefinition>,
    /// The item as it was when the attempt was claimed.
    pub item: WorkItem,
    pub tier: Tier,
    /// The row of the attempt: role, number, token and reserved amount.
    pub attempt: Attempt,
    /// Subject and token; every write about the item presents them.
    pub lease: Fence,
    /// Earlier attempts of all roles on the item, oldest first.
    pub earlier: Vec<Attempt>,
    /// Reviews of the item, oldest first.
    pub reviews: Vec<StoredReview>,
    pub sightings: Vec<Sighting>,
}

impl Dispatch {
    /// Maximum cost of the attempt, which is reserved from the budgets.
    pub const fn budget(&self) -> MicroUsd {
        self.attempt.reserved
    }

    /// Role of the attempt.
    pub const fn role(&self) -> PoolRole {
        self.attempt.role
    }

    /// Records the plan that makes the attempt. Call it before the first model call: an attempt without a plan counts
    /// as free of cost when its process ends. Fails when the lease was lost.
    pub fn attach_plan(&self, engine: &Engine, plan: PlanId) -> Result<(), OperationError> {
        let ((subject, token), attempt) = (self.lease.clone(), self.attempt.id);
        engine.write(move |unit| {
            leases::require(unit, &subject, token)?;
            if attempts::set_plan(unit, attempt, token, plan)? {
                return Ok(());
            }
            Err(OperationError::new(
                Code::LeaseLost,
                format!("the attempt {attempt} has ended; no plan was attached"),
            ))
        })
    }
}

/// The subject of the lease on an item in a role.
pub fn item_lease(item: WorkItemId, role: PoolRole) -> LeaseSubject {
    LeaseSubject::new("work-item", format!("{item}/{role}"))
}

/// Fails unless the attempt of a dispatch may change the project now: its lease is held and its pool is neither paused
/// nor stopped. Call it in the unit of work that starts an apply: after a stop commits, no apply starts.
pub fn require_may_apply(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
) -> Result<(), OperationError> {
    pools::lock_claims(unit)?;
    let (subject, token) = &dispatch.lease;
    leases::require(unit, subject, *token)?;
    let name = &dispatch.pool.name;
    match pools::get(unit, name)? {
        Some(pool) if pool.state.may_start() => Ok(()),
        Some(pool) => Err(OperationError::new(
            Code::PoolNotActive,
            format!("the pool `{name}` is {}; nothing was applied", pool.state),
        )),
        None => Err(OperationError::new(
            Code::PoolNotFound,
            format!("the pool `{name}` was removed; nothing was applied"),
        )),
    }
}

/// Reason for which a role has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleFailure {
    /// The environment failed: a missing program, no network, no disk space. Not charged.
    Environment(String),
    /// A limit of time, cost or calls was reached.
    Limit(String),
    /// It waits for an answer, an approval or another item. Not charged.
    Blocked(String),
    /// It was cancelled. Not charged.
    Cancelled,
    /// The model returned nothing usable.
    NoResult(String),
}

/// Result of a dispatch.
#[derive(Debug, Clone)]
pub enum RoleReport {
    /// Result of a hunt. Every finding was compared with the code at its commit.
    Findings {
        findings: Vec<Finding>,
        /// Commit, or hash of the state, that was searched.
        base: Option<String>,
        summary: String,
        cost: MicroUsd,
        plan: Option<PlanId>,
    },
    /// Result of a triage.
    Triage {
        decision: TriageDecision,
        cost: MicroUsd,
        plan: Option<PlanId>,
    },
    /// Result of a capture or a fix: gates with exit codes. The plan holds the changeset.
    Change {
        evidence: AttemptEvidence,
        plan: Option<PlanId>,
    },
    /// Result of a review of exactly one state.
    Review {
        verdict: ReviewVerdict,
        /// Commit, or hash of the sandbox state, that was reviewed.
        head: String,
        cost: MicroUsd,
        plan: Option<PlanId>,
    },
    /// Result of a merge.
    Merge {
        outcome: MergeOutcome,
        cost: MicroUsd,
        plan: Option<PlanId>,
    },
    /// No result.
    Failed {
        failure: RoleFailure,
        cost: MicroUsd,
        plan: Option<PlanId>,
    },
}

/// Does the work of a dispatch. The production implementation runs a plan; tests use a scripted one.
pub trait RoleRunner: Send + Sync {
    /// Runs the role. Cancellation is requested when the lease is lost, the pool is stopped or the worker stops. An
    /// error fails this attempt as a failure of the environment, and nothing else.
    fn run(&self, dispatch: &Dispatch, cancel: &Cancel) -> Result<RoleReport, OperationError>;
}
