//! [`PlanGuard`]: the limits of a plan and their usage.

use cleveragents_domain::{AutomationGuard, AutomationProfile, MicroUsd, Plan, PlanId, StepState};
use cleveragents_store::plans;

use super::{PlanQueries, PlanQueryError};

/// The usage that counts against the limits of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitUsage {
    /// The known part of the cost.
    pub cost: MicroUsd,
    /// True if the price of every called model is known.
    pub is_cost_known: bool,
    /// Number of all tool calls.
    pub tool_calls: u64,
    /// Number of tool calls since the running step started; `None` if no step runs.
    pub tool_calls_in_step: Option<u64>,
}

#[derive(Debug)]
pub struct PlanGuard {
    pub plan: Plan,
    /// The automation profile at the creation of the plan; `None` for a plan without action.
    pub profile: Option<AutomationProfile>,
    /// The guards of the profile. A profile without guards limits nothing.
    pub guards: AutomationGuard,
    /// The lowest cost limit: of the plan or of its profile.
    pub max_cost: Option<MicroUsd>,
    /// The usage so far.
    pub spent: LimitUsage,
}

impl PlanQueries {
    /// True if the price of every model that a plan called is known.
    pub fn is_cost_known(&self, id: PlanId) -> Result<bool, PlanQueryError> {
        let is_unknown = self.engine.read(|reader| plans::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// The limits of a plan and their usage.
    pub fn guard(&self, plan: Plan) -> Result<PlanGuard, PlanQueryError> {
        let profile: Option<AutomationProfile> = plan
            .inputs
            .action
            .is_some()
            .then(|| plan.inputs.profile.snapshot.clone());
        let guards = profile
            .as_ref()
            .and_then(|profile| profile.guards.clone())
            .unwrap_or_default();
        let plan_limit = plan.inputs.max_cost_micro_usd.map(MicroUsd);
        let max_cost = match (plan_limit, guards.max_total_cost) {
            (Some(plan_limit), Some(other)) => Some(MicroUsd(plan_limit.0.min(other.0))),
            (plan_limit, other) => plan_limit.or(other),
        };
        let running = self
            .steps(plan.id)?
            .into_iter()
            .find(|step| step.state == StepState::Running && step.undone_by.is_none());
        let tool_calls_in_step = match running {
            Some(step) => {
                let calls = self.calls(plan.id)?;
                let started = calls
                    .iter()
                    .filter(|call| call.started_at >= step.started_at);
                Some(started.count() as u64)
            }
            None => None,
        };
        let spent = LimitUsage {
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
