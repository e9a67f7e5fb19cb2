//! [`PlanQueue`]: plans that are left to others: to whichever worker comes first, or to a server that drives them for
//! who asked it. What a server took on is stored before it says so, so that it is not forgotten when the server dies.

use std::sync::Arc;

use cleveragents_domain::{LeaseSubject, Plan, PlanId};
use cleveragents_store::plans::PlanFilter;
use cleveragents_store::{Engine, Error, plans};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::PlanError;
use super::service::over;
use crate::lease::LeaseService;
use crate::run::UnknownOutcome;

/// What the lease is for that says that a server lives.
pub const SERVER_LEASE: &str = "server";

/// How a plan that is left to others is driven, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queued {
    /// Whether a call of which nobody knows whether it was done is done again.
    pub redo: bool,
    /// Whether such a call is taken for done.
    pub skip: bool,
    /// The server that took it on, and for whom. Nobody else drives it while that server lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
}

/// A plan that a server drives for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// What the lease of the server is for.
    pub server: String,
    /// Who asked.
    pub identity: String,
    /// Differs for each time that it was asked for.
    pub request: String,
}

impl Queued {
    /// What a plan is left to others for, if it is.
    pub fn of(plan: &Plan) -> Option<Self> {
        let how = plan.queued_for.clone()?;
        Some(serde_json::from_value(how).unwrap_or_default())
    }

    /// What to do about calls whose outcome is unknown.
    pub const fn unknown_outcome(&self) -> UnknownOutcome {
        match (self.redo, self.skip) {
            (true, _) => UnknownOutcome::Retry,
            (_, true) => UnknownOutcome::AssumeDone,
            _ => UnknownOutcome::Ask,
        }
    }

    fn document(&self) -> Result<Value, PlanError> {
        serde_json::to_value(self)
            .map_err(|error| Error::Internal(format!("a queue entry: {error}")).into())
    }
}

/// Plans that are left to others.
#[derive(Debug, Clone)]
pub struct PlanQueue {
    engine: Arc<Engine>,
}

impl PlanQueue {
    /// The plans of a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Leaves a plan to others, however it was left before.
    pub fn leave(&self, id: PlanId, how: &Queued) -> Result<(), PlanError> {
        let how = how.document()?;
        self.engine.write(move |unit| {
            // Nobody can end it before the unit does.
            let plan = plans::locked(unit, id)?.ok_or(PlanError::NotFound(id))?;
            if plan.stage.is_terminal() {
                return Err(over(&plan));
            }
            plans::wait_no_more(unit, id)?;
            Ok(plans::queue(unit, id, Some(&how))?)
        })
    }

    /// Leaves a plan to somebody else, or to nobody, if it is still left to others as it `was`; says whether it was.
    pub fn pass_on(
        &self,
        id: PlanId,
        was: &Queued,
        now: Option<&Queued>,
    ) -> Result<bool, PlanError> {
        let was = was.document()?;
        let now = now.map(Queued::document).transpose()?;
        Ok(self.engine.write(move |unit| {
            let plan = plans::locked(unit, id)?;
            let is_so = plan.is_some_and(|plan| plan.queued_for.as_ref() == Some(&was));
            if is_so {
                plans::queue(unit, id, now.as_ref())?;
            }
            Ok::<_, Error>(is_so)
        })?)
    }

    /// Whether a plan is still left to others as `how` says.
    pub fn is_queued_as(&self, id: PlanId, how: &Queued) -> Result<bool, PlanError> {
        let plan = self.engine.read(|reader| plans::get(reader, id))?;
        Ok(plan.is_some_and(|plan| Queued::of(&plan).as_ref() == Some(how)))
    }

    /// The plans that are left to others.
    pub fn all(&self) -> Result<Vec<(Plan, Queued)>, PlanError> {
        let filter = PlanFilter {
            is_queued: true,
            ..PlanFilter::default()
        };
        let found = self.engine.read(|reader| plans::list(reader, &filter))?;
        Ok(found
            .into_iter()
            .filter_map(|plan| Queued::of(&plan).map(|how| (plan, how)))
            .collect())
    }

    /// Whether a server that lives has taken a plan on.
    pub fn is_served(&self, how: &Queued) -> Result<bool, PlanError> {
        let Some(served) = &how.served else {
            return Ok(false);
        };
        let subject = LeaseSubject::new(SERVER_LEASE, &served.server);
        let leases = LeaseService::new(Arc::clone(&self.engine));
        Ok(leases.worker(&subject)?.is_some())
    }
}
