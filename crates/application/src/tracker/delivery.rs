//! [`deliver_outbox`]: delivers the writes of the outbox, each once, even if processes end at any time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::{ExternalItem, Timestamp};
use cleveragents_process::Cancel;
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::tracker_outbox::{self, TrackerWrite};
use cleveragents_store::{Engine, Error, work_items};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::TrackerError;
use super::fields::FieldChanges;
use super::idempotency::{IdempotencyKey, WriteAttempt};
use super::labels::MappedFields;
use super::outbox::{WritePayload, mirror_fields};
use super::source::{Trackers, mapping_of};
use super::types::{ExternalId, NewIssue, TrackerEffect, TrackerIssue};
use super::{Tracker, sync};

/// Duration of a claim on a write, in seconds. A claim that ends without an outcome is taken over.
const CLAIM_SECONDS: i64 = 180;

/// The owner of a claim stops writing this long before the claim ends.
const CLAIM_MARGIN: Duration = Duration::from_secs(20);

/// Number of writes that are read at a time.
const BATCH: u64 = 20;

/// Maximum number of attempts of one call.
const MAX_ATTEMPTS: u64 = 500;

/// Maximum pause between two attempts at a write, in seconds.
const MAX_PAUSE_SECONDS: i64 = 600;

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliverySummary {
    /// Delivered writes.
    pub delivered: u64,
    /// Writes that will be retried.
    pub postponed: u64,
    /// Writes that the trackers refuse, with the reason in the outbox.
    pub refused: u64,
}

/// Delivers the writes that are due. Failures of trackers are recorded, not returned.
pub fn deliver_outbox(
    engine: &Arc<Engine>,
    trackers: &Trackers,
    cancel: &Cancel,
) -> Result<DeliverySummary, Error> {
    let mut summary = DeliverySummary::default();
    let mut attempts = 0;
    loop {
        let due = engine.read(|reader| tracker_outbox::due(reader, Timestamp::now(), BATCH))?;
        if due.is_empty() {
            return Ok(summary);
        }
        for write in due {
            if cancel.is_cancelled() || attempts >= MAX_ATTEMPTS {
                return Ok(summary);
            }
            attempts += 1;
            deliver(engine, trackers, &write, &mut summary)?;
        }
    }
}

fn deliver(
    engine: &Arc<Engine>,
    trackers: &Trackers,
    write: &TrackerWrite,
    summary: &mut DeliverySummary,
) -> Result<(), Error> {
    let started = Instant::now();
    let until = Timestamp::now().plus_seconds(CLAIM_SECONDS);
    let claimed = write.clone();
    if !engine.write(move |unit| tracker_outbox::claim(unit, &claimed, until))? {
        return Ok(());
    }
    let claim = Duration::from_secs(CLAIM_SECONDS.unsigned_abs());
    let delivery = Delivery {
        engine,
        write,
        attempt: write.attempts + 1,
        until: started + claim.saturating_sub(CLAIM_MARGIN),
    };
    match delivery.run(trackers)? {
        Ok(is_recorded) => summary.delivered += u64::from(is_recorded),
        Err(error) if error.is_transient() || is_configuration_problem(&error) => {
            delivery.postpone(&error)?;
            summary.postponed += 1;
        }
        Err(error) => {
            delivery.refuse(&error)?;
            summary.refused += 1;
        }
    }
    Ok(())
}

/// Whether a user can make the write succeed: a token, a right, a label or a closed dependency is missing.
const fn is_configuration_problem(error: &TrackerError) -> bool {
    matches!(
        error,
        TrackerError::NoCredential(_)
            | TrackerError::File { .. }
            | TrackerError::UnknownLabel(_)
            | TrackerError::UnknownMilestone(_)
            | TrackerError::NotEffective { .. }
            | TrackerError::Refused {
                status: 401 | 403 | 412 | 423,
                ..
            }
    )
}

/// An attempt at a write.
struct Delivery<'a> {
    engine: &'a Arc<Engine>,
    write: &'a TrackerWrite,
    /// Number of the attempt, which is its fencing token.
    attempt: u64,
    until: Instant,
}

/// An outcome of the tracker inside an outcome of the store.
type DeliveryOutcome<T> = Result<Result<T, TrackerError>, Error>;

/// Returns early with a failure of the tracker.
macro_rules! tried {
    ($outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

impl Delivery<'_> {
    /// Writes and records the outcome. Returns whether this attempt recorded it.
    fn run(&self, trackers: &Trackers) -> DeliveryOutcome<bool> {
        let name = self.write.source.clone();
        let source = self
            .engine
            .read(|reader| item_sources::get(reader, &name))?;
        let Some(source) = source else {
            // Removed meanwhile, together with its writes.
            return Ok(Ok(false));
        };
        let payload: WritePayload = serde_json::from_str(&self.write.payload)
            .map_err(|error| Error::stored("a write to a tracker", error.to_string()))?;
        let tracker = tried!(trackers.open(&source));
        let key = tried!(IdempotencyKey::parse(&self.write.id.to_string()));
        let attempt = WriteAttempt {
            key: &key,
            is_repeated: self.attempt > 1,
            until: self.until,
        };
        match payload {
            WritePayload::Create { issue, fields } => {
                self.create(&source, &*tracker, issue, &fields, &attempt)
            }
            WritePayload::Comment { body } => {
                let id = tried!(self.external_id(&source)?);
                tried!(tracker.comment(&id, &body, &attempt));
                Ok(Ok(self.finish()?))
            }
            WritePayload::Fields { fields, is_closed } => {
                let id = tried!(self.external_id(&source)?);
                let mapping = tried!(mapping_of(&source));
                let (add_labels, remove_labels) = mapping.changes(&fields);
                let changes = FieldChanges {
                    add_labels,
                    remove_labels,
                    is_closed: Some(is_closed),
                    ..FieldChanges::default()
                };
                let written = tried!(tracker.set_fields(&id, &changes, &attempt));
                self.record(&source, &written.issue, false)
            }
            WritePayload::Status { pool, title, body } => {
                self.status(&source, &*tracker, &pool, (title, body), &attempt)
            }
        }
    }

    fn create(
        &self,
        source: &ItemSource,
        tracker: &dyn Tracker,
        mut new: NewIssue,
        fields: &MappedFields,
        attempt: &WriteAttempt<'_>,
    ) -> DeliveryOutcome<bool> {
        let (added, removed) = tried!(mapping_of(source)).changes(fields);
        new.labels = new.labels.difference(&removed).cloned().collect();
        new.labels.extend(added);
        let written = tried!(tracker.create(&new, attempt));
        if let Some(shortfall) = &written.shortfall {
            tracing::warn!(source = source.name, issue = %written.issue.id, reason = %shortfall, "issue lacks fields");
        }
        self.record(source, &written.issue, written.shortfall.is_some())
    }

    /// Records a delivered write and the issue of its item. Fields that the issue lacks become a write of their own.
    fn record(
        &self,
        source: &ItemSource,
        issue: &TrackerIssue,
        lacks_fields: bool,
    ) -> DeliveryOutcome<bool> {
        let (id, attempt) = (self.write.id, self.attempt);
        let (item, source, issue) = (self.write.item, source.name.clone(), issue.clone());
        let recorded = self.engine.write(move |unit| {
            if !tracker_outbox::finish(unit, id, attempt, None)? {
                return Ok::<bool, Error>(false);
            }
            if let Some(item) = item {
                let revision = sync::stored_revision(&issue);
                let (external, url) = (issue.id.as_str(), issue.address.as_deref());
                tracker_outbox::link_item(unit, item, &source, external, &revision, url)?;
                if lacks_fields && let Some(item) = work_items::get(unit, item)? {
                    mirror_fields(unit, &item)?;
                }
            }
            Ok(true)
        })?;
        Ok(Ok(recorded))
    }

    fn status(
        &self,
        source: &ItemSource,
        tracker: &dyn Tracker,
        pool: &str,
        (title, body): (String, String),
        attempt: &WriteAttempt<'_>,
    ) -> DeliveryOutcome<bool> {
        let known = self
            .engine
            .read(|reader| tracker_outbox::status_record(reader, &source.name, pool))?;
        let known = tried!(known.map(|id| id.parse::<ExternalId>()).transpose());
        let mut record = known.clone();
        if let Some(id) = &known {
            let changes = FieldChanges {
                title: Some(title.clone()),
                body: Some(body.clone()),
                is_closed: Some(false),
                ..FieldChanges::default()
            };
            match tracker.set_fields(id, &changes, attempt) {
                Ok(_) => {}
                // The record was removed at the tracker; a new one takes its place.
                Err(TrackerError::NotFound(_)) => record = None,
                Err(error) => return Ok(Err(error)),
            }
        }
        let id = if let Some(id) = record {
            id
        } else {
            let new = NewIssue {
                title: title.clone(),
                body: body.clone(),
                labels: std::collections::BTreeSet::new(),
                milestone: None,
            };
            let created = tried!(tracker.create(&new, attempt));
            // The first attempt may have written an older text.
            if created.effect == TrackerEffect::FoundEarlier {
                let changes = FieldChanges {
                    title: Some(title),
                    body: Some(body),
                    ..FieldChanges::default()
                };
                tried!(tracker.set_fields(&created.issue.id, &changes, attempt));
            }
            created.issue.id
        };
        let (write, number) = (self.write.id, self.attempt);
        let (source, pool) = (source.name.clone(), pool.to_owned());
        let recorded = self.engine.write(move |unit| {
            if !tracker_outbox::finish(unit, write, number, None)? {
                return Ok::<bool, Error>(false);
            }
            tracker_outbox::link_status(unit, &source, &pool, id.as_str())?;
            Ok(true)
        })?;
        Ok(Ok(recorded))
    }

    /// The issue of the item of this write.
    fn external_id(&self, source: &ItemSource) -> DeliveryOutcome<ExternalId> {
        let item = match self.write.item {
            Some(item) => self.engine.read(|reader| work_items::get(reader, item))?,
            None => None,
        };
        let external = item.and_then(|item| item.external);
        let external = external.filter(|external: &ExternalItem| external.source == source.name);
        Ok(match external {
            Some(external) => external.id.parse(),
            None => Err(TrackerError::NotFound("of the item".to_owned())),
        })
    }

    fn finish(&self) -> Result<bool, Error> {
        let (id, attempt) = (self.write.id, self.attempt);
        self.engine
            .write(move |unit| tracker_outbox::finish(unit, id, attempt, None))
    }

    fn postpone(&self, error: &TrackerError) -> Result<(), Error> {
        let doubled = 1_i64 << self.attempt.min(10);
        let asked = error.retry_after().map_or(0, |time| {
            i64::try_from(time.as_secs()).unwrap_or(MAX_PAUSE_SECONDS)
        });
        let pause = doubled.clamp(1, MAX_PAUSE_SECONDS).max(asked.min(86_400));
        let (id, attempt, text) = (self.write.id, self.attempt, error.to_string());
        let next_at = Timestamp::now().plus_seconds(pause);
        tracing::warn!(write = %id, attempt, reason = text, "write to a tracker is postponed");
        self.engine
            .write(move |unit| tracker_outbox::postpone(unit, id, attempt, next_at, &text))?;
        Ok(())
    }

    fn refuse(&self, error: &TrackerError) -> Result<(), Error> {
        let (id, attempt, text) = (self.write.id, self.attempt, error.to_string());
        tracing::warn!(write = %id, attempt, reason = text, "a tracker refused a write");
        self.engine
            .write(move |unit| tracker_outbox::finish(unit, id, attempt, Some(&text)))?;
        Ok(())
    }
}
