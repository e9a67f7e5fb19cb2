//! [`App`]: state that all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_application::{Application, EventScope, Services, SessionService};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, SessionId};
use cleveragents_process::Cancel;
use tokio::sync::Semaphore;

use crate::a2a::TaskRegistry;
use crate::api::Appender;
use crate::callers::Callers;
use crate::fair_queue::{FairQueue, Slot};
use crate::live_events::Feed;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::problem::Problem;
use crate::shutdown::{RunningWork, Shutdown, stopping};
use crate::usage_metrics::MetricsCache;

/// Maximum number of cached session namespaces. The namespace of a session never changes.
const MAX_CACHED_NAMESPACES: usize = 10_000;

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
        let cached = {
            let known = self
                .namespaces
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.get(&id).cloned()
        };
        if let Some(namespace) = cached {
            return Ok(namespace);
        }
        let sessions = self.services.sessions(self.options.max_message_bytes);
        let session = crate::blocking(move || sessions.get(id)).await?;
        let namespace: Arc<str> = session.namespace.into();
        let mut known = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CACHED_NAMESPACES {
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

    /// Waits for a slot and runs long work. Fails if the caller has too many waiting requests, or if the server is
    /// stopping. When the server stops, it sets the `Cancel` of running work.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, caller: &Caller, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        let slot = self.acquire_slot(caller).await?;
        self.run_in(slot, work).await
    }

    /// Runs long work in a slot that is already acquired.
    pub(crate) async fn run_in<T, F>(self: &Arc<Self>, slot: Slot, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    {
        self.begin(slot)?.run(work).await
    }

    /// Registers work in a slot. A stopping server waits for registered work.
    pub(crate) fn begin(&self, slot: Slot) -> Result<AdmittedWork, Problem> {
        let cancel = Cancel::new();
        let registration = self.shutdown.begin(&cancel);
        // Checked after registration: either this check sees the shutdown, or the shutdown sees this work.
        if self.shutdown.has_started() {
            return Err(stopping());
        }
        Ok(AdmittedWork {
            cancel,
            held: (slot, registration),
        })
    }

    /// Waits for a slot to run long work. Slots are granted to waiting callers in turn.
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
pub(crate) struct AdmittedWork {
    cancel: Cancel,
    held: (Slot, RunningWork),
}

impl AdmittedWork {
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
