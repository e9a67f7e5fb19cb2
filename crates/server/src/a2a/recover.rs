//! What is done when a server starts and while it is there: tasks of servers that are dead are taken over, and what
//! other servers do with tasks is noticed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{LeaseService, SERVER_LEASE};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, LeaseSubject, ProcessId, TaskId, TaskState, Timestamp, Ttl};
use cleveragents_store::tasks::Task;
use cleveragents_store::{Error, tasks, tokens};

use super::tasks::OPEN;
use super::{push, run};
use crate::app::App;
use crate::driving;
use crate::program::Failure;

/// How long a server is taken for alive without a word of it.
const ALIVE_SECONDS: u32 = 30;

/// How often is looked for what other servers did, and for those that died.
const LOOK: Duration = Duration::from_millis(500);
const ROUNDS_BETWEEN_TAKEOVERS: u32 = 20;

/// Takes the lease that says that this server is there, goes on with what dead ones left, and keeps watch.
pub(crate) async fn begin(app: &Arc<App>) -> Result<(), Failure> {
    let engine = Arc::clone(&app.engine);
    let lease = crate::blocking(move || {
        let ttl = Ttl::seconds(ALIVE_SECONDS)
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let subject = LeaseSubject::new(SERVER_LEASE, ProcessId::generate());
        LeaseService::new(engine)
            .acquire(subject, ttl)
            .map_err(|error| Failure::of(&error))
    })
    .await?;
    app.tasks.hold(lease);
    take_over(app).await?;
    tokio::spawn(push::deliver(Arc::clone(app)));
    tokio::spawn(watch(Arc::clone(app)));
    Ok(())
}

/// Says that this server is there no more: others take over what it left at once.
pub(crate) async fn end(app: &Arc<App>) {
    if let Some(lease) = app.tasks.take_lease() {
        crate::blocking(move || drop(lease)).await;
    }
}

/// Takes over what dead servers worked on.
async fn take_over(app: &Arc<App>) -> Result<(), Failure> {
    let inner = Arc::clone(app);
    let taken = crate::blocking(move || taken(&inner)).await?;
    for (task, caller) in taken {
        if let Some(caller) = caller {
            run::start(app, &caller, &task);
            continue;
        }
        let (inner, id) = (Arc::clone(app), task.id);
        crate::blocking(move || {
            let why = "the server ended, and who asked may not ask any more";
            let (engine, failed) = (&inner.engine, TaskState::Failed);
            inner.tasks.change(engine, id, OPEN, failed, Some(why))
        })
        .await?;
    }
    Ok(())
}

/// A task that was taken over, with who asked for it, if they still may.
type Taken = (Task, Option<Arc<Caller>>);

/// The tasks that were taken over, with who asked for them.
fn taken(app: &App) -> Result<Vec<Taken>, Failure> {
    let open = app.engine.read(|reader| tasks::open(reader))?;
    let leases = LeaseService::new(Arc::clone(&app.engine));
    let mut is_alive: HashMap<String, bool> = HashMap::new();
    let mut taken = Vec::new();
    for task in open {
        let lives = if let Some(lives) = is_alive.get(&task.runner) {
            *lives
        } else {
            let subject = LeaseSubject::new(SERVER_LEASE, &task.runner);
            let worker = leases.worker(&subject);
            let lives = worker.map_err(|error| Failure::of(&error))?.is_some();
            is_alive.insert(task.runner.clone(), lives);
            lives
        };
        if lives {
            continue;
        }
        let (id, from, me) = (task.id, task.runner.clone(), app.tasks.runner().to_owned());
        let is_ours = app
            .engine
            .write(move |unit| tasks::take_over(unit, id, &from, &me))?;
        if is_ours {
            let caller = caller(app, &task.identity)?;
            taken.push((task, caller));
        }
    }
    Ok(taken)
}

/// Who asked for something that a dead server left, with what they may do today.
pub(crate) fn caller(app: &App, identity: &str) -> Result<Option<Arc<Caller>>, Failure> {
    if identity == app.engine.identity() && app.options.insecure_local {
        return Ok(Some(Arc::new(Caller::local(identity))));
    }
    let all = app.engine.read(|reader| tokens::list(reader, false))?;
    Ok(all
        .into_iter()
        .find(|token| token.name == identity && token.is_valid_at(Timestamp::now()))
        .map(|token| Arc::new(Caller::with_token(token.name, token.grants, token.scopes))))
}

/// Notices what other servers do: wakes who watches a task that changed, stops what was cancelled elsewhere, and takes
/// over from those that died.
async fn watch(app: Arc<App>) {
    let mut seen: HashMap<TaskId, u64> = HashMap::new();
    let mut round = 0_u32;
    loop {
        tokio::time::sleep(LOOK).await;
        round = round.wrapping_add(1);
        if round.is_multiple_of(ROUNDS_BETWEEN_TAKEOVERS) && !app.ending.is_near() {
            // The next round tries again.
            let _taken = take_over(&app).await;
            let _taken = driving::take_over(&app).await;
        }
        let mut wanted = app.tasks.all_watched();
        wanted.extend(app.tasks.all_running());
        if wanted.is_empty() {
            seen.clear();
            continue;
        }
        let engine = Arc::clone(&app.engine);
        let found = crate::blocking(move || {
            engine.read(|reader| {
                wanted
                    .into_iter()
                    .map(|id| tasks::get(reader, id))
                    .collect::<Result<Vec<_>, Error>>()
            })
        });
        let Ok(found) = found.await else { continue };
        let mut now = HashMap::new();
        for task in found.into_iter().flatten() {
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
