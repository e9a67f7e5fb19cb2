//! `pool/plan`: what the next cycle would start, and why every other item waits. Changes nothing.

use std::collections::HashMap;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{PoolRole, WorkItemId, WorkItemState};
use cleveragents_store::{Error, work_items};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selected_pools;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::pool::plan_dispatches::{WaitReason, plan_dispatches};
use crate::pool::snapshot::PoolSnapshot;

/// Plans the next cycle without starting anything.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanPools {
    /// Only this pool; all pools together when not given.
    #[serde(default)]
    pub name: Option<String>,
    /// Maximum number of attempts of all pools together; the configured one when not given.
    #[serde(default)]
    pub capacity: Option<u64>,
}

/// An attempt that would start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedStart {
    pub item: WorkItemId,
    pub title: String,
    pub state: WorkItemState,
    pub pool: String,
    pub role: PoolRole,
    pub tier: String,
    pub actor: String,
    /// Number of the attempt within the tier.
    pub number: u32,
    /// Average cost of such attempts, or the budget of one.
    pub estimated_cost_usd: f64,
}

/// An item that would wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingItem {
    pub item: WorkItemId,
    pub title: String,
    pub state: WorkItemState,
    pub wait: WaitReason,
    /// The reason as a sentence.
    pub explanation: String,
}

/// The response of `pool/plan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolPlan {
    pub starts: Vec<PlannedStart>,
    pub waits: Vec<WaitingItem>,
    /// Sum of the estimated costs.
    pub estimated_cost_usd: f64,
}

impl Operation for PlanPools {
    const NAME: &'static str = "pool/plan";
    const SUMMARY: &'static str = "Show what the pools would start next, and why other items wait";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = PoolPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.name {
            Some(name) => resolver.name(name, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<PoolPlan, OperationError> {
        let definitions = selected_pools(context, self.name.as_deref())?;
        let capacity = self
            .capacity
            .unwrap_or_else(|| context.settings().plans.concurrency);
        context
            .engine()
            .read(|reader| {
                let snapshot = PoolSnapshot::read(reader, &definitions, capacity)?;
                let plan = plan_dispatches(&snapshot);
                let states: HashMap<WorkItemId, WorkItemState> = snapshot
                    .items
                    .iter()
                    .map(|item| (item.id, item.state))
                    .collect();
                let mut titles: HashMap<WorkItemId, String> = HashMap::new();
                for project in definitions.iter().map(|pool| pool.project.as_str()) {
                    titles.extend(work_items::open_titles(reader, project)?);
                }
                let about = |item: &WorkItemId| {
                    let title = titles.get(item).cloned().unwrap_or_default();
                    let state = states.get(item).copied();
                    (title, state.unwrap_or(WorkItemState::Unverified))
                };
                let starts: Vec<PlannedStart> = plan
                    .dispatches
                    .iter()
                    .map(|dispatch| {
                        let pool = &snapshot.pools[dispatch.pool].definition;
                        let (title, state) = about(&dispatch.item);
                        PlannedStart {
                            item: dispatch.item,
                            title,
                            state,
                            pool: pool.name.clone(),
                            role: pool.role,
                            tier: dispatch.tier.name.clone(),
                            actor: dispatch.tier.actor.clone(),
                            number: dispatch.number,
                            estimated_cost_usd: dispatch.estimated_cost.as_usd(),
                        }
                    })
                    .collect();
                let waits = plan
                    .waits
                    .iter()
                    .map(|(item, wait)| {
                        let (title, state) = about(item);
                        WaitingItem {
                            item: *item,
                            title,
                            state,
                            explanation: wait.to_string(),
                            wait: wait.clone(),
                        }
                    })
                    .collect();
                Ok::<_, Error>(PoolPlan {
                    estimated_cost_usd: starts.iter().map(|start| start.estimated_cost_usd).sum(),
                    starts,
                    waits,
                })
            })
            .map_err(Into::into)
    }
}
