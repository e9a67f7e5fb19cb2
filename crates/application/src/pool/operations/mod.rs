//! The operations on pools.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod control;
mod plan;
mod references;
mod status;

use std::sync::Arc;

use cleveragents_domain::identity::Scope;
use cleveragents_domain::{
    MicroUsd, PoolDefinition, PoolRole, PoolState, Tier, Timestamp, WorkItemState,
};
use cleveragents_store::pools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use control::{DrainPool, PausePool, PoolStateChange, ResumePool, StopPool};
pub use plan::{PlanPools, PlannedStart, PoolPlan, WaitingItem};
pub use status::{
    BurnDownDay, PoolAlertInfo, PoolBoard, PoolLane, PoolStatusRequest, StateCount, TierSuccess,
};

use super::service::PoolService;
use crate::definition::{
    DefinitionText, RegisteredDefinition, add_request, remove_confirmed, remove_request,
    show_request,
};
use crate::operation::{
    Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    namespace_of,
};
use crate::resource::{Outcome, Register};

/// The operations on pools.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddPool>(),
    OperationEntry::new::<DrainPool>(),
    OperationEntry::new::<ListPools>(),
    OperationEntry::new::<PausePool>(),
    OperationEntry::new::<PlanPools>(),
    OperationEntry::new::<PoolStatusRequest>(),
    OperationEntry::new::<RemovePool>(),
    OperationEntry::new::<ResumePool>(),
    OperationEntry::new::<ShowPool>(),
    OperationEntry::new::<StopPool>(),
];

pub(in crate::pool) fn service(context: &OperationContext) -> PoolService {
    PoolService::new(context.engine())
}

/// The valid pools that the caller may read: all, or the one with a name.
pub(in crate::pool) fn selected_pools(
    context: &OperationContext,
    name: Option<&str>,
) -> Result<Vec<Arc<PoolDefinition>>, OperationError> {
    let visible = context.visible(Scope::Registry);
    let only = match name {
        Some(name) => {
            let found = service(context).find_stored(name, context.variables())?;
            Some(found.name)
        }
        None => None,
    };
    let registered = service(context).list_registered(context.variables())?;
    Ok(registered
        .into_iter()
        .filter(|pool| visible.contains(namespace_of(&pool.stored.name)))
        .filter(|pool| only.as_ref().is_none_or(|only| pool.stored.name == *only))
        .filter_map(|pool| pool.definition.ok().map(Arc::new))
        .collect())
}

/// A pool in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedPool {
    pub name: String,
    pub state: PoolState,
    /// Content of the file; missing if it is no longer valid.
    #[serde(flatten)]
    pub definition: Option<ListedPoolDefinition>,
    /// Error in the file, if it is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Content of a pool's file that lists show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedPoolDefinition {
    pub role: PoolRole,
    pub project: String,
    pub description: String,
    pub workers: u32,
    pub tiers: Vec<Tier>,
}

/// A pool with its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolInfo {
    #[serde(flatten)]
    pub summary: ListedPool,
    #[serde(flatten)]
    pub details: Option<PoolDetails>,
    /// Reason of the state.
    pub reason: Option<String>,
    /// File that the definition was read from.
    pub config: String,
    pub version: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// Content of a pool's file that lists do not show. Amounts are in US dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolDetails {
    pub states: Vec<WorkItemState>,
    pub action: Option<String>,
    pub reviewer: Option<String>,
    pub attempts_per_tier: u32,
    pub open_changes: Option<u32>,
    pub downstream: Vec<StateCount>,
    pub deadline_seconds: u64,
    pub lease_seconds: u32,
    pub weight: u32,
    pub minimum_workers: u32,
    pub budget_attempt: f64,
    pub budget_item: Option<f64>,
    pub budget_day: Option<f64>,
    pub budget_total: Option<f64>,
    pub required_gates: Vec<String>,
}

impl From<&PoolDefinition> for PoolDetails {
    fn from(pool: &PoolDefinition) -> Self {
        let usd = |amount: Option<MicroUsd>| amount.map(MicroUsd::as_usd);
        Self {
            states: pool.states.clone(),
            action: pool.action.clone(),
            reviewer: pool.reviewer.clone(),
            attempts_per_tier: pool.attempts_per_tier,
            open_changes: pool.limits.open_changes,
            downstream: pool
                .limits
                .downstream
                .iter()
                .map(|(state, limit)| StateCount {
                    state: *state,
                    count: u64::from(*limit),
                })
                .collect(),
            deadline_seconds: pool.limits.deadline_seconds,
            lease_seconds: pool.limits.lease_ttl.as_seconds(),
            weight: pool.share.weight,
            minimum_workers: pool.share.minimum,
            budget_attempt: pool.budgets.attempt.as_usd(),
            budget_item: usd(pool.budgets.item),
            budget_day: usd(pool.budgets.day),
            budget_total: usd(pool.budgets.total),
            required_gates: pool.outcomes.required_gates.clone(),
        }
    }
}

fn listed(registered: &RegisteredDefinition<PoolDefinition>, state: PoolState) -> ListedPool {
    let read = &registered.definition;
    ListedPool {
        name: registered.stored.name.clone(),
        state,
        definition: read.as_ref().ok().map(|pool| ListedPoolDefinition {
            role: pool.role,
            project: pool.project.clone(),
            description: pool.description.clone(),
            workers: pool.limits.workers,
            tiers: pool.tiers.clone(),
        }),
        problem: read.as_ref().err().map(ToString::to_string),
    }
}

fn info(context: &OperationContext, name: &str) -> Result<PoolInfo, OperationError> {
    let registered = service(context).get_registered(name, context.variables())?;
    let name = registered.stored.name.clone();
    let status = context.engine().read(|reader| pools::get(reader, &name))?;
    let state = status
        .as_ref()
        .map_or(PoolState::Stopped, |status| status.state);
    Ok(PoolInfo {
        summary: listed(&registered, state),
        details: registered.definition.as_ref().ok().map(PoolDetails::from),
        reason: status.and_then(|status| status.reason),
        config: registered.stored.source,
        version: registered.stored.version,
        created: registered.stored.created_at,
        updated: registered.stored.updated_at,
    })
}

/// The response of `pool/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedPool {
    pub pool: PoolInfo,
    pub outcome: Outcome,
}

add_request! {
    /// Registers a pool.
    AddPool("pool/add", "Register a pool") -> AddedPool;
    update: "Replace a pool of the same name.";
    run: add;
}

fn add(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<AddedPool, OperationError> {
    // Errors in the file itself are reported by the registration.
    if let Ok(definition) = PoolDefinition::read(new.text, context.variables()) {
        references::check_references(context, &definition)?;
    }
    let added = service(context).add(new.text, new.source, register, context.variables())?;
    Ok(AddedPool {
        pool: info(context, &added.stored.name)?,
        outcome: added.outcome,
    })
}

/// The response of `pool/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownPool {
    pub pool: PoolInfo,
}

show_request! {
    /// Shows a pool with its limits.
    ShowPool("pool/show", "Show a pool with its limits") -> ShownPool;
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ShownPool, OperationError> {
    Ok(ShownPool {
        pool: info(context, name)?,
    })
}

remove_request! {
    /// Removes a pool that runs no attempt. Its items stay.
    RemovePool("pool/remove", "Remove a pool; its items stay");
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<crate::operation::RemovedDefinition, OperationError> {
    remove_confirmed(
        &service(context),
        context.variables(),
        name,
        yes,
        |_| Ok(()),
    )
}

/// Lists pools by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListPools {}

/// The response of `pool/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PoolList {
    pub pools: Vec<ListedPool>,
}

impl Operation for ListPools {
    const NAME: &'static str = "pool/list";
    const SUMMARY: &'static str = "List pools";
    const REQUIREMENT: Requirement =
        Requirement::registry(cleveragents_domain::identity::Permission::Read);
    type Response = PoolList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<PoolList, OperationError> {
        let visible = context.visible(Scope::Registry);
        let states = context.engine().read(|reader| pools::list(reader))?;
        let registered = service(context).list_registered(context.variables())?;
        let pools = registered
            .iter()
            .filter(|pool| visible.contains(namespace_of(&pool.stored.name)))
            .map(|pool| {
                let found = states.iter().find(|found| found.name == pool.stored.name);
                listed(pool, found.map_or(PoolState::Stopped, |found| found.state))
            })
            .collect();
        Ok(PoolList { pools })
    }
}
