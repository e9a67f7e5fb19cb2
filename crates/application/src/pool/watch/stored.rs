//! Invariants over stored rows that no cycle needs: merges without proof, exceeded limits, claims without a lease, sources
//! that cannot be read.

use std::collections::HashMap;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    AttemptOutcome, LeaseToken, MergeCriterion, MergeEvidence, PoolDefinition, PoolRole, Timestamp,
    WorkItem,
};
use cleveragents_store::{Error, Reader, attempts, budgets, item_sources, leases, work_items};

use super::Anomaly;
use crate::pool::dispatch::item_lease;
use crate::pool::snapshot::{PoolSnapshot, day_scope, total_scope};

/// Merges are checked for this long, in seconds.
const MERGE_SECONDS: i64 = 24 * 3600;

/// Maximum number of merges that one check reads.
const MERGES: u64 = 200;

/// The anomalies of the stored rows of the projects of a snapshot.
pub(in crate::pool) fn find_stored_anomalies(
    reader: &mut dyn Reader,
    snapshot: &PoolSnapshot,
) -> Result<Vec<Anomaly>, Error> {
    let mut anomalies = claims_without_lease(reader, snapshot)?;
    for view in &snapshot.pools {
        let pool = &*view.definition;
        exceeded_limits(reader, pool, snapshot.now, &mut anomalies)?;
        if pool.role == PoolRole::Merge {
            unproven_merges(reader, pool, snapshot.now, &mut anomalies)?;
        }
    }
    let sources = item_sources::list(reader, &Namespaces::All)?;
    let projects: Vec<&str> = snapshot
        .pools
        .iter()
        .map(|pool| &*pool.definition.project)
        .collect();
    for source in sources {
        if let Some(error) = &source.last_error
            && projects.contains(&&*source.project)
        {
            anomalies.push(Anomaly {
                kind: "failed-sync",
                subject: source.name.clone(),
                project: source.project.clone(),
                namespace: work_items::namespace(&source.project),
                message: format!("the source {} cannot be synchronized: {error}", source.name),
            });
        }
    }
    Ok(anomalies)
}

fn anomaly(kind: &'static str, subject: String, pool: &PoolDefinition, message: String) -> Anomaly {
    Anomaly {
        kind,
        subject,
        project: pool.project.clone(),
        namespace: work_items::namespace(&pool.name),
        message,
    }
}

/// Running attempts without the lease that they started with. The recovery ends such attempts, so none remains.
fn claims_without_lease(
    reader: &mut dyn Reader,
    snapshot: &PoolSnapshot,
) -> Result<Vec<Anomaly>, Error> {
    let held: HashMap<_, LeaseToken> = leases::held(reader)?
        .into_iter()
        .map(|lease| (lease.subject, lease.token))
        .collect();
    let mut anomalies = Vec::new();
    for attempt in attempts::running(reader)? {
        let lease = held.get(&item_lease(attempt.item, attempt.role));
        let pool = snapshot
            .pools
            .iter()
            .find(|pool| pool.definition.name == attempt.pool);
        if let (Some(pool), false) = (pool, lease == Some(&attempt.token)) {
            let message = format!(
                "an attempt of {} on {} runs without its lease",
                attempt.pool, attempt.item
            );
            let subject = attempt.item.to_string();
            anomalies.push(anomaly("stale-claim", subject, &pool.definition, message));
        }
    }
    Ok(anomalies)
}

/// Limits that a pool exceeds: claims check them, so only a limit that was lowered is exceeded.
fn exceeded_limits(
    reader: &mut dyn Reader,
    pool: &PoolDefinition,
    now: Timestamp,
    anomalies: &mut Vec<Anomaly>,
) -> Result<(), Error> {
    let name = &pool.name;
    let (_, running) = attempts::count_running(reader, name)?;
    let open = attempts::count_open_changes(reader, name)?;
    let mut counts = vec![("workers", running, u64::from(pool.limits.workers))];
    counts.extend(
        pool.limits
            .open_changes
            .map(|limit| ("open changes", open, u64::from(limit))),
    );
    for (what, count, limit) in counts {
        if count > limit {
            let message = format!("{name} has {count} {what}, more than its limit of {limit}");
            anomalies.push(anomaly(
                "exceeded-limit",
                format!("{name} {what}"),
                pool,
                message,
            ));
        }
    }
    let amounts = [
        ("day", day_scope(name, now), pool.budgets.day),
        ("total", total_scope(name), pool.budgets.total),
    ];
    for (what, scope, limit) in amounts {
        let used = budgets::used(reader, &scope)?;
        let amount = used.spent.0 + used.reserved.0;
        if limit.is_some_and(|limit| amount > limit.0) {
            let message = format!("{name} has used more than its {what} budget");
            anomalies.push(anomaly(
                "exceeded-limit",
                format!("{name} {what} budget"),
                pool,
                message,
            ));
        }
    }
    Ok(())
}

/// Merged items whose stored evidence does not meet the merge criteria.
fn unproven_merges(
    reader: &mut dyn Reader,
    pool: &PoolDefinition,
    now: Timestamp,
    anomalies: &mut Vec<Anomaly>,
) -> Result<(), Error> {
    let since = now.plus_seconds(-MERGE_SECONDS);
    for id in attempts::merged_since(reader, &pool.name, since, MERGES)? {
        let Some(item) = work_items::get(reader, id)? else {
            continue;
        };
        let failing = failing_of_merge(reader, pool, &item)?;
        if !failing.is_empty() {
            let names: Vec<&str> = failing.iter().map(|criterion| criterion.as_str()).collect();
            let message = format!(
                "{id} was merged although its stored evidence fails: {}",
                names.join(", ")
            );
            anomalies.push(anomaly("unproven-merge", id.to_string(), pool, message));
        }
    }
    Ok(())
}

/// The criteria that depend only on the item itself and do not hold for the state that was merged.
fn failing_of_merge(
    reader: &mut dyn Reader,
    pool: &PoolDefinition,
    item: &WorkItem,
) -> Result<Vec<MergeCriterion>, Error> {
    let past = attempts::of_item(reader, item.id)?;
    let fix = past.iter().rev().find(|attempt| {
        attempt.role == PoolRole::Fix && attempt.outcome == Some(AttemptOutcome::Succeeded)
    });
    let Some(head) = fix.and_then(|fix| fix.head.as_deref()) else {
        return Ok(vec![MergeCriterion::SucceededAttempt]);
    };
    let reviews = attempts::reviews(reader, item.id)?;
    let evidence = MergeEvidence {
        head,
        required_gates: &pool.outcomes.required_gates,
        attempts: &past,
        reviews: &reviews,
        blocking: pool.outcomes.blocking_severity,
        is_captured: item.is_captured,
        dependencies_completed: true,
        is_base_green: true,
        fixes_base: true,
    };
    Ok(evidence.failing())
}
