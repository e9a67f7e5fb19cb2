//! The operation `pool/run`: dispatches the items of pools until it is stopped or nothing is left to do.

use std::sync::Arc;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{AttemptOutcome, PoolDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operations::{requires, runner};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::pool::operations::service;
use crate::pool::{PoolEvent, Reconciler, ReconcilerOptions};

/// Dispatches the items of active pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunPools {
    /// Only the pool with this name.
    #[serde(default)]
    pub name: Option<String>,
    /// Maximum number of attempts of all pools together; `plan.concurrency` when not given.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// Whether to wait for further items when nothing runs and nothing can start.
    #[serde(default)]
    pub keep_waiting: bool,
}

/// Number of attempts that a run of the pools ended, by outcome.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PoolRun {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Attempts that were cancelled, interrupted or lost their lease.
    pub interrupted: u64,
    /// Items that were handed to the user.
    pub escalated: u64,
}

impl Operation for RunPools {
    const NAME: &'static str = "pool/run";
    const SUMMARY: &'static str =
        "Run active pools: start attempts on their items until nothing is left to do";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = PoolRun;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("name")?;
        match &mut self.name {
            Some(name) => resolver.name(name, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<PoolRun, OperationError> {
        let only = match &self.name {
            Some(name) => vec![
                service(context)
                    .find_stored(name, context.variables())?
                    .name,
            ],
            None => Vec::new(),
        };
        let definitions = || registered_pools(context);
        let front_end = context.front_end();
        let summary = Reconciler::new(
            context.engine(),
            &definitions,
            &runner(context),
            ReconcilerOptions {
                capacity: self
                    .capacity
                    .unwrap_or_else(|| context.settings().plans.concurrency),
                until_idle: !self.keep_waiting,
                only,
                observer: &|event| {
                    if let Some(line) = event_line(event) {
                        front_end.observer.note(&line);
                    }
                },
                cancel: context.cancel(),
            },
        )
        .run()?;
        Ok(PoolRun {
            started: summary.started,
            succeeded: summary.succeeded,
            failed: summary.failed,
            interrupted: summary.interrupted,
            escalated: summary.escalated,
        })
    }
}

/// The registered pools whose definitions are valid.
fn registered_pools(
    context: &OperationContext,
) -> Result<Vec<Arc<PoolDefinition>>, OperationError> {
    let registered = service(context).list_registered(context.variables())?;
    let valid = registered
        .into_iter()
        .filter_map(|pool| pool.definition.ok());
    Ok(valid.map(Arc::new).collect())
}

/// An event as a line for the user; `None` for events that have no effect.
fn event_line(event: &PoolEvent<'_>) -> Option<String> {
    Some(match event {
        PoolEvent::Started(dispatch) => format!(
            "{}: attempt {} on {} \u{201c}{}\u{201d} with {}",
            dispatch.pool.name,
            dispatch.attempt.number,
            dispatch.item.id,
            dispatch.item.title,
            dispatch.tier.name
        ),
        PoolEvent::Settled { dispatch, settled } => {
            let outcome = settled.outcome;
            let reason = settled
                .reason
                .as_deref()
                .filter(|_| outcome != AttemptOutcome::Succeeded);
            let reason = reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            format!(
                "{}: {} {}, now {}{reason}",
                dispatch.pool.name,
                dispatch.item.id,
                outcome.as_str(),
                settled.state
            )
        }
        PoolEvent::Recovered(item) => format!("{item}: its attempt was interrupted"),
        PoolEvent::Escalated { item, reason } => format!("{item} needs a decision: {reason}"),
        PoolEvent::LostLease(_) => return None,
    })
}
