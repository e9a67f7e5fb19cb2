//! [`Shutdown`] of the server: rejects new work, waits for running work, and ends streams.
//!
//! Event streams end as soon as the shutdown starts (`api/events.rs`): clients reconnect with the position of the last
//! event they received. Streams of a task end after its last update (`a2a/stream.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_domain::Code;
use cleveragents_process::Cancel;
use tokio::sync::Notify;

use crate::problem::Problem;

/// The problem for requests that arrive while the server stops.
pub(crate) fn stopping() -> Problem {
    Problem::new(
        Code::ServerEnding,
        "the server is stopping and accepts no new work",
    )
    .after(5)
}

/// State of the shutdown, and the work that still runs.
#[derive(Default)]
pub(crate) struct Shutdown {
    has_started: AtomicBool,
    notified: Notify,
    running: Arc<RunningWorks>,
}

#[derive(Default)]
struct RunningWorks {
    works: Mutex<HashMap<u64, Cancel>>,
    next: std::sync::atomic::AtomicU64,
    changed: Notify,
}

/// Running work; unregistered on drop.
pub(crate) struct RunningWork {
    running: Arc<RunningWorks>,
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
    /// True once the server is stopping and accepts no new work.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }

    /// Starts the shutdown: from now on no new work is accepted.
    fn start(&self) {
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

    /// Starts the shutdown and waits for running work; cancels work that still runs after `grace_period`.
    pub(crate) async fn drain(&self, grace_period: Duration) {
        tracing::info!("stopping: no new requests are accepted");
        self.start();
        if tokio::time::timeout(grace_period, self.idle())
            .await
            .is_err()
        {
            tracing::warn!(
                drain_seconds = grace_period.as_secs(),
                "cancelling work that did not finish in time"
            );
            // Cancelled work stores its progress and can be resumed.
            self.cancel_work();
            let _stopped = tokio::time::timeout(grace_period, self.idle()).await;
        }
    }

    /// Waits until no work runs.
    async fn idle(&self) {
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
    fn cancel_work(&self) {
        let works = self.running.works.lock();
        for cancel in works.unwrap_or_else(PoisonError::into_inner).values() {
            cancel.cancel();
        }
    }
}
