//! [`PlanExecutionContext`]: the changesets of one plan run.
//!
//! A caller records changes through the handle of the changeset that it opened, so concurrent threads cannot mix their
//! changes. Under a lease, every write carries the fencing token: a run that lost its lease cannot record anything.

use std::sync::Arc;

use cleveragents_domain::{
    ChangeEntry, Changeset, ChangesetId, Code, Diagnose, EntryNumber, Hint, LeaseSubject,
    LeaseToken, NewChange, PlanId,
};
use cleveragents_store::{Engine, changesets, leases, plans};
use serde_json::{Value, json};

use super::registry::{Ledger, Registry};
use crate::lease::HeldLease;

/// Errors of recording a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// No changeset is open.
    #[error("No active changeset. Call start_changeset() first.")]
    NoActiveChangeset,
    /// The changeset is closed.
    #[error("changeset {0} is closed")]
    Closed(ChangesetId),
    /// The changeset does not exist.
    #[error("changeset {0} does not exist")]
    ChangesetNotFound(ChangesetId),
    /// The plan does not exist.
    #[error("plan {0} does not exist")]
    PlanNotFound(PlanId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ContextError {
    fn code(&self) -> Code {
        match self {
            Self::NoActiveChangeset => Code::NoActiveChangeset,
            Self::Closed(_) => Code::ChangesetClosed,
            Self::ChangesetNotFound(_) => Code::ChangesetNotFound,
            Self::PlanNotFound(_) => Code::PlanNotFound,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoActiveChangeset | Self::Closed(_) => {
                Some("open a changeset with start_changeset()".into())
            }
            Self::Store(error) => error.hint(),
            Self::ChangesetNotFound(_) | Self::PlanNotFound(_) => None,
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Closed(id) | Self::ChangesetNotFound(id) => json!({"changeset_id": id}),
            Self::PlanNotFound(id) => json!({"plan_id": id}),
            Self::Store(error) => error.details(),
            Self::NoActiveChangeset => Value::Null,
        }
    }
}

/// The store as a [`Ledger`](super::registry::Ledger).
struct ChangesetLedger {
    engine: Arc<Engine>,
    plan: PlanId,
    fence: Option<(LeaseSubject, LeaseToken)>,
}

impl Ledger for ChangesetLedger {
    type Id = ChangesetId;
    type Change = NewChange;
    type Number = EntryNumber;
    type Error = ContextError;

    fn open(&self) -> Result<ChangesetId, ContextError> {
        let (plan, fence) = (self.plan, self.fence.clone());
        let id = ChangesetId::generate();
        self.engine.write(move |unit| {
            if let Some((subject, token)) = &fence {
                leases::require(unit, subject, *token)?;
            }
            changesets::open(unit, id, Some(plan))?;
            Ok(id)
        })
    }

    fn record(
        &self,
        id: ChangesetId,
        change: &NewChange,
    ) -> Result<Option<EntryNumber>, ContextError> {
        let (change, fence) = (change.clone(), self.fence.clone());
        self.engine.write(move |unit| {
            if let Some((subject, token)) = &fence {
                leases::require(unit, subject, *token)?;
            }
            Ok(changesets::record(unit, id, &change)?)
        })
    }
}

impl ChangesetLedger {
    fn close(&self, id: ChangesetId) -> Result<Option<Changeset>, ContextError> {
        let fence = self.fence.clone();
        self.engine.write(move |unit| {
            if let Some((subject, token)) = &fence {
                leases::require(unit, subject, *token)?;
            }
            Ok(changesets::close(unit, id)?)
        })
    }
}

/// The changesets of one plan run. Cheap to clone; all clones share one context.
#[derive(Clone)]
pub struct PlanExecutionContext {
    registry: Arc<Registry<ChangesetLedger>>,
}

impl PlanExecutionContext {
    /// Creates a context for a run of a stored plan.
    pub fn new(engine: Arc<Engine>, plan: PlanId) -> Result<Self, ContextError> {
        Self::with_fence(engine, plan, None)
    }

    /// Creates a context whose writes fail after the lease is lost.
    pub fn under_lease(
        engine: Arc<Engine>,
        plan: PlanId,
        lease: &HeldLease,
    ) -> Result<Self, ContextError> {
        Self::with_fence(engine, plan, Some((lease.subject().clone(), lease.token())))
    }

    fn with_fence(
        engine: Arc<Engine>,
        plan: PlanId,
        fence: Option<(LeaseSubject, LeaseToken)>,
    ) -> Result<Self, ContextError> {
        if engine.read(|reader| plans::get(reader, plan))?.is_none() {
            return Err(ContextError::PlanNotFound(plan));
        }
        let registry = Arc::new(Registry::new(ChangesetLedger {
            engine,
            plan,
            fence,
        }));
        Ok(Self { registry })
    }

    /// Stores a new plan without action, which only owns changesets.
    pub fn create_plan(engine: &Engine) -> Result<PlanId, ContextError> {
        let id = PlanId::generate();
        engine.write(move |unit| {
            plans::insert(unit, &plans::NewPlan::empty(id))?;
            Ok(id)
        })
    }

    /// The plan of this run.
    pub fn plan(&self) -> PlanId {
        self.registry.ledger().plan
    }

    /// Stores a new changeset and returns the handle that records changes in it.
    pub fn start_changeset(&self) -> Result<OpenChangeset, ContextError> {
        let id = self.registry.start()?;
        Ok(OpenChangeset {
            id,
            registry: Arc::clone(&self.registry),
        })
    }

    /// Records a change in the most recent open changeset, for callers without a handle.
    pub fn record_change(
        &self,
        change: &NewChange,
    ) -> Result<(ChangesetId, EntryNumber), ContextError> {
        self.registry
            .record_in_most_recent(change)?
            .ok_or(ContextError::NoActiveChangeset)
    }

    /// The open changesets of this run, most recent last.
    pub fn active_changesets(&self) -> Vec<ChangesetId> {
        self.registry.active()
    }

    /// All changesets of the plan, including those of earlier runs and other processes.
    pub fn changesets(&self) -> Result<Vec<Changeset>, ContextError> {
        let ledger = self.registry.ledger();
        Ok(ledger
            .engine
            .read(|reader| changesets::of_plan(reader, ledger.plan))?)
    }

    /// At most `limit` entries of a changeset, starting at number `from`, in order.
    pub fn entries(
        &self,
        id: ChangesetId,
        from: EntryNumber,
        limit: u64,
    ) -> Result<Vec<ChangeEntry>, ContextError> {
        self.registry.ledger().engine.read(|reader| {
            if changesets::get(reader, id)?.is_none() {
                return Err(ContextError::ChangesetNotFound(id));
            }
            Ok(changesets::entries(reader, id, from, limit)?)
        })
    }
}

/// The handle of an open changeset. Closing the changeset consumes the handle.
pub struct OpenChangeset {
    id: ChangesetId,
    registry: Arc<Registry<ChangesetLedger>>,
}

impl OpenChangeset {
    pub const fn id(&self) -> ChangesetId {
        self.id
    }

    /// Records a change in this changeset.
    pub fn record(&self, change: &NewChange) -> Result<EntryNumber, ContextError> {
        self.registry
            .ledger()
            .record(self.id, change)?
            .ok_or(ContextError::Closed(self.id))
    }

    /// Closes the changeset, which then accepts no more entries.
    pub fn close(self) -> Result<Changeset, ContextError> {
        let closed = self.registry.ledger().close(self.id)?;
        self.registry.forget(self.id);
        closed.ok_or(ContextError::Closed(self.id))
    }
}
