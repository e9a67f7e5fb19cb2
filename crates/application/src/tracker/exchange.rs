//! [`TrackerExchange`]: keeps work items and trackers in step while pools run. Trackers are slow and fail; nothing waits
//! for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{Code, Diagnose as _, Timestamp};
use cleveragents_process::Cancel;
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::{Engine, Error};

use super::delivery::deliver_outbox;
use super::source::Trackers;
use super::sync::{SyncError, SyncReport, sync_source};

/// Time between two synchronizations of a source.
const SYNC_INTERVAL: Duration = Duration::from_mins(1);

/// Time between two looks for writes that are due.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(500);

/// Time after which a waiting exchange notices its cancellation.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// Synchronizes sources and delivers writes.
pub(crate) struct TrackerExchange<'a> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) trackers: Trackers,
    /// The projects whose sources are synchronized.
    pub(crate) projects: &'a (dyn Fn() -> BTreeSet<String> + Sync),
    /// Receives a line per synchronization that changed something or failed.
    pub(crate) note: &'a (dyn Fn(&str) + Sync),
}

impl TrackerExchange<'_> {
    /// Synchronizes and delivers until it is cancelled.
    pub(crate) fn run(&self, cancel: &Cancel) {
        let mut tried = HashMap::new();
        while !cancel.is_cancelled() {
            self.run_once(&mut tried, cancel);
            let end = Instant::now() + DELIVERY_INTERVAL;
            while Instant::now() < end && !cancel.is_cancelled() {
                std::thread::sleep(CANCEL_INTERVAL);
            }
        }
    }

    /// Synchronizes the sources that are due, and delivers the writes that are due. `tried` holds the time of the last
    /// attempt per source. Failures are recorded and noted.
    pub(crate) fn run_once(&self, tried: &mut HashMap<String, Instant>, cancel: &Cancel) {
        if let Err(error) = self.synchronize(tried, cancel) {
            tracing::warn!(%error, "sources of work items not read");
        }
        self.deliver(cancel);
    }

    /// Delivers the writes that are due.
    pub(crate) fn deliver(&self, cancel: &Cancel) {
        match deliver_outbox(&self.engine, &self.trackers, cancel) {
            Ok(summary) if summary.refused > 0 => (self.note)(&format!(
                "trackers refused {} writes; `last_error` of their source has the reason",
                summary.refused
            )),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "writes to trackers not delivered"),
        }
    }

    fn synchronize(
        &self,
        tried: &mut HashMap<String, Instant>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let sources = self
            .engine
            .read(|reader| item_sources::list(reader, &Namespaces::All))?;
        if sources.is_empty() {
            return Ok(());
        }
        let projects = (self.projects)();
        for source in sources {
            let is_recent = tried
                .get(&source.name)
                .is_some_and(|time| time.elapsed() < SYNC_INTERVAL);
            if cancel.is_cancelled()
                || is_recent
                || !projects.contains(&source.project)
                || is_fresh(&source)
            {
                continue;
            }
            tried.insert(source.name.clone(), Instant::now());
            match self.synchronize_source(&source) {
                Ok(report) => {
                    if let Some(line) = report_line(&source, &report) {
                        (self.note)(&line);
                    }
                }
                // Another process synchronizes it.
                Err(error) if error.code() == Code::LeaseHeld => {}
                Err(error) => (self.note)(&format!("source {}: {error}", source.name)),
            }
        }
        Ok(())
    }

    fn synchronize_source(&self, source: &ItemSource) -> Result<SyncReport, SyncError> {
        match self.trackers.open(source) {
            Ok(tracker) => sync_source(&self.engine, source, &*tracker),
            Err(error) => {
                let (name, text) = (source.name.clone(), error.to_string());
                self.engine
                    .write(move |unit| item_sources::record_failure(unit, &name, &text))?;
                Err(error.into())
            }
        }
    }
}

/// Whether some process has read the complete listing a short time ago.
fn is_fresh(source: &ItemSource) -> bool {
    let age = |time| Timestamp::now().seconds_since(time);
    let limit = SYNC_INTERVAL.as_secs_f64();
    source.last_error.is_none() && source.synced_at.is_some_and(|time| age(time) < limit)
}

fn report_line(source: &ItemSource, report: &SyncReport) -> Option<String> {
    let parts = [
        (report.created, "new"),
        (report.changed, "changed"),
        (report.moved, "closed or reopened"),
        (report.gone, "gone"),
    ];
    let shown: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!shown.is_empty()).then(|| format!("source {}: {}", source.name, shown.join(", ")))
}
