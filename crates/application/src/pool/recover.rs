//! [`recover_interrupted`]: ends the attempts of dead processes, so that their items can be dispatched again.

use std::collections::HashMap;

use cleveragents_domain::{Attempt, AttemptOutcome, Lease, MicroUsd, WorkItemId};
use cleveragents_store::attempts::AttemptResult;
use cleveragents_store::{Engine, Error, UnitOfWork, attempts, leases, plans, pools, work_items};

use super::attempt_result::spend;
use super::dispatch::item_lease;
use crate::lease::LeaseService;
use crate::operation::OperationError;

/// Ends every running attempt whose lease is lost: its owner is dead, or unreachable for longer than the lease lasts.
/// Such an attempt is not charged. Returns the items.
pub(super) fn recover_interrupted(
    engine: &Engine,
    leases_of_process: &LeaseService,
) -> Result<Vec<WorkItemId>, OperationError> {
    let (now, running, held) = engine.read(|reader| {
        Ok::<_, Error>((
            leases::clock(reader)?,
            attempts::running(reader)?,
            leases::held(reader)?,
        ))
    })?;
    let held: HashMap<_, Lease> = held
        .into_iter()
        .filter(|lease| lease.subject.kind == "work-item")
        .map(|lease| (lease.subject.clone(), lease))
        .collect();
    let mut recovered = Vec::new();
    for attempt in running {
        let lease = held.get(&item_lease(attempt.item, attempt.role));
        let is_lost = match lease {
            Some(lease) if lease.token == attempt.token => leases_of_process.is_stale(lease, now),
            // Released, or taken over by a later attempt.
            _ => true,
        };
        if !is_lost {
            continue;
        }
        let (item, seen) = (attempt.item, lease.cloned());
        let ended = engine.write(move |unit| end_interrupted(unit, &attempt, seen.as_ref()))?;
        if ended {
            tracing::info!(%item, "interrupted attempt ended; the item can be dispatched again");
            recovered.push(item);
        }
    }
    Ok(recovered)
}

/// Ends one attempt. Returns `false` when its owner renewed the lease since it was read.
fn end_interrupted(
    unit: &mut UnitOfWork<'_>,
    attempt: &Attempt,
    seen: Option<&Lease>,
) -> Result<bool, Error> {
    pools::lock_claims(unit)?;
    if let Some(seen) = seen
        && seen.token == attempt.token
        && !leases::release_unrenewed(unit, seen)?
    {
        return Ok(false);
    }
    let project = work_items::get(unit, attempt.item)?
        .map(|item| item.project)
        .unwrap_or_default();
    let cost = match attempt.plan {
        Some(plan) => plans::get(unit, plan)?.map_or(MicroUsd(0), |plan| plan.usage.cost_micro_usd),
        None => MicroUsd(0),
    };
    let result = AttemptResult {
        plan: attempt.plan,
        ..AttemptResult::bare(
            AttemptOutcome::Interrupted,
            Some("the process of the attempt ended, or its lease expired".to_owned()),
            cost,
        )
    };
    if !attempts::finish(unit, attempt, &project, &result)? {
        return Ok(false);
    }
    spend(unit, attempt, cost)?;
    Ok(true)
}
