//! [`App`]: what every request works with.

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
use crate::fair_queue::{FairQueue, Place};
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::problem::Problem;
use crate::program::Program;
use crate::usage_metrics::MetricsCache;

/// How many sessions' namespaces are remembered at most. They never change.
const REMEMBERED: usize = 10_000;

/// What every request works with.
pub(crate) struct App {
    pub(crate) application: Application,
    pub(crate) services: Services,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) options: Options,
    /// The address under which others reach the server, without a slash at its end.
    pub(crate) url: String,
    pub(crate) callers: Callers,
    pub(crate) places: FairQueue,
    pub(crate) feed: Feed,
    pub(crate) event_scope: EventScope,
    pub(crate) appender: Appender,
    pub(crate) metrics: Metrics,
    pub(crate) usage: MetricsCache,
    pub(crate) ending: Ending,
    pub(crate) tasks: TaskRegistry,
    /// As many as there may be connections more.
    pub(crate) connections: Arc<Semaphore>,
    namespaces: Mutex<HashMap<SessionId, Arc<str>>>,
}

impl App {
    pub(crate) fn new(
        application: Application,
        program: Arc<dyn Program>,
        options: Options,
        url: String,
    ) -> Self {
        let services = application.services();
        Self {
            application,
            callers: Callers::new(services.clone(), &options),
            places: FairQueue::new(options.max_running, options.max_waiting),
            feed: Feed::start(services.events()),
            event_scope: services.event_scope(),
            appender: Appender::start(&services),
            metrics: Metrics::default(),
            usage: MetricsCache::default(),
            ending: Ending::default(),
            tasks: TaskRegistry::default(),
            connections: Arc::new(Semaphore::new(options.max_connections)),
            namespaces: Mutex::default(),
            services,
            program,
            options,
            url,
        }
    }

    /// The services, acting as a caller.
    pub(crate) fn services_of(&self, caller: &Caller) -> Services {
        self.services.acting_as(caller.identity())
    }

    /// Conversations, used by a caller.
    pub(crate) fn sessions_of(&self, caller: &Caller) -> SessionService {
        self.services_of(caller)
            .sessions(self.options.max_message_bytes)
    }

    /// The namespace of a session.
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

    /// Forgets where a session that is removed belonged.
    pub(crate) fn forget_session(&self, id: SessionId) {
        let mut known = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.remove(&id);
    }

    /// Runs something that takes long, when it is the caller's turn. Refused when too much waits, or when the
    /// server is about to end. What is running when it ends is told so by its `Cancel`.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, caller: &Caller, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        let place = self.place(caller).await?;
        self.run_in(place, work).await
    }

    /// Runs something that takes long in a place that was given to its caller.
    pub(crate) async fn run_in<T, F>(self: &Arc<Self>, place: Place, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        self.begin(place)?.run(work).await
    }

    /// Begins something in a place that was given to its caller: from here on the end of the server waits for it.
    pub(crate) fn begin(&self, place: Place) -> Result<Work, Problem> {
        let cancel = Cancel::new();
        let begun = self.ending.begin(&cancel);
        // Looked at when it counts already: either we see the end, or the end sees this.
        if self.ending.is_near() {
            return Err(ending());
        }
        Ok(Work {
            cancel,
            held: (place, begun),
        })
    }

    /// Waits for a place to run.
    pub(crate) async fn place(&self, caller: &Caller) -> Result<Place, Problem> {
        if self.ending.is_near() {
            return Err(ending());
        }
        self.places.place(caller.identity()).await.map_err(|_| {
            Problem::new(Code::ServerBusy, "too much of this caller waits to be run").after(1)
        })
    }
}

/// Something that was begun and is to be run.
pub(crate) struct Work {
    cancel: Cancel,
    held: (Place, Begun),
}

impl Work {
    /// Runs it.
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

/// What a caller is told who comes when the server is about to end.
pub(crate) fn ending() -> Problem {
    Problem::new(
        Code::ServerEnding,
        "the server finishes what it has begun and ends",
    )
    .after(5)
}

/// The end of the server: whether it is near, and what still runs.
#[derive(Default)]
pub(crate) struct Ending {
    is_near: AtomicBool,
    told: Notify,
    running: Arc<Running>,
}

#[derive(Default)]
struct Running {
    works: Mutex<HashMap<u64, Cancel>>,
    next: std::sync::atomic::AtomicU64,
    changed: Notify,
}

/// Something that runs; over when it is dropped.
pub(crate) struct Begun {
    running: Arc<Running>,
    number: u64,
}

impl Drop for Begun {
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

impl Ending {
    /// Whether nothing new is begun.
    pub(crate) fn is_near(&self) -> bool {
        self.is_near.load(Ordering::Acquire)
    }

    /// From now on nothing new is begun.
    pub(crate) fn announce(&self) {
        self.is_near.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Waits until the end is near.
    pub(crate) async fn near(&self) {
        let told = self.told.notified();
        tokio::pin!(told);
        // Registered before the look, so that nothing is missed between the two.
        told.as_mut().enable();
        if !self.is_near() {
            told.await;
        }
    }

    /// Notes that something runs, which is stopped by `cancel`.
    pub(crate) fn begin(&self, cancel: &Cancel) -> Begun {
        let number = self.running.next.fetch_add(1, Ordering::Relaxed);
        self.running
            .works
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, cancel.clone());
        Begun {
            running: Arc::clone(&self.running),
            number,
        }
    }

    /// How many things run.
    pub(crate) fn count(&self) -> usize {
        let works = self.running.works.lock();
        works.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until nothing runs.
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

    /// Stops what runs.
    pub(crate) fn stop(&self) {
        let works = self.running.works.lock();
        for cancel in works.unwrap_or_else(PoisonError::into_inner).values() {
            cancel.cancel();
        }
    }
}
