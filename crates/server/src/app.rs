//! [`App`]: state that all requests share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_application::{Application, EventScope, Services, SessionService};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, SessionId};
use cleveragents_process::Cancel;
use tokio::sync::{Notify, Semaphore};

use crate::a2a::TaskRegistry;
use crate::api::Appender;
use crate::callers::Callers;
use crate::fair_queue::{FairQueue, Slot};
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::problem::Problem;
use crate::usage_metrics::MetricsCache;

/// Maximum number of cached session namespaces. The namespace of a session never changes.
const REMEMBERED: usize = 10_000;

/// State that all requests share.
pub(crate) struct App {
    pub(crate) application: Application,
    pub(crate) services: Services,
    pub(crate) options: Options,
    /// The public address of the server, without a trailing slash.
    pub(crate) url: String,
    pub(crate) callers: Callers,
    pub(crate) slots: FairQueue,
    pub(crate) feed: Feed,
    pub(crate) event_scope: EventScope,
    pub(crate) appender: Appender,
    pub(crate) metrics: Metrics,
    pub(crate) usage: MetricsCache,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: TaskRegistry,
    /// One permit for each connection that may still be opened.
    pub(crate) connections: Arc<Semaphore>,
    namespaces: Mutex<HashMap<SessionId, Arc<str>>>,
}

impl App {
    pub(crate) fn new(application: Application, options: Options, url: String) -> Self {
        let services = application.services();
        Self {
            application,
            callers: Callers::new(services.clone(), &options),
            slots: FairQueue::new(options.max_running, options.max_waiting),
            feed: Feed::start(services.events()),
            event_scope: services.event_scope(),
            appender: Appender::start(&services),
            metrics: Metrics::default(),
            usage: MetricsCache::default(),
            shutdown: Shutdown::default(),
            tasks: TaskRegistry::default(),
            connections: Arc::new(Semaphore::new(options.max_connections)),
            namespaces: Mutex::default(),
            services,
            options,
            url,
        }
    }

    /// The services, acting as `caller`.
    pub(crate) fn services_of(&self, caller: &Caller) -> Services {
        self.services.acting_as(caller.identity())
    }

    /// The session service, acting as `caller`.
    pub(crate) fn sessions_of(&self, caller: &Caller) -> SessionService {
        self.services_of(caller)
            .sessions(self.options.max_message_bytes)
    }

    pub(crate) async fn namespace_of_session(&self, id: SessionId) -> Result<Arc<str>, Problem> {
        let remembered = {
            let known = self
                .namespaces
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.get(&id).cloned()
        };
        if let Some(namespace) = remembered {
            return Ok(namespace);
        }
        let sessions = self.services.sessions(self.options.max_message_bytes);
        let session = crate::blocking(move || sessions.get(id)).await?;
        let namespace: Arc<str> = session.namespace.into();
        let mut known = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(id, Arc::clone(&namespace));
        Ok(namespace)
    }

    /// Removes a deleted session from the cache of namespaces.
    pub(crate) fn forget_session(&self, id: SessionId) {
        let mut known = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.remove(&id);
    }

    /// Runs long work in the caller's turn. Refused if too much work waits, or if the server is stopping. When the
    /// server stops, the `Cancel` of running work is set.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, caller: &Caller, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        let slot = self.acquire_slot(caller).await?;
        self.run_in(slot, work).await
    }

    /// Runs long work in a slot that its caller already holds.
    pub(crate) async fn run_in<T, F>(self: &Arc<Self>, slot: Slot, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        self.begin(slot)?.run(work).await
    }

    /// Registers work in a slot. From here on the server waits for it before it stops.
    pub(crate) fn begin(&self, slot: Slot) -> Result<Work, Problem> {
        let cancel = Cancel::new();
        let begun = self.shutdown.begin(&cancel);
        // Checked after registration: either this sees the shutdown, or the shutdown sees this work.
        if self.shutdown.has_started() {
            return Err(stopping());
        }
        Ok(Work {
            cancel,
            held: (slot, begun),
        })
    }

    /// Waits for a slot.
    pub(crate) async fn acquire_slot(&self, caller: &Caller) -> Result<Slot, Problem> {
        if self.shutdown.has_started() {
            return Err(stopping());
        }
        self.slots.acquire(caller.identity()).await.map_err(|_| {
            Problem::new(
                Code::ServerBusy,
                "too many requests of this caller wait for a slot",
            )
            .after(1)
        })
    }
}

/// Registered work that has not started yet.
pub(crate) struct Work {
    cancel: Cancel,
    held: (Slot, RunningWork),
}

impl Work {
    /// Runs the work on a thread that may block.
    pub(crate) async fn run<T, F>(self, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        let Self { cancel, held } = self;
        crate::blocking(move || {
            let outcome = work(&cancel);
            drop(held);
            outcome
        })
        .await
    }
}

/// The problem for requests that arrive while the server stops.
pub(crate) fn stopping() -> Problem {
    Problem::new(
        Code::ServerEnding,
        "the server is stopping and accepts no new work",
    )
    .after(5)
}

/// Shutdown of the server: whether it has started, and which work still runs.
#[derive(Default)]
pub(crate) struct Shutdown {
    has_started: AtomicBool,
    notified: Notify,
    running: Arc<Running>,
}

#[derive(Default)]
struct Running {
    works: Mutex<HashMap<u64, Cancel>>,
    next: std::sync::atomic::AtomicU64,
    changed: Notify,
}

/// Running work; unregistered on drop.
pub(crate) struct RunningWork {
    running: Arc<Running>,
    number: u64,
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        let mut works = self
            .running
            .works
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        works.remove(&self.number);
        drop(works);
        self.running.changed.notify_waiters();
    }
}

impl Shutdown {
    /// Whether the server is stopping: it accepts no new work.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }

    /// Starts the shutdown: from now on no new work is accepted.
    pub(crate) fn start(&self) {
        self.has_started.store(true, Ordering::Release);
        self.notified.notify_waiters();
    }

    /// Waits until the shutdown starts.
    pub(crate) async fn started(&self) {
        let notified = self.notified.notified();
        tokio::pin!(notified);
        // Registered before the check, so that no notification is missed.
        notified.as_mut().enable();
        if !self.has_started() {
            notified.await;
        }
    }

    /// Registers running work; `cancel` stops it.
    pub(crate) fn begin(&self, cancel: &Cancel) -> RunningWork {
        let number = self.running.next.fetch_add(1, Ordering::Relaxed);
        self.running
            .works
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, cancel.clone());
        RunningWork {
            running: Arc::clone(&self.running),
            number,
        }
    }

    /// Number of running pieces of work.
    pub(crate) fn count(&self) -> usize {
        let works = self.running.works.lock();
        works.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until no work runs.
    pub(crate) async fn idle(&self) {
        loop {
            let changed = self.running.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Cancels all running work.
    pub(crate) fn cancel_work(&self) {
        let works = self.running.works.lock();
        for cancel in works.unwrap_or_else(PoisonError::into_inner).values() {
            cancel.cancel();
        }
    }
}
