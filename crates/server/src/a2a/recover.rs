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

/// Time after the last renewal of its lease during which a server counts as alive.
const LEASE_SECONDS: u32 = 30;

/// Poll interval for changes by other servers, and how many polls come between two searches for servers that died.
const POLL: Duration = Duration::from_millis(500);
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

/// Releases the lease of this server, so that others take over its tasks at once.
pub(crate) async fn end(app: &Arc<App>) {
    if let Some(lease) = app.tasks.take_lease() {
        crate::blocking(move || drop(lease)).await;
    }
}

/// Resumes tasks of dead servers. A task whose caller has no valid token any more fails.
async fn take_over(app: &Arc<App>) -> Result<(), Failure> {
    let inner = Arc::clone(app);
    let taken = crate::blocking(move || {
        let tasks = inner.services.tasks();
        let taken = tasks
            .take_over_orphans(inner.tasks.runner())
            .map_err(|error| Failure::from_error(&error))?;
        taken
            .into_iter()
            .map(|task| Ok((caller(&inner, &task.identity)?, task)))
            .collect::<Result<Vec<_>, Failure>>()
    })
    .await?;
    for (caller, task) in taken {
        if let Some(caller) = caller {
            run::start(app, &caller, &task);
            continue;
        }
        let (inner, id) = (Arc::clone(app), task.id);
        crate::blocking(move || {
            let why = "the server stopped, and the caller's token is no longer valid";
            let (tasks, runner) = (inner.services.tasks(), inner.tasks.runner());
            let failed = tasks.change_state(id, runner, TaskState::Failed, Some(why));
            inner.tasks.wake(id);
            failed
        })
        .await?;
    }
    Ok(())
}

/// The caller of a request of a dead server, with its current roles.
pub(crate) fn caller(app: &App, identity: &str) -> Result<Option<Arc<Caller>>, Failure> {
    if identity == app.services.identity() && app.options.insecure_local {
        return Ok(Some(Arc::new(Caller::local(identity))));
    }
    Ok(app.services.tokens().caller(identity)?.map(Arc::new))
}

/// Watches other servers: wakes the subscribers of changed tasks, stops tasks that were cancelled elsewhere, and takes
/// over from dead servers.
async fn watch(app: Arc<App>) {
    let mut seen: HashMap<TaskId, u64> = HashMap::new();
    let mut round = 0_u32;
    loop {
        tokio::time::sleep(POLL).await;
        round = round.wrapping_add(1);
        if round.is_multiple_of(POLLS_BETWEEN_TAKEOVERS) && !app.shutdown.has_started() {
            // The next round retries.
            let _taken = take_over(&app).await;
            let _taken = plan_driver::take_over(&app).await;
        }
        let mut wanted = app.tasks.all_watched();
        wanted.extend(app.tasks.all_running());
        if wanted.is_empty() {
            seen.clear();
            continue;
        }
        let tasks = app.services.tasks();
        let found = crate::blocking(move || tasks.get_all(&wanted)).await;
        let Ok(found) = found else { continue };
        let mut now = HashMap::new();
        for task in found {
            let id = task.id;
            let is_mine = task.runner == app.tasks.runner();
            if (task.state.is_over() || !is_mine) && app.tasks.is_running(id) {
                app.tasks.stop(id);
            }
            if seen
                .get(&id)
                .is_some_and(|count| *count != task.update_count)
                || task.state.is_over()
            {
                app.tasks.wake(id);
            }
            now.insert(id, task.update_count);
        }
        seen = now;
    }
}
