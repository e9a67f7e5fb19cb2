//! Starting and stopping the A2A part of a server: its lease, tasks of dead servers, and changes by other servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::SERVER_LEASE;
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, LeaseSubject, ProcessId, TaskId, TaskState, Ttl};

use super::{push, run};
use crate::app::App;
use crate::failure::Failure;
use crate::plan_driver;

/// Lifetime of the lease after its last renewal, in seconds. A server whose lease has expired counts as dead.
const LEASE_SECONDS: u32 = 30;

/// Poll interval for changes by other servers, and number of polls between two searches for dead servers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const POLLS_BETWEEN_TAKEOVERS: u32 = 20;

/// Takes the lease of this server, resumes tasks of dead servers, and starts to watch for changes.
pub(crate) async fn begin(app: &Arc<App>) -> Result<(), Failure> {
    let leases = app.services.leases();
    let lease = crate::blocking(move || {
        let ttl = Ttl::seconds(LEASE_SECONDS)
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let subject = LeaseSubject::new(SERVER_LEASE, ProcessId::generate());
        leases
            .acquire(subject, ttl)
            .map_err(|error| Failure::from_error(&error))
    })
    .await?;
    app.tasks.hold(lease);
    take_over(app).await?;
    tokio::spawn(push::deliver_all(Arc::clone(app)));
    tokio::spawn(watch(Arc::clone(app)));
    Ok(())
}

/// Releases the lease of this server, so that other servers take over its tasks at once.
pub(crate) async fn end(app: &Arc<App>) {
    if let Some(lease) = app.tasks.take_lease() {
        crate::blocking(move || drop(lease)).await;
    }
}

/// Resumes tasks of dead servers. A task fails if its caller no longer has a valid token.
async fn take_over(app: &Arc<App>) -> Result<(), Failure> {
    let inner = Arc::clone(app);
    let orphans = crate::blocking(move || {
        let tasks = inner.services.tasks();
        let orphans = tasks
            .take_over_orphans(inner.tasks.runner())
            .map_err(|error| Failure::from_error(&error))?;
        orphans
            .into_iter()
            .map(|task| Ok((caller(&inner, &task.identity)?, task)))
            .collect::<Result<Vec<_>, Failure>>()
    })
    .await?;
    for (caller, task) in orphans {
        if let Some(caller) = caller {
            run::start(app, &caller, &task);
            continue;
        }
        let (inner, id) = (Arc::clone(app), task.id);
        crate::blocking(move || {
            let reason = "the server stopped, and the caller's token is no longer valid";
            let (tasks, runner) = (inner.services.tasks(), inner.tasks.runner());
            let failed = tasks.change_state(id, runner, TaskState::Failed, Some(reason));
            inner.tasks.wake(id);
            failed
        })
        .await?;
    }
    Ok(())
}

/// The caller of a request that a dead server accepted, with its current roles; `None` if it has no valid token.
pub(crate) fn caller(app: &App, identity: &str) -> Result<Option<Arc<Caller>>, Failure> {
    if identity == app.services.identity() && app.options.insecure_local {
        return Ok(Some(Arc::new(Caller::local(identity))));
    }
    Ok(app.services.tokens().caller(identity)?.map(Arc::new))
}

/// Watches other servers: wakes the subscribers of changed tasks, stops tasks that were cancelled elsewhere, and takes
/// over from dead servers.
async fn watch(app: Arc<App>) {
    let mut previous_counts: HashMap<TaskId, u64> = HashMap::new();
    let mut round = 0_u32;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        round = round.wrapping_add(1);
        if round.is_multiple_of(POLLS_BETWEEN_TAKEOVERS) && !app.shutdown.has_started() {
            // The next round retries after an error.
            let _taken = take_over(&app).await;
            let _taken = plan_driver::take_over(&app).await;
        }
        let mut ids = app.tasks.all_watched();
        ids.extend(app.tasks.all_running());
        if ids.is_empty() {
            previous_counts.clear();
            continue;
        }
        let tasks = app.services.tasks();
        let records = crate::blocking(move || tasks.get_all(&ids)).await;
        let Ok(records) = records else { continue };
        let mut current_counts = HashMap::new();
        for task in records {
            let id = task.id;
            let is_own = task.runner == app.tasks.runner();
            if (task.state.is_over() || !is_own) && app.tasks.is_running(id) {
                app.tasks.stop(id);
            }
            if previous_counts
                .get(&id)
                .is_some_and(|count| *count != task.update_count)
                || task.state.is_over()
            {
                app.tasks.wake(id);
            }
            current_counts.insert(id, task.update_count);
        }
        previous_counts = current_counts;
    }
}
