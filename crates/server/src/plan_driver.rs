//! Runs plans for callers. A request is stored before it is acknowledged, so that a restarted server, or a worker,
//! resumes plans of a dead server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cleveragents_application::plan_operations::ExecutePlan;
use cleveragents_application::{PlanError, QueueEntry, ServerClaim, stays_queued};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, PlanId, ProcessId};

use crate::a2a;
use crate::app::App;
use crate::failure::Failure;
use crate::fair_queue::Slot;
use crate::problem::Problem;

/// Delay before a failed attempt is retried.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// A pending wait for a slot.
type PendingSlot = Pin<Box<dyn Future<Output = Result<Slot, Problem>> + Send>>;

/// Queues a plan for this server. Returns once the request is stored, without waiting for the plan.
pub(crate) async fn enqueue(
    app: &Arc<App>,
    caller: &Arc<Caller>,
    plan: PlanId,
) -> Result<(), Problem> {
    let mut pending = acquire_slot(app, caller);
    // A rejection is reported to the caller now; otherwise the wait for a slot continues in the background.
    if let Poll::Ready(slot) = futures_util::poll!(pending.as_mut()) {
        pending = Box::pin(std::future::ready(Ok(slot?)));
    }
    let entry = queue_entry(app, caller.identity());
    let (queue, stored) = (app.services_of(caller).plan_queue(), entry.clone());
    crate::blocking(move || queue.enqueue(plan, &stored))
        .await
        .map_err(|error| Problem::from_error(&error))?;
    let driver = PlanDriver {
        app: Arc::clone(app),
        caller: Arc::clone(caller),
        plan,
        entry,
    };
    crate::spawn_task(driver.run(pending));
    Ok(())
}

fn acquire_slot(app: &Arc<App>, caller: &Arc<Caller>) -> PendingSlot {
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    Box::pin(async move { app.acquire_slot(&caller).await })
}

/// The queue entry for a plan that this server runs for a caller.
fn queue_entry(app: &App, identity: &str) -> QueueEntry {
    QueueEntry {
        served: Some(ServerClaim {
            server: app.tasks.runner().to_owned(),
            identity: identity.to_owned(),
            request: ProcessId::generate().to_string(),
        }),
        ..QueueEntry::default()
    }
}

/// Takes over plans of dead servers.
pub(crate) async fn take_over(app: &Arc<App>) -> Result<(), Failure> {
    let inner = Arc::clone(app);
    let claimed = crate::blocking(move || claim_orphans(&inner)).await?;
    for (plan, caller, entry) in claimed {
        let pending = acquire_slot(app, &caller);
        let app = Arc::clone(app);
        let driver = PlanDriver {
            app,
            caller,
            plan,
            entry,
        };
        tokio::spawn(driver.run(pending));
    }
    Ok(())
}

fn claim_orphans(app: &App) -> Result<Vec<(PlanId, Arc<Caller>, QueueEntry)>, Failure> {
    let failed = |error: PlanError| Failure::from_error(&error);
    let queue = app.services.plan_queue();
    let mut claimed = Vec::new();
    for (plan, previous) in queue.all().map_err(failed)? {
        let Some(served) = &previous.served else {
            continue;
        };
        if queue.is_served(&previous).map_err(failed)? {
            continue;
        }
        let caller = a2a::caller(app, &served.identity)?;
        let new_entry = caller
            .as_ref()
            .map(|caller| queue_entry(app, caller.identity()));
        // If the caller has no valid token, the plan is released and stays unchanged.
        let is_ours = queue
            .replace_if_equal(plan.id, &previous, new_entry.as_ref())
            .map_err(failed)?;
        if let (true, Some(caller), Some(new_entry)) = (is_ours, caller, new_entry) {
            tracing::info!(plan = %plan.id, from = served.server, "took over the plan of a dead server");
            claimed.push((plan.id, caller, new_entry));
        }
    }
    Ok(claimed)
}

/// A plan that this server runs.
struct PlanDriver {
    app: Arc<App>,
    caller: Arc<Caller>,
    plan: PlanId,
    entry: QueueEntry,
}

impl PlanDriver {
    /// Runs the plan once it gets a slot, and retries while another process works on it. The plan itself stores its
    /// result.
    async fn run(self, mut pending: PendingSlot) {
        loop {
            let outcome = match pending.await {
                Ok(slot) => self.run_once(slot).await,
                Err(problem) => Err(problem),
            };
            let is_stopping = self.app.shutdown.has_started();
            let runs_again = outcome
                .err()
                .and_then(|problem| Code::parse(&problem.code))
                .is_some_and(|code| stays_queued(code, is_stopping));
            if !runs_again {
                break;
            }
            if self.pause().await || !self.is_assigned().await {
                return;
            }
            pending = acquire_slot(&self.app, &self.caller);
        }
        // Releases the plan; retried until the database stores it.
        while self.release().await.is_err() {
            if self.pause().await {
                return;
            }
        }
    }

    async fn run_once(&self, slot: Slot) -> Result<(), Problem> {
        let context = self.app.application.for_caller(Caller::clone(&self.caller));
        let request = ExecutePlan {
            reference: Some(self.plan.to_string()),
            ..ExecutePlan::default()
        };
        self.app
            .run_in(slot, move |cancel| {
                let response = context.cancelled_by(cancel).call(request);
                response
                    .map(drop)
                    .map_err(|error| Problem::from_error(&error))
            })
            .await
    }

    /// Waits for the retry delay. Returns `true` if the server is stopping and leaves the plan to the next server.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.app.shutdown.started() => true,
            () = tokio::time::sleep(RETRY_DELAY) => false,
        }
    }

    /// True if the plan is still assigned to this server, or if the database does not respond.
    async fn is_assigned(&self) -> bool {
        let queue = self.app.services.plan_queue();
        let (plan, entry) = (self.plan, self.entry.clone());
        let assigned = crate::blocking(move || queue.is_queued_as(plan, &entry)).await;
        assigned.unwrap_or(true)
    }

    async fn release(&self) -> Result<(), PlanError> {
        let queue = self.app.services_of(&self.caller).plan_queue();
        let (plan, entry) = (self.plan, self.entry.clone());
        crate::blocking(move || queue.replace_if_equal(plan, &entry, None).map(drop)).await
    }
}
