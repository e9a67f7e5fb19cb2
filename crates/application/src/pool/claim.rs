//! [`claim`]: lease, attempt row and budget reservations in one unit of work. Every limit is checked again under the
//! lock of claims, so a snapshot that is out of date, or any number of schedulers, cannot exceed one.

use std::sync::Arc;

use cleveragents_domain::{
    Attempt, AttemptId, Lease, MergeCriterion, MergeEvidence, NextAttempt, OpenChange, Owner,
    PastAttempt, PoolDefinition, PoolRole, PoolState, Priority, Timestamp, ToolInvocationId,
    TransitionCause, WorkItem, WorkItemId, WorkItemState,
};
use cleveragents_store::attempts::NewAttempt;
use cleveragents_store::leases::DisplaceableHolder;
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{
    Engine, Error, Reader, UnitOfWork, attempts, budgets, leases, pools, work_items,
};

use super::dispatch::{Dispatch, item_lease};
use super::snapshot::{day_scope, item_scope, total_scope};
use crate::operation::OperationError;

/// Request of a claim: pool, items and limits.
#[derive(Debug, Clone)]
pub(super) struct ClaimRequest {
    pub(super) pool: Arc<PoolDefinition>,
    /// Items in the order in which they are tried; the first that can start is claimed.
    pub(super) items: Vec<WorkItemId>,
    pub(super) owner: Owner,
    /// Maximum number of attempts of all pools together.
    pub(super) capacity: u64,
}

/// Result of a claim.
pub(super) enum Claim {
    Started(Box<(Dispatch, Lease)>),
    /// No item of the request can start now.
    Nothing,
}

/// Whether an item can start.
enum Readiness {
    Ready(Box<ReadyItem>),
    /// It was claimed, moved or is blocked meanwhile; the next one may start.
    Skip,
}

struct ReadyItem {
    item: WorkItem,
    tier: cleveragents_domain::Tier,
}

/// An error of the unit that only means that nothing was claimed.
enum ClaimFailure {
    /// The lease or a budget was not granted; everything is rolled back.
    NotGranted,
    Failed(Error),
}

impl From<Error> for ClaimFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Claims the first item that can start.
pub(super) fn claim(engine: &Engine, request: ClaimRequest) -> Result<Claim, OperationError> {
    let claimed = engine.write(move |unit| claim_in(unit, &request));
    match claimed {
        Ok(claim) => Ok(claim),
        Err(ClaimFailure::NotGranted) => Ok(Claim::Nothing),
        Err(ClaimFailure::Failed(error)) => Err(error.into()),
    }
}

fn claim_in(unit: &mut UnitOfWork<'_>, request: &ClaimRequest) -> Result<Claim, ClaimFailure> {
    pools::lock_claims(unit)?;
    let pool = &*request.pool;
    let Some(status) = pools::get(unit, &pool.name)? else {
        return Ok(Claim::Nothing);
    };
    if !status.state.may_start() || is_limit_reached(unit, request)? {
        return Ok(Claim::Nothing);
    }
    for id in &request.items {
        match check_item(unit, pool, *id, status.state)? {
            Readiness::Ready(ready) => return start(unit, request, *ready),
            Readiness::Skip => {}
        }
    }
    Ok(Claim::Nothing)
}

/// Whether the limits that hold for all items of the pool are reached.
fn is_limit_reached(unit: &mut UnitOfWork<'_>, request: &ClaimRequest) -> Result<bool, Error> {
    let pool = &*request.pool;
    let (total, own) = attempts::count_running(unit, &pool.name)?;
    if total >= request.capacity || own >= u64::from(pool.limits.workers) {
        return Ok(true);
    }
    for (state, limit) in &pool.limits.downstream {
        let queue = work_items::count_in_state(unit, &pool.project, *state)?;
        if queue + own >= u64::from(*limit) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_item(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    id: WorkItemId,
    state: PoolState,
) -> Result<Readiness, Error> {
    let Some(item) = work_items::get(unit, id)? else {
        return Ok(Readiness::Skip);
    };
    let is_started = item.state.has_open_change();
    if !pool.takes((&item).into()) || (state == PoolState::Draining && !is_started) {
        return Ok(Readiness::Skip);
    }
    let past = attempts::of_item(unit, id)?;
    if past.iter().any(|attempt| attempt.outcome.is_none()) {
        return Ok(Readiness::Skip);
    }
    if let (PoolRole::Fix, false, Some(limit)) = (pool.role, is_started, pool.limits.open_changes)
        && attempts::count_open_changes(unit, &pool.name)? >= u64::from(limit)
    {
        return Ok(Readiness::Skip);
    }
    let has_open_dependencies = has_open_dependencies(unit, id)?;
    if item.state != WorkItemState::Unverified && has_open_dependencies {
        return Ok(Readiness::Skip);
    }
    let is_base_red = pools::base(unit, &item.project)?.is_some_and(|base| base.is_red);
    if is_base_red && pool.role != PoolRole::Triage && item.priority != Priority::CiBlocker {
        return Ok(Readiness::Skip);
    }
    if leases::holder(unit, &item_lease(id, pool.role))?.is_some()
        || is_over_item_budget(unit, pool, &item)?
    {
        return Ok(Readiness::Skip);
    }
    let failing = match pool.role {
        PoolRole::Merge => failing_criteria(unit, pool, &item, &past, is_base_red)?,
        _ => Vec::new(),
    };
    if !failing.is_empty() {
        send_back(unit, pool, &item, &failing)?;
        return Ok(Readiness::Skip);
    }
    if pool.role == PoolRole::Review && apply_known_review(unit, pool, &item)? {
        return Ok(Readiness::Skip);
    }
    let past: Vec<PastAttempt> = past.iter().map(Into::into).collect();
    match pool.tier_rule().next(pool.role, item.round, &past) {
        NextAttempt::Run { tier, .. } => Ok(Readiness::Ready(Box::new(ReadyItem { item, tier }))),
        // The next cycle hands it to the user.
        NextAttempt::ReferToUser { .. } => Ok(Readiness::Skip),
    }
}

/// Hands an item to the user when its budget does not allow another attempt.
fn is_over_item_budget(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    item: &WorkItem,
) -> Result<bool, Error> {
    let Some(limit) = pool.budgets.item else {
        return Ok(false);
    };
    let used = budgets::used(unit, &item_scope(item.id))?;
    if used.spent.0 + used.reserved.0 + pool.budgets.attempt.0 <= limit.0 {
        return Ok(false);
    }
    let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name).because(format!(
        "another attempt would exceed the budget of the item, {:.2} USD",
        limit.as_usd()
    ));
    work_items::transition(unit, item, WorkItemState::NeedsPerson, &origin)?;
    Ok(true)
}

fn has_open_dependencies(reader: &mut dyn Reader, item: WorkItemId) -> Result<bool, Error> {
    let dependencies = work_items::dependencies(reader, item)?;
    Ok(dependencies.iter().any(|(_, state)| !state.is_terminal()))
}

/// The merge criteria that the current change of an item does not meet.
pub(super) fn failing_criteria(
    reader: &mut dyn Reader,
    pool: &PoolDefinition,
    item: &WorkItem,
    past: &[Attempt],
    is_base_red: bool,
) -> Result<Vec<MergeCriterion>, Error> {
    let Some(head) = item
        .change
        .as_ref()
        .and_then(|change| change.head.as_deref())
    else {
        return Ok(vec![MergeCriterion::SucceededAttempt]);
    };
    let reviews = attempts::reviews(reader, item.id)?;
    let evidence = MergeEvidence {
        head,
        required_gates: &pool.outcomes.required_gates,
        attempts: past,
        reviews: &reviews,
        blocking: pool.outcomes.blocking_severity,
        is_captured: item.is_captured,
        dependencies_completed: !has_open_dependencies(reader, item.id)?,
        is_base_green: !is_base_red,
        fixes_base: item.priority == Priority::CiBlocker,
    };
    Ok(evidence.failing())
}

/// Sends an approved item whose change fails a criterion to the role that can act on it.
fn send_back(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    item: &WorkItem,
    failing: &[MergeCriterion],
) -> Result<(), Error> {
    use MergeCriterion as C;
    let has = |wanted: &[C]| failing.iter().any(|criterion| wanted.contains(criterion));
    let to = if has(&[C::ReviewerDiffers]) && !has(&[C::SucceededAttempt, C::Approved]) {
        // No attempt can change who reviewed; the configuration has to.
        WorkItemState::NeedsPerson
    } else if has(&[
        C::SucceededAttempt,
        C::GatesPassed,
        C::RegressionProven,
        C::NoBlockingFinding,
    ]) {
        WorkItemState::InProgress
    } else if has(&[C::Approved]) {
        WorkItemState::InReview
    } else {
        // It waits for other items or for the base.
        return Ok(());
    };
    let names: Vec<&str> = failing.iter().map(|criterion| criterion.as_str()).collect();
    let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name)
        .because(format!("merge criteria are not met: {}", names.join(", ")));
    work_items::transition(unit, item, to, &origin)?;
    Ok(())
}

/// Applies the stored verdict of this pool on the current state of a change, so that an unchanged state is not reviewed
/// again. Returns whether there was one.
fn apply_known_review(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    item: &WorkItem,
) -> Result<bool, Error> {
    let Some(head) = item
        .change
        .as_ref()
        .and_then(|change| change.head.as_deref())
    else {
        let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name)
            .because("there is no change to review");
        work_items::transition(unit, item, WorkItemState::InProgress, &origin)?;
        return Ok(true);
    };
    let reviews = attempts::reviews(unit, item.id)?;
    let Some(known) = reviews
        .iter()
        .find(|review| review.head == head && review.profile == pool.name)
    else {
        return Ok(false);
    };
    let (to, reason) = if known.approves {
        (WorkItemState::Approved, "this state was approved before")
    } else {
        (WorkItemState::InProgress, "this state was reviewed before")
    };
    let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name).because(reason);
    work_items::transition(unit, item, to, &origin)?;
    Ok(true)
}

fn start(
    unit: &mut UnitOfWork<'_>,
    request: &ClaimRequest,
    ready: ReadyItem,
) -> Result<Claim, ClaimFailure> {
    let pool = &request.pool;
    let (mut item, tier) = (ready.item, ready.tier);
    let subject = item_lease(item.id, pool.role);
    // A dead owner keeps its lease until its attempt was ended as interrupted.
    let lease = leases::acquire(
        unit,
        &subject,
        &request.owner,
        pool.limits.lease_ttl,
        DisplaceableHolder::Nobody,
    )?
    .ok_or(ClaimFailure::NotGranted)?;
    let earlier = attempts::of_item(unit, item.id)?;
    let new = NewAttempt {
        id: AttemptId::generate(),
        item: item.id,
        project: item.project.clone(),
        pool: pool.name.clone(),
        role: pool.role,
        round: item.round,
        tier: tier.name.clone(),
        actor: tier.actor.clone(),
        token: lease.token,
        reserved: pool.budgets.attempt,
    };
    attempts::insert(unit, &new)?.ok_or(ClaimFailure::NotGranted)?;
    reserve(unit, request, &new)?;
    if pool.role == PoolRole::Fix && !item.state.has_open_change() {
        let origin = ChangeOrigin::new(TransitionCause::Role, &pool.name);
        if !work_items::transition(unit, &item, WorkItemState::InProgress, &origin)? {
            return Err(ClaimFailure::NotGranted);
        }
        work_items::set_change(
            unit,
            item.id,
            &OpenChange {
                pool: pool.name.clone(),
                plan: None,
                head: None,
            },
        )?;
        item = work_items::get(unit, item.id)?.ok_or(ClaimFailure::NotGranted)?;
    }
    let attempt = attempts::get(unit, new.id)?.ok_or(ClaimFailure::NotGranted)?;
    let dispatch = Dispatch {
        pool: Arc::clone(pool),
        tier,
        lease: (lease.subject.clone(), lease.token),
        earlier,
        reviews: attempts::reviews(unit, item.id)?,
        sightings: work_items::sightings(unit, item.id)?,
        item,
        attempt,
    };
    Ok(Claim::Started(Box::new((dispatch, lease))))
}

/// Budget scopes of an attempt with their limits. The day is that of the start.
pub(super) fn scopes(
    pool: &PoolDefinition,
    item: WorkItemId,
    started_at: Timestamp,
) -> [(String, Option<cleveragents_domain::MicroUsd>); 3] {
    [
        (item_scope(item), pool.budgets.item),
        (day_scope(&pool.name, started_at), pool.budgets.day),
        (total_scope(&pool.name), pool.budgets.total),
    ]
}

pub(super) fn reservation(attempt: AttemptId) -> Result<ToolInvocationId, Error> {
    attempt
        .to_string()
        .parse()
        .map_err(|_| Error::Internal("the id of an attempt is not an id".to_owned()))
}

fn reserve(
    unit: &mut UnitOfWork<'_>,
    request: &ClaimRequest,
    new: &NewAttempt,
) -> Result<(), ClaimFailure> {
    let id = reservation(new.id)?;
    let now = unit.now();
    for (scope, limit) in scopes(&request.pool, new.item, now) {
        let is_reserved = budgets::reserve(unit, id, &scope, new.reserved, limit, &request.owner)?;
        if !is_reserved {
            return Err(ClaimFailure::NotGranted);
        }
    }
    Ok(())
}
