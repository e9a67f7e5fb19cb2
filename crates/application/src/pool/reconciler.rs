//! [`Reconciler`]: the loop that recovers, plans, claims and runs. It holds no state that matters: after a crash, any
//! other one continues from the store.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_domain::{AttemptId, AttemptOutcome, PoolDefinition, PoolState, WorkItemId};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, pools};

use super::attempt_result::{StoredAttemptResult, store_result};
use super::claim::{Claim, ClaimRequest, claim};
use super::dispatch::{Dispatch, RoleRunner};
use super::escalate::escalate;
use super::plan_dispatches::{DispatchPlan, plan_dispatches};
use super::recover::recover_interrupted;
use super::snapshot::PoolSnapshot;
use super::watch::{find_anomalies, update_alerts};
use crate::lease::{HeldLease, LeaseService};
use crate::operation::OperationError;

/// Time between two cycles when nothing finishes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Time to wait for further results after the first one, so that one cycle serves several workers.
const BATCH_INTERVAL: Duration = Duration::from_millis(3);

/// Number of consecutive cycles that may fail before the loop ends.
const MAX_FAILED_CYCLES: u32 = 10;

/// Number of consecutive cycles without a start after which a loop that runs until it is idle ends, although items
/// seem to be left.
const MAX_IDLE_CYCLES: u32 = 500;

/// Maximum number of items that one claim tries.
const CLAIM_ALTERNATES: usize = 32;

/// Progress events for front ends.
#[derive(Debug)]
pub enum PoolEvent<'a> {
    Started(&'a Dispatch),
    Settled {
        dispatch: &'a Dispatch,
        settled: &'a StoredAttemptResult,
    },
    /// The result was discarded: another worker has the item.
    LostLease(&'a Dispatch),
    /// The attempt of a dead process was ended.
    Recovered(WorkItemId),
    /// An item was handed to the user.
    Escalated {
        item: WorkItemId,
        reason: &'a str,
    },
}

/// Settings of a run of the loop.
pub struct ReconcilerOptions<'a> {
    /// Maximum number of attempts of all pools together, on all machines.
    pub capacity: u64,
    /// Whether the loop ends when nothing runs and nothing can start.
    pub until_idle: bool,
    /// Only pools with these names; all if empty.
    pub only: Vec<String>,
    pub observer: &'a (dyn Fn(&PoolEvent<'_>) + Sync),
    /// Ends the loop and cancels its attempts.
    pub cancel: &'a Cancel,
}

/// Number of attempts that a run of the loop ended, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolRunSummary {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Attempts that were cancelled, interrupted or lost their lease.
    pub interrupted: u64,
    pub escalated: u64,
    /// Claims that found nothing to start, because another scheduler was faster.
    pub wasted_claims: u64,
}

/// The definitions that a cycle uses.
pub type PoolDefinitions<'a> =
    &'a (dyn Fn() -> Result<Vec<Arc<PoolDefinition>>, OperationError> + Sync);

/// Dispatches the items of pools.
pub struct Reconciler<'a> {
    engine: Arc<Engine>,
    leases: LeaseService,
    definitions: PoolDefinitions<'a>,
    runner: &'a dyn RoleRunner,
    options: ReconcilerOptions<'a>,
    running: Mutex<HashMap<AttemptId, RunningHere>>,
    summary: Mutex<PoolRunSummary>,
}

/// An attempt that runs in this process.
struct RunningHere {
    pool: String,
    cancel: Cancel,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Reconciler<'a> {
    /// A loop over the pools that `definitions` returns.
    pub fn new(
        engine: Arc<Engine>,
        definitions: PoolDefinitions<'a>,
        runner: &'a dyn RoleRunner,
        options: ReconcilerOptions<'a>,
    ) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
            definitions,
            runner,
            options,
            running: Mutex::default(),
            summary: Mutex::default(),
        }
    }

    /// Runs cycles until the loop is cancelled, or idle if `until_idle` is set.
    pub fn run(self) -> Result<PoolRunSummary, OperationError> {
        self.leases.announce();
        let (finished, results) = channel();
        std::thread::scope(|scope| -> Result<(), OperationError> {
            let (mut idle_cycles, mut failed_cycles) = (0, 0);
            while !self.options.cancel.is_cancelled() {
                match self.run_cycle(scope, &finished) {
                    Ok(0) if lock(&self.running).is_empty() => idle_cycles += 1,
                    Ok(_) => (idle_cycles, failed_cycles) = (0, 0),
                    // A busy database is no reason to end the loop, a damaged one is.
                    Err(error) if failed_cycles < MAX_FAILED_CYCLES => {
                        tracing::warn!(%error, "a cycle of the pools failed");
                        failed_cycles += 1;
                    }
                    Err(error) => return Err(error),
                }
                if self.options.until_idle
                    && idle_cycles > 0
                    && (idle_cycles > MAX_IDLE_CYCLES || !self.is_any_left()?)
                {
                    break;
                }
                self.wait(&results);
            }
            Ok(())
        })?;
        Ok(*lock(&self.summary))
    }

    /// Whether attempts of other processes run, or something could start now.
    fn is_any_left(&self) -> Result<bool, OperationError> {
        let snapshot = self.snapshot()?;
        let plan = plan_dispatches(&snapshot);
        let is_own = |name: &str| {
            snapshot
                .pools
                .iter()
                .any(|pool| pool.definition.name == name)
        };
        Ok(!plan.dispatches.is_empty()
            || !plan.escalations.is_empty()
            || snapshot.running.iter().any(|attempt| is_own(&attempt.pool)))
    }

    fn wait(&self, results: &Receiver<()>) {
        if lock(&self.running).is_empty() && self.options.until_idle {
            // Nothing runs here, so nothing will report; another process may finish soon.
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
        if let Err(RecvTimeoutError::Timeout) = results.recv_timeout(POLL_INTERVAL) {
            return;
        }
        while results.recv_timeout(BATCH_INTERVAL).is_ok() {}
    }

    /// The registered pools that the options select.
    fn selected(&self) -> Result<Vec<Arc<PoolDefinition>>, OperationError> {
        let mut all = (self.definitions)()?;
        let only = &self.options.only;
        all.retain(|pool| only.is_empty() || only.contains(&pool.name));
        Ok(all)
    }

    fn snapshot(&self) -> Result<PoolSnapshot, OperationError> {
        let (definitions, capacity) = (self.selected()?, self.options.capacity);
        Ok(self
            .engine
            .read(|reader| PoolSnapshot::read(reader, &definitions, capacity))?)
    }

    /// One cycle. Returns the number of attempts that it started.
    fn run_cycle<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        finished: &Sender<()>,
    ) -> Result<u64, OperationError> {
        let by_name = (self.definitions)()?
            .into_iter()
            .map(|pool| (pool.name.clone(), pool))
            .collect();
        for item in recover_interrupted(&self.engine, &self.leases, &by_name)? {
            (self.options.observer)(&PoolEvent::Recovered(item));
        }
        let snapshot = self.snapshot()?;
        self.cancel_stopped(&snapshot);
        let plan = plan_dispatches(&snapshot);
        for escalation in &plan.escalations {
            let pool = &snapshot.pools[escalation.pool].definition;
            if escalate(&self.engine, pool, escalation)? {
                lock(&self.summary).escalated += 1;
                (self.options.observer)(&PoolEvent::Escalated {
                    item: escalation.item,
                    reason: &escalation.reason,
                });
            }
        }
        if self.options.only.is_empty() {
            update_alerts(&self.engine, &find_anomalies(&snapshot, &plan))?;
            self.finish_drained(&snapshot)?;
        }
        self.start_planned(scope, finished, &snapshot, &plan)
    }

    fn start_planned<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        finished: &Sender<()>,
        snapshot: &PoolSnapshot,
        plan: &DispatchPlan,
    ) -> Result<u64, OperationError> {
        let mut started = 0;
        for planned in &plan.dispatches {
            if self.options.cancel.is_cancelled() {
                break;
            }
            let mut items = vec![planned.item];
            if let Some(rest) = plan.alternates.get(&planned.pool) {
                items.extend(rest.iter().take(CLAIM_ALTERNATES));
            }
            let request = ClaimRequest {
                pool: Arc::clone(&snapshot.pools[planned.pool].definition),
                items,
                owner: self.leases.owner().clone(),
                capacity: self.options.capacity,
            };
            match claim(&self.engine, request)? {
                Claim::Nothing => lock(&self.summary).wasted_claims += 1,
                Claim::Started(claimed) => {
                    started += 1;
                    lock(&self.summary).started += 1;
                    let (dispatch, lease) = *claimed;
                    let held = self.leases.keep(lease, dispatch.pool.limits.lease_ttl);
                    let cancel = self.options.cancel.child();
                    lock(&self.running).insert(
                        dispatch.attempt.id,
                        RunningHere {
                            pool: dispatch.pool.name.clone(),
                            cancel: cancel.clone(),
                        },
                    );
                    let finished = finished.clone();
                    scope.spawn(move || {
                        self.run_dispatch(&dispatch, held, &cancel);
                        lock(&self.running).remove(&dispatch.attempt.id);
                        // The loop may have ended already.
                        let _sent = finished.send(());
                    });
                }
            }
        }
        Ok(started)
    }

    fn run_dispatch(&self, dispatch: &Dispatch, lease: HeldLease, cancel: &Cancel) {
        (self.options.observer)(&PoolEvent::Started(dispatch));
        let guard = lease.guard(cancel);
        let report = self.runner.run(dispatch, cancel);
        drop(guard);
        let settled = store_result(&self.engine, dispatch, report, cancel.is_cancelled());
        let mut summary = lock(&self.summary);
        match &settled {
            Ok(settled) => match settled.outcome {
                AttemptOutcome::Succeeded => summary.succeeded += 1,
                AttemptOutcome::Cancelled => summary.interrupted += 1,
                _ => summary.failed += 1,
            },
            Err(_) => summary.interrupted += 1,
        }
        drop(summary);
        match settled {
            Ok(settled) => {
                lease.forget();
                (self.options.observer)(&PoolEvent::Settled {
                    dispatch,
                    settled: &settled,
                });
            }
            Err(error) => {
                tracing::warn!(item = %dispatch.item.id, attempt = %dispatch.attempt.id, %error, "result discarded");
                (self.options.observer)(&PoolEvent::LostLease(dispatch));
                // Released, so that the next cycle ends the attempt as interrupted.
                drop(lease);
            }
        }
    }

    /// Cancels the attempts of stopped pools that run in this process.
    fn cancel_stopped(&self, snapshot: &PoolSnapshot) {
        let is_stopped = |name: &str| {
            snapshot
                .pools
                .iter()
                .any(|pool| pool.definition.name == name && pool.state == PoolState::Stopped)
        };
        for attempt in lock(&self.running).values() {
            if is_stopped(&attempt.pool) {
                attempt.cancel.cancel();
            }
        }
    }

    /// Pauses draining pools that have nothing left to finish.
    fn finish_drained(&self, snapshot: &PoolSnapshot) -> Result<(), OperationError> {
        for pool in &snapshot.pools {
            let name = &pool.definition.name;
            let is_busy = snapshot.running.iter().any(|attempt| attempt.pool == *name)
                || snapshot.items.iter().any(|item| {
                    item.state.has_open_change() && pool.definition.takes(item.facts())
                });
            if pool.state != PoolState::Draining || is_busy {
                continue;
            }
            let name = name.clone();
            self.engine.write(move |unit| {
                let from = [PoolState::Draining];
                pools::set_state(unit, &name, &from, PoolState::Paused, Some("drained"))
            })?;
        }
        Ok(())
    }
}
