//! Invariants of the loop, checked by code in every cycle. Each anomaly has at most one open alert.

use std::collections::{BTreeMap, HashSet};

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{AttemptOutcome, WorkItemId, WorkItemState};
use cleveragents_store::work_items::OpenItem;
use cleveragents_store::{Engine, Error, pools, work_items};

use super::plan_dispatches::DispatchPlan;
use super::snapshot::PoolSnapshot;
use crate::operation::OperationError;

/// Number of consecutive failures for the same reason that raises an alert.
const REPEATED_FAILURES: usize = 3;

/// Running attempts older than this, in seconds, count as stuck.
const LONG_ATTEMPT_SECONDS: f64 = 6.0 * 3600.0;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anomaly {
    pub(super) kind: &'static str,
    /// The item, pool or project that it is about.
    pub(super) subject: String,
    pub(super) namespace: String,
    pub(super) message: String,
}

/// Kinds of alerts that this module raises and resolves.
const KINDS: [&str; 7] = [
    "ownerless-item",
    "overdue-queue",
    "long-attempt",
    "idle-pool",
    "red-base",
    "missing-evidence",
    "repeated-failure",
];

pub(super) fn find_anomalies(snapshot: &PoolSnapshot, plan: &DispatchPlan) -> Vec<Anomaly> {
    let mut anomalies = Vec::new();
    let mut add = |kind, subject: String, owner: &str, message: String| {
        anomalies.push(Anomaly {
            kind,
            subject,
            namespace: work_items::namespace(owner),
            message,
        });
    };
    let unowned: HashSet<WorkItemId> = plan.ownerless.iter().copied().collect();
    let mut ownerless: BTreeMap<(&str, WorkItemState), u64> = BTreeMap::new();
    for item in &snapshot.items {
        if unowned.contains(&item.id) {
            *ownerless.entry((&item.project, item.state)).or_default() += 1;
        }
    }
    for ((project, state), count) in ownerless {
        add(
            "ownerless-item",
            format!("{project} {state}"),
            project,
            format!("no pool takes {count} items of {project} in the state {state}"),
        );
    }
    for (index, count) in &plan.overdue {
        let pool = &snapshot.pools[*index].definition;
        add(
            "overdue-queue",
            pool.name.clone(),
            &pool.name,
            format!(
                "{count} items have waited for {} longer than its deadline",
                pool.name
            ),
        );
    }
    for attempt in &snapshot.running {
        if snapshot.now.seconds_since(attempt.started_at) > LONG_ATTEMPT_SECONDS {
            add(
                "long-attempt",
                attempt.item.to_string(),
                &attempt.pool,
                format!(
                    "an attempt of {} has been running for more than 6 hours",
                    attempt.pool
                ),
            );
        }
    }
    for (index, pool) in snapshot.pools.iter().enumerate() {
        // Free workers, eligible items and no limit: the planner must have started something.
        let name = &pool.definition.name;
        let is_idle = plan.alternates.get(&index).is_some_and(|rest| {
            !rest.is_empty()
                && rest
                    .iter()
                    .all(|item| !plan.waits.iter().any(|(waiting, _)| waiting == item))
        });
        let has_started = plan
            .dispatches
            .iter()
            .any(|dispatch| dispatch.pool == index);
        if is_idle && !has_started {
            add(
                "idle-pool",
                name.clone(),
                name,
                format!("{name} has eligible items and free workers and starts nothing"),
            );
        }
    }
    for base in snapshot.bases.values().filter(|base| base.is_red) {
        add(
            "red-base",
            base.project.clone(),
            &base.project,
            format!(
                "the base of {} has failed its gates since {}: {}",
                base.project,
                base.since,
                base.failing_gates.join(", ")
            ),
        );
    }
    anomalies.extend(
        snapshot
            .items
            .iter()
            .flat_map(|item| item_anomalies(snapshot, item)),
    );
    anomalies
}

/// The anomalies of one item.
fn item_anomalies(snapshot: &PoolSnapshot, item: &OpenItem) -> Vec<Anomaly> {
    let mut anomalies = Vec::new();
    let mut add = |kind, message: String| {
        anomalies.push(Anomaly {
            kind,
            subject: item.id.to_string(),
            namespace: work_items::namespace(&item.project),
            message,
        });
    };
    let past = snapshot.past.get(&item.id).map_or(&[][..], Vec::as_slice);
    let is_changed = matches!(
        item.state,
        WorkItemState::InReview | WorkItemState::Approved
    );
    let has_success = past
        .iter()
        .any(|attempt| attempt.outcome == Some(AttemptOutcome::Succeeded));
    if is_changed && !has_success {
        add(
            "missing-evidence",
            format!("the item is {} without a successful attempt", item.state),
        );
    }
    let mut reasons = past
        .iter()
        .rev()
        .filter(|attempt| attempt.outcome.is_some());
    if let Some(last) = reasons.next().and_then(|attempt| attempt.reason.as_deref()) {
        let same = reasons
            .take_while(|attempt| attempt.reason.as_deref() == Some(last))
            .count();
        if same + 1 >= REPEATED_FAILURES {
            add(
                "repeated-failure",
                format!(
                    "{} attempts in a row failed for the same reason: {last}",
                    same + 1
                ),
            );
        }
    }
    anomalies
}

/// Raises alerts for new anomalies and resolves those that are gone. Writes nothing if nothing changed.
pub(super) fn update_alerts(engine: &Engine, found: &[Anomaly]) -> Result<(), OperationError> {
    let open = engine.read(|reader| pools::open_alerts(reader, &Namespaces::All))?;
    let is_known = |anomaly: &Anomaly| {
        open.iter().any(|alert| {
            alert.kind == anomaly.kind
                && alert.subject == anomaly.subject
                && alert.message == anomaly.message
        })
    };
    let gone: Vec<_> = open
        .iter()
        .filter(|alert| KINDS.contains(&alert.kind.as_str()))
        .filter(|alert| {
            !found
                .iter()
                .any(|anomaly| anomaly.kind == alert.kind && anomaly.subject == alert.subject)
        })
        .cloned()
        .collect();
    let new: Vec<Anomaly> = found
        .iter()
        .filter(|anomaly| !is_known(anomaly))
        .cloned()
        .collect();
    if new.is_empty() && gone.is_empty() {
        return Ok(());
    }
    engine.write(move |unit| {
        for anomaly in &new {
            pools::raise_alert(
                unit,
                anomaly.kind,
                &anomaly.subject,
                &anomaly.namespace,
                &anomaly.message,
            )?;
        }
        for alert in &gone {
            pools::resolve_alert(unit, alert)?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}
