//! `plan/guard` and `plan/limit-cost`.

use std::collections::BTreeMap;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{AutomationGate, MicroUsd, PlanId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::PlanGuard;
use crate::runtime::parse_usd;

/// Shows the limits of a plan and their usage.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowPlanGuard {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// Sets the cost limit of a plan. It applies from the next `plan/execute` on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitPlanCost {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// US dollars, such as `2.50`.
    pub max_cost: String,
}

/// The response of `plan/guard` and `plan/limit-cost`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanGuardReport {
    pub plan_id: PlanId,
    pub profile: GuardProfile,
    pub read_only: bool,
    pub guards: GuardLimits,
    /// `null` when the automation profile is unknown.
    pub flags: Option<ProfileDemands>,
    /// The confidence, from 0 to 1, below which each gate asks for approval. `null` when the automation profile
    /// is unknown.
    pub thresholds: Option<BTreeMap<AutomationGate, f64>>,
    pub spent: GuardUsage,
}

/// The automation profile of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GuardProfile {
    pub name: String,
    /// Origin of the profile: `CLI flag`, `action`, `project` or `global`.
    pub source: String,
}

/// The limits of a plan; `null` means no limit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GuardLimits {
    pub tool_denylist: Vec<String>,
    /// The only tools that may be called; `null` allows all.
    pub tool_allowlist: Option<Vec<String>>,
    pub max_tool_calls_per_step: Option<u64>,
    /// US dollars, set by the automation profile.
    pub max_total_cost: Option<f64>,
    /// US dollars, set for the plan itself.
    pub max_cost_per_plan: Option<f64>,
    pub require_approval_for_writes: bool,
    pub require_approval_for_apply: bool,
}

/// The requirements of the automation profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDemands {
    pub require_sandbox: bool,
    pub require_checkpoints: bool,
    pub allow_unsafe_tools: bool,
    /// Maximum number of retries of a step.
    pub max_retries: u32,
    /// Maximum number of fixes of failed validations.
    pub validation_retries: u32,
}

/// The usage that counts against the limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GuardUsage {
    /// US dollars; `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    pub tool_calls: u64,
    /// Tool calls since the running step started; `null` if no step runs.
    pub tool_calls_in_step: Option<u64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl From<PlanGuard> for PlanGuardReport {
    fn from(guard: PlanGuard) -> Self {
        let inputs = guard.plan.inputs;
        let (guards, spent) = (guard.guards, guard.spent);
        let (cost, is_known) = (spent.cost.as_usd(), spent.is_cost_known);
        Self {
            plan_id: guard.plan.id,
            profile: GuardProfile {
                name: inputs.profile.name,
                source: inputs.profile.source,
            },
            read_only: inputs.read_only,
            guards: GuardLimits {
                tool_denylist: guards.tool_denylist,
                tool_allowlist: guards.tool_allowlist,
                max_tool_calls_per_step: guards.max_tool_calls_per_step,
                max_total_cost: guards.max_total_cost.map(MicroUsd::as_usd),
                max_cost_per_plan: inputs
                    .max_cost_micro_usd
                    .map(|limit| MicroUsd(limit).as_usd()),
                require_approval_for_writes: guards.require_approval_for_writes,
                require_approval_for_apply: guards.require_approval_for_apply,
            },
            flags: guard.profile.as_ref().map(|profile| ProfileDemands {
                require_sandbox: profile.require_sandbox,
                require_checkpoints: profile.require_checkpoints,
                allow_unsafe_tools: profile.allow_unsafe_tools,
                max_retries: profile.max_retries,
                validation_retries: profile.validation_retries,
            }),
            thresholds: guard.profile.as_ref().map(|profile| {
                let gates = AutomationGate::ALL.into_iter();
                gates
                    .map(|gate| (gate, profile.thresholds.threshold(gate)))
                    .collect()
            }),
            spent: GuardUsage {
                cost_usd: is_known.then_some(cost),
                tool_calls: spent.tool_calls,
                tool_calls_in_step: spent.tool_calls_in_step,
                cost_known: (!is_known).then_some(false),
                cost_known_part: (!is_known).then_some(cost),
            },
        }
    }
}

impl Operation for ShowPlanGuard {
    const NAME: &'static str = "plan/guard";
    const SUMMARY: &'static str = "Show the limits of a plan and their usage";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanGuardReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanGuardReport, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        Ok(context.plans().guard(plan)?.into())
    }
}

impl Operation for LimitPlanCost {
    const NAME: &'static str = "plan/limit-cost";
    const SUMMARY: &'static str = "Set the cost limit of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = PlanGuardReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanGuardReport, OperationError> {
        let limit = parse_usd(&self.max_cost)?;
        let plan = find_chosen(context, self.reference.as_deref())?;
        let plan = context.plan_control().limit_cost(plan.id, limit)?;
        Ok(context.plans().guard(plan)?.into())
    }
}
