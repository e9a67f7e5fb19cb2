//! The operation `pool/run`: dispatches the items of pools until it is stopped or nothing is left to do.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{AttemptOutcome, PoolDefinition};
use cleveragents_process::Cancel;
use cleveragents_store::pools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operations::{requires, runner};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::pool::operations::{selected_pools, service};
use crate::pool::{PoolEvent, PoolRunSummary, Reconciler, ReconcilerOptions};
use crate::tracker::TrackerExchange;
use crate::tracker::operations::trackers;

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
    /// Maximum number of attempts in this process; only `capacity` when not given.
    #[serde(default)]
    pub own_limit: Option<u64>,
    /// Whether to wait for further items when nothing runs and nothing can start.
    #[serde(default)]
    pub keep_waiting: bool,
}

/// Result of a pool run: the number of attempts by outcome.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PoolRun {
    /// Number of pools that could start attempts at the end of the run.
    pub active_pools: u64,
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
        let summary = self.run_with_trackers(context, only.clone())?;
        let states = context.engine().read(|reader| pools::list(reader))?;
        let is_active = |name: &String| {
            let mut states = states.iter();
            states.any(|pool| pool.name == *name && pool.state.may_start())
        };
        let definitions = selected_pools(context, only.first().map(String::as_str))?;
        let active = definitions.iter().filter(|pool| is_active(&pool.name));
        Ok(PoolRun {
            active_pools: active.count() as u64,
            started: summary.started,
            succeeded: summary.succeeded,
            failed: summary.failed,
            interrupted: summary.interrupted,
            escalated: summary.escalated,
        })
    }
}

impl RunPools {
    /// Dispatches attempts. Trackers are synchronized before the first attempt, and then while attempts run.
    fn run_with_trackers(
        &self,
        context: &OperationContext,
        only: Vec<String>,
    ) -> Result<PoolRunSummary, OperationError> {
        let pools = RegisteredPools {
            context,
            invalid: Mutex::default(),
        };
        let front_end = context.front_end();
        let note = |line: &str| {
            tracing::info!("{line}");
            front_end.observer.note(line);
        };
        let projects = || pools.projects();
        let exchange = TrackerExchange {
            engine: context.engine(),
            trackers: trackers(context),
            projects: &projects,
            note: &note,
        };
        exchange.run_once(&mut HashMap::new(), context.cancel());
        let definitions = || pools.definitions();
        let runner = runner(context);
        let observer = |event: &PoolEvent<'_>| {
            if let Some(line) = event_line(event) {
                note(&line);
            }
        };
        let reconciler = Reconciler::new(
            context.engine(),
            &definitions,
            &runner,
            ReconcilerOptions {
                capacity: self
                    .capacity
                    .unwrap_or_else(|| context.settings().plans.concurrency),
                own_limit: self.own_limit,
                until_idle: !self.keep_waiting,
                only,
                observer: &observer,
                cancel: context.cancel(),
            },
        );
        let is_over = context.cancel().child();
        let summary = std::thread::scope(|scope| {
            scope.spawn(|| exchange.run(&is_over));
            let summary = reconciler.run();
            is_over.cancel();
            summary
        });
        // Delivers the results of the last attempts to the trackers. After a cancellation, the next process does this.
        if !context.cancel().is_cancelled() {
            exchange.deliver(&Cancel::new());
        }
        summary
    }
}

/// The registered pools of a run.
struct RegisteredPools<'a> {
    context: &'a OperationContext,
    /// Names of pools whose files are no longer valid; each is reported once.
    invalid: Mutex<HashSet<String>>,
}

impl RegisteredPools<'_> {
    /// The pools whose files are valid.
    fn definitions(&self) -> Result<Vec<Arc<PoolDefinition>>, OperationError> {
        let registered = service(self.context).list_registered(self.context.variables())?;
        let mut valid = Vec::with_capacity(registered.len());
        for pool in registered {
            match pool.definition {
                Ok(definition) => valid.push(Arc::new(definition)),
                Err(error) => self.note_invalid(pool.stored.name, &error.to_string()),
            }
        }
        Ok(valid)
    }

    fn note_invalid(&self, name: String, error: &str) {
        let line = format!("{name}: not run, because its file is not valid: {error}");
        let mut invalid = self.invalid.lock().unwrap_or_else(PoisonError::into_inner);
        if invalid.insert(name) {
            tracing::warn!("{line}");
            self.context.front_end().observer.note(&line);
        }
    }

    /// The projects of the valid pools; none if they cannot be read.
    fn projects(&self) -> BTreeSet<String> {
        let definitions = self.definitions().unwrap_or_default();
        let projects = definitions.iter();
        projects.map(|pool| pool.project.clone()).collect()
    }
}

/// An event as a line for the user; `None` for a lost lease, after which nothing is stored.
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
                .map(|reason| format!(": {}", shortened(reason)))
                .unwrap_or_default();
            format!(
                "{}: {} {}, now {}{reason}",
                dispatch.pool.name,
                dispatch.item.id,
                words(outcome.as_str()),
                words(settled.state.as_str())
            )
        }
        PoolEvent::Recovered(item) => format!("{item}: its attempt was interrupted"),
        PoolEvent::Escalated { item, reason } => {
            format!("{item} needs a decision: {}", shortened(reason))
        }
        PoolEvent::LostLease(_) => return None,
    })
}

/// A stored name as words.
fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The first line of a reason, shortened; the item contains the complete reason.
fn shortened(reason: &str) -> String {
    const SHOWN: usize = 160;
    let line = reason.lines().next().unwrap_or_default();
    if line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    let start: String = line.chars().take(SHOWN).collect();
    format!("{}\u{2026}", start.trim_end())
}
