//! [`PlanGuard`]: what limits a plan, and how much of it is used up.

use cleveragents_domain::{AutomationGuard, AutomationProfile, MicroUsd, Plan, PlanId, StepState};
use cleveragents_store::plans;

use super::{BookError, PlanBook};

/// How much of its limits a plan has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Money, as far as it is known.
    pub cost: MicroUsd,
    /// Whether the price of every model that was asked is known.
    pub is_cost_known: bool,
    /// Calls of tools, in all.
    pub tool_calls: u64,
    /// Calls of tools since the step that is being done began; nothing when none is.
    pub tool_calls_in_step: Option<u64>,
}

/// What limits a plan.
#[derive(Debug)]
pub struct PlanGuard {
    /// The plan.
    pub plan: Plan,
    /// The automation profile as it was when the plan was made; nothing when it cannot be read.
    pub profile: Option<AutomationProfile>,
    /// Its guards; none of them limits anything when it has no guards.
    pub guards: AutomationGuard,
    /// What the plan may cost at most, by whatever is tighter.
    pub max_cost: Option<MicroUsd>,
    /// How much is used up.
    pub spent: Spent,
}

impl PlanBook {
    /// Whether the price of every model that a plan asked is known.
    pub fn is_cost_known(&self, id: PlanId) -> Result<bool, BookError> {
        let is_unknown = self.engine.read(|reader| plans::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// What limits a plan.
    pub fn guard(&self, plan: Plan) -> Result<PlanGuard, BookError> {
        let profile: Option<AutomationProfile> = plan
            .made_with
            .action
            .is_some()
            .then(|| plan.made_with.profile.snapshot.clone());
        let guards = profile
            .as_ref()
            .and_then(|profile| profile.guards.clone())
            .unwrap_or_default();
        let own = plan.made_with.max_cost_micro_usd.map(MicroUsd);
        let max_cost = match (own, guards.max_total_cost) {
            (Some(own), Some(other)) => Some(MicroUsd(own.0.min(other.0))),
            (own, other) => own.or(other),
        };
        let running = self
            .steps(plan.id)?
            .into_iter()
            .find(|step| step.state == StepState::Running && step.undone_by.is_none());
        let tool_calls_in_step = match running {
            Some(step) => {
                let calls = self.calls(plan.id)?;
                let begun = calls
                    .iter()
                    .filter(|call| call.started_at >= step.started_at);
                Some(begun.count() as u64)
            }
            None => None,
        };
        let spent = Spent {
            cost: plan.usage.cost_micro_usd,
            is_cost_known: self.is_cost_known(plan.id)?,
            tool_calls: plan.tool_calls,
            tool_calls_in_step,
        };
        Ok(PlanGuard {
            plan,
            profile,
            guards,
            max_cost,
            spent,
        })
    }
}
