//! [`ItemRun`]: takes one work item through the roles in the foreground, for one user without a worker.
//!
//! The engine claims and completes an attempt, like that of a worker, so that a worker and this command never attempt one
//! item at the same time.

use std::sync::Arc;

use cleveragents_domain::{
    Attempt, Code, NextAttempt, PastAttempt, PoolDefinition, PoolState, TransitionCause, WorkItem,
    WorkItemId, WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{Engine, attempts, pools, work_items};

use crate::lease::LeaseService;
use crate::operation::OperationError;
use crate::pool::RoleRunner;
use crate::pool::attempt_result::store_result;
use crate::pool::claim::{Claim, ClaimRequest, claim};

/// Start of the names of pools in the foreground. They have no definition, so that no worker dispatches them.
const FOREGROUND: &str = "local/foreground-";

/// Runs roles on one item after the other.
pub(crate) struct ItemRun<'a> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runner: &'a dyn RoleRunner,
    pub(crate) cancel: &'a Cancel,
}

/// The result of an attempt.
pub(crate) struct ItemAttempt {
    pub(crate) attempt: Attempt,
    pub(crate) item: WorkItem,
}

/// The end of a step of an item.
pub(crate) enum ItemStep {
    Attempted(Box<ItemAttempt>),
    /// No attempt can start.
    Stopped(String),
}

impl ItemRun<'_> {
    pub(crate) fn item(&self, id: WorkItemId) -> Result<WorkItem, OperationError> {
        let found = self.engine.read(|reader| work_items::get(reader, id))?;
        found.ok_or_else(|| {
            let message = format!("the work item {id} does not exist");
            OperationError::new(Code::WorkItemNotFound, message)
        })
    }

    /// Makes one attempt of a role on an item.
    pub(crate) fn attempt(
        &self,
        definition: &PoolDefinition,
        id: WorkItemId,
    ) -> Result<ItemStep, OperationError> {
        let mut pool = definition.clone();
        pool.name = format!("{FOREGROUND}{}", pool.role);
        self.activate(&pool.name)?;
        let leases = LeaseService::new(Arc::clone(&self.engine));
        leases.announce();
        let request = ClaimRequest {
            pool: Arc::new(pool.clone()),
            items: vec![id],
            owner: leases.owner().clone(),
            capacity: u64::MAX,
        };
        let before = self.item(id)?;
        let (dispatch, lease) = match claim(&self.engine, request)? {
            Claim::Started(claimed) => *claimed,
            Claim::Nothing => return self.explain(&pool, &before),
        };
        let held = leases.keep(lease, pool.limits.lease_ttl);
        let cancel = self.cancel.child();
        let guard = held.guard(&cancel);
        let report = self.runner.run(&dispatch, &cancel);
        drop(guard);
        store_result(&self.engine, &dispatch, report, cancel.is_cancelled())?;
        // The lease was released with the result.
        held.forget();
        let attempt = dispatch.attempt.id;
        let attempt = self.engine.read(|reader| attempts::get(reader, attempt))?;
        let attempt = attempt.ok_or_else(|| OperationError::internal("an attempt is missing"))?;
        Ok(ItemStep::Attempted(Box::new(ItemAttempt {
            attempt,
            item: self.item(id)?,
        })))
    }

    /// Stores the state of a pool in the foreground, which claims require.
    fn activate(&self, name: &str) -> Result<(), OperationError> {
        let name = name.to_owned();
        self.engine
            .write(move |unit| pools::insert(unit, &name, PoolState::Active).map(drop))?;
        Ok(())
    }

    /// The reason why an attempt did not start. An item that used all tiers waits for a user.
    fn explain(
        &self,
        pool: &PoolDefinition,
        before: &WorkItem,
    ) -> Result<ItemStep, OperationError> {
        let id = before.id;
        let item = self.item(id)?;
        if item.state != before.state {
            // The claim changed its state, for example because this state of the change was reviewed before.
            return Ok(ItemStep::Stopped(format!("the item is {} now", item.state)));
        }
        let past: Vec<PastAttempt> = self.engine.read(|reader| {
            let attempts = attempts::of_item(reader, id)?;
            Ok::<_, cleveragents_store::Error>(attempts.iter().map(PastAttempt::from).collect())
        })?;
        if past.iter().any(|attempt| attempt.outcome.is_none()) {
            let message = format!("another attempt on the work item {id} runs");
            return Err(OperationError::new(Code::PlanBusy, message));
        }
        let next = pool.tier_rule().next(pool.role, item.round, &past);
        let NextAttempt::ReferToUser { reason, .. } = next else {
            let reason = "a dependency, a budget or a failing base prevents the next attempt";
            return Ok(ItemStep::Stopped(reason.to_owned()));
        };
        let origin = ChangeOrigin::new(TransitionCause::Rule, &pool.name).because(&reason);
        self.engine.write(move |unit| {
            work_items::transition(unit, &item, WorkItemState::NeedsPerson, &origin).map(drop)
        })?;
        Ok(ItemStep::Stopped(reason))
    }
}
