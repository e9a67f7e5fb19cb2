//! [`escalate`]: hands items to the user when a rule requires it.

use cleveragents_domain::{
    Fingerprint, NewWorkItem, NextAttempt, PastAttempt, PoolDefinition, Timestamp, TransitionCause,
    WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{Engine, Error, UnitOfWork, attempts, pools, work_items};

use super::plan_dispatches::Escalation;
use crate::operation::OperationError;

/// Moves an item to the state that waits for the user, if the rule still holds. When all tiers failed, a post-mortem
/// item is opened, once per round.
pub(super) fn escalate(
    engine: &Engine,
    pool: &PoolDefinition,
    escalation: &Escalation,
) -> Result<bool, OperationError> {
    let (pool, escalation) = (pool.clone(), escalation.clone());
    Ok(engine.write(move |unit| escalate_in(unit, &pool, &escalation))?)
}

fn escalate_in(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    escalation: &Escalation,
) -> Result<bool, Error> {
    pools::lock_claims(unit)?;
    let Some(item) = work_items::get(unit, escalation.item)? else {
        return Ok(false);
    };
    let past = attempts::of_item(unit, item.id)?;
    let is_running = past.iter().any(|attempt| attempt.outcome.is_none());
    if item.state != escalation.state || is_running || !pool.takes((&item).into()) {
        return Ok(false);
    }
    let past: Vec<PastAttempt> = past.iter().map(Into::into).collect();
    let next = pool.tier_rule().next(pool.role, item.round, &past);
    let is_exhausted = matches!(next, NextAttempt::ReferToUser { .. });
    let waited = Timestamp::now().seconds_since(item.state_since);
    #[expect(clippy::cast_precision_loss, reason = "deadlines are below 100 years")]
    let is_overdue = waited > pool.limits.deadline_seconds as f64;
    if !is_exhausted && !is_overdue {
        return Ok(false);
    }
    let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name).because(&escalation.reason);
    if !work_items::transition(unit, &item, WorkItemState::NeedsPerson, &origin)? {
        return Ok(false);
    }
    if escalation.are_tiers_exhausted {
        let round = format!("{} round {}", item.id, item.round);
        let new = NewWorkItem {
            body: format!(
                "All tiers of the pool {} failed on the item {}. {}",
                pool.name, item.id, escalation.reason
            ),
            state: WorkItemState::NeedsPerson,
            parent: Some(item.id),
            milestone: item.milestone.clone(),
            fingerprint: Some(Fingerprint::new("", None, "post-mortem", &round)),
            ..NewWorkItem::new(
                &item.project,
                WorkItemKind::PostMortem,
                post_mortem_title(&item.title),
            )
        };
        work_items::insert(unit, &new, &origin)?;
    }
    Ok(true)
}

fn post_mortem_title(title: &str) -> String {
    let short: String = title.chars().take(250).collect();
    format!("Post-mortem: {short}")
}
