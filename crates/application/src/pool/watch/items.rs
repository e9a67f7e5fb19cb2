//! Work items of the role `watch`: one per anomaly, so that a model looks at it only if there is one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cleveragents_domain::{
    Fingerprint, ItemFacts, NewWorkItem, PoolRole, PoolState, Priority, TransitionCause, WorkItem,
    WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{Engine, Error, Reader, UnitOfWork, work_items};

use super::Anomaly;
use crate::operation::OperationError;
use crate::pool::snapshot::{PoolSnapshot, PoolView};
use crate::tracker::{mirror_item, mirror_item_fields};

/// Label of the items of this role.
const LABEL: &str = "watch";

/// Files the anomalies of the projects that an active pool watches: one item per anomaly, which is reopened when the
/// anomaly returns, and closed when it is gone and no work on it has begun. Writes nothing if nothing changed.
pub(in crate::pool) fn file_anomalies(
    engine: &Engine,
    snapshot: &PoolSnapshot,
    anomalies: &[Anomaly],
) -> Result<(), OperationError> {
    for view in &snapshot.pools {
        let pool = &view.definition;
        if pool.role != PoolRole::Watch || view.state != PoolState::Active {
            continue;
        }
        let found: HashMap<Fingerprint, &Anomaly> = anomalies
            .iter()
            .filter(|anomaly| anomaly.project == pool.project)
            .map(|anomaly| (fingerprint(anomaly), anomaly))
            .collect();
        let (new, gone) = engine.read(|reader| compare(reader, &pool.project, &found))?;
        if new.is_empty() && gone.is_empty() {
            continue;
        }
        let (pool, pools) = (Arc::clone(pool), snapshot.pools.clone());
        engine.write(move |unit| {
            let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name);
            for anomaly in &new {
                file(unit, &new_item(anomaly, &pools), &origin)?;
            }
            let origin = origin.because("the anomaly is gone");
            for item in &gone {
                if work_items::transition(unit, item, WorkItemState::Completed, &origin)? {
                    mirror_item_fields(unit, item.id)?;
                }
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// The anomalies without an open item, and the untouched items whose anomaly is gone.
fn compare(
    reader: &mut dyn Reader,
    project: &str,
    found: &HashMap<Fingerprint, &Anomaly>,
) -> Result<(Vec<Anomaly>, Vec<WorkItem>), Error> {
    let open = work_items::open_with_label(reader, project, LABEL)?;
    let mut new = Vec::new();
    for (print, anomaly) in found {
        if open.iter().any(|item| item.fingerprint == Some(*print)) {
            continue;
        }
        let closed = work_items::last_closed(reader, project, *print)?;
        // An anomaly that the user rejected stays rejected.
        if closed.is_none_or(|closed| closed.state == WorkItemState::Completed) {
            new.push((*anomaly).clone());
        }
    }
    new.sort_by(|one, other| (one.kind, &one.subject).cmp(&(other.kind, &other.subject)));
    let is_gone = |item: &WorkItem| {
        let print = item.fingerprint;
        is_untouched(item) && print.is_some_and(|print| !found.contains_key(&print))
    };
    Ok((new, open.into_iter().filter(is_gone).collect()))
}

fn fingerprint(anomaly: &Anomaly) -> Fingerprint {
    Fingerprint::new(
        "",
        None,
        LABEL,
        &format!("{} {}", anomaly.kind, anomaly.subject),
    )
}

/// Whether neither a role nor the user has decided about an item.
const fn is_untouched(item: &WorkItem) -> bool {
    matches!(
        item.state,
        WorkItemState::Unverified | WorkItemState::NeedsPerson
    )
}

/// The item of an anomaly. It waits for a triage if a pool does that, otherwise for the user.
fn new_item(anomaly: &Anomaly, pools: &[PoolView]) -> NewWorkItem {
    let title: String = anomaly.message.chars().take(200).collect();
    let mut new = NewWorkItem {
        body: format!(
            "The invariant `{}` does not hold for {}.\n\n{}",
            anomaly.kind, anomaly.subject, anomaly.message
        ),
        priority: Priority::High,
        labels: BTreeSet::from([LABEL.to_owned()]),
        fingerprint: Some(fingerprint(anomaly)),
        ..NewWorkItem::new(&anomaly.project, WorkItemKind::Task, title)
    };
    let facts = ItemFacts {
        project: &new.project,
        kind: new.kind,
        state: WorkItemState::Unverified,
        priority: new.priority,
        milestone: None,
        points: None,
        labels: &new.labels,
    };
    if !pools.iter().any(|pool| pool.definition.takes(facts)) {
        new.state = WorkItemState::NeedsPerson;
    }
    new
}

/// Stores an item, or reopens the one of an earlier time.
fn file(unit: &mut UnitOfWork<'_>, new: &NewWorkItem, origin: &ChangeOrigin) -> Result<(), Error> {
    let closed = match new.fingerprint {
        Some(print) => work_items::last_closed(unit, &new.project, print)?,
        None => None,
    };
    if let Some(closed) = closed {
        let origin = origin.clone().because("the anomaly returned");
        if !work_items::transition(unit, &closed, WorkItemState::Unverified, &origin)? {
            return Ok(());
        }
        work_items::start_round(unit, closed.id)?;
        if new.state != WorkItemState::Unverified
            && let Some(reopened) = work_items::get(unit, closed.id)?
        {
            work_items::transition(unit, &reopened, new.state, &origin)?;
        }
        return mirror_item_fields(unit, closed.id);
    }
    // `None`: another process has filed it meanwhile.
    if let Some(id) = work_items::insert(unit, new, origin)?
        && let Some(item) = work_items::get(unit, id)?
    {
        mirror_item(unit, &item)?;
    }
    Ok(())
}
