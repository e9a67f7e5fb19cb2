//! The outbox of trackers: writes that were decided together with a change of the store, and are delivered later.
//!
//! A claim counts an attempt and sets the time of the next one. The number of the attempt is its fencing token: an
//! attempt that lost its claim cannot record an outcome.

use cleveragents_domain::{ContentHash, Timestamp, TrackerWriteId, WorkItemId};

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackerWrite {
    /// Also the idempotency key at the tracker.
    pub id: TrackerWriteId,
    /// Name of the source.
    pub source: String,
    /// `item:ID` or `pool:NAME`; the writes of a subject with one action are delivered in order.
    pub subject: String,
    pub item: Option<WorkItemId>,
    /// `create`, `comment`, `fields` or `status`.
    pub action: String,
    /// JSON.
    pub payload: String,
    /// Number of started attempts.
    pub attempts: u64,
    pub next_at: Timestamp,
    pub last_error: Option<String>,
}

/// A write to enqueue.
#[derive(Debug, Clone)]
pub struct NewTrackerWrite<'a> {
    pub source: &'a str,
    pub subject: &'a str,
    /// Names the change that the write mirrors, such as `attempt:ID`; each change is written once.
    pub change_key: &'a str,
    pub item: Option<WorkItemId>,
    pub action: &'a str,
    pub payload: &'a str,
}

/// Number of writes of a source that wait, and that the tracker refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    pub waiting: u64,
    pub refused: u64,
}

macro_rules! columns {
    () => {
        "o.write_id, o.source, o.subject, o.item_id, o.action, o.payload, o.attempts, o.next_at, o.last_error"
    };
}

fn read(mut row: Row) -> Result<TrackerWrite, Error> {
    Ok(TrackerWrite {
        id: row.take()?,
        source: row.take()?,
        subject: row.take()?,
        item: row.take()?,
        action: row.take()?,
        payload: row.take()?,
        attempts: row.take()?,
        next_at: row.take()?,
        last_error: row.take()?,
    })
}

/// Enqueues a write in the unit of work of the change that it mirrors. Returns `false` when this change was enqueued
/// before.
pub fn enqueue(unit: &mut UnitOfWork<'_>, new: &NewTrackerWrite<'_>) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO tracker_outbox (write_id, source, subject, change_key, item_id, action, payload, state, next_at, \
         created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'waiting', ?8, ?8) \
         ON CONFLICT (source, change_key) DO NOTHING",
        params![
            TrackerWriteId::generate(),
            new.source,
            new.subject,
            new.change_key,
            new.item,
            new.action,
            new.payload,
            now,
        ],
    )?;
    Ok(touched == 1)
}

/// Writes that are due. A write waits for the creation of its issue, and for earlier writes of its subject and action.
pub fn due(
    reader: &mut dyn Reader,
    moment: Timestamp,
    limit: u64,
) -> Result<Vec<TrackerWrite>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM tracker_outbox o WHERE o.state = 'waiting' AND o.next_at <= ?1 AND NOT EXISTS ( \
             SELECT 1 FROM tracker_outbox p WHERE p.source = o.source AND p.subject = o.subject \
             AND p.state = 'waiting' AND p.write_id < o.write_id AND p.action IN ('create', o.action)) ORDER BY o.next_at, o.write_id LIMIT ?2"
        ),
        params![moment, limit],
    )?;
    rows.into_iter().map(read).collect()
}

/// Claims a write until a point in time and counts an attempt. Returns `false` when another process claimed it first.
pub fn claim(
    unit: &mut UnitOfWork<'_>,
    write: &TrackerWrite,
    until: Timestamp,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE tracker_outbox SET attempts = attempts + 1, next_at = ?4 \
         WHERE write_id = ?1 AND state = 'waiting' AND attempts = ?2 AND next_at = ?3",
        params![write.id, write.attempts, write.next_at, until],
    )?;
    Ok(touched == 1)
}

/// Records the end of a write: delivered, or refused for a reason. Returns `false` when the attempt lost its claim.
pub fn finish(
    unit: &mut UnitOfWork<'_>,
    id: TrackerWriteId,
    attempt: u64,
    refusal: Option<&str>,
) -> Result<bool, Error> {
    let now = unit.now();
    let state = if refusal.is_some() {
        "refused"
    } else {
        "delivered"
    };
    let touched = unit.execute(
        "UPDATE tracker_outbox SET state = ?3, last_error = ?4, finished_at = ?5 \
         WHERE write_id = ?1 AND state = 'waiting' AND attempts = ?2",
        params![id, attempt, state, refusal, now],
    )?;
    Ok(touched == 1)
}

/// Records a failed attempt and the time of the next one. Returns `false` when the attempt lost its claim.
pub fn postpone(
    unit: &mut UnitOfWork<'_>,
    id: TrackerWriteId,
    attempt: u64,
    next_at: Timestamp,
    error: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE tracker_outbox SET next_at = ?3, last_error = ?4 \
         WHERE write_id = ?1 AND state = 'waiting' AND attempts = ?2",
        params![id, attempt, next_at, error],
    )?;
    Ok(touched == 1)
}

pub fn waiting(reader: &mut dyn Reader, id: TrackerWriteId) -> Result<Option<TrackerWrite>, Error> {
    let row = reader.query_first(
        concat!(
            "SELECT ",
            columns!(),
            " FROM tracker_outbox o WHERE o.write_id = ?1 AND o.state = 'waiting'"
        ),
        params![id],
    )?;
    row.map(read).transpose()
}

/// Whether writes of an item wait.
pub fn has_waiting(reader: &mut dyn Reader, item: WorkItemId) -> Result<bool, Error> {
    let row = reader.query_first(
        "SELECT 1 FROM tracker_outbox WHERE item_id = ?1 AND state = 'waiting' LIMIT 1",
        params![item],
    )?;
    Ok(row.is_some())
}

pub fn counts(reader: &mut dyn Reader, source: &str) -> Result<OutboxCounts, Error> {
    let row = reader.query_first(
        "SELECT COALESCE(SUM(CASE WHEN state = 'waiting' THEN 1 ELSE 0 END), 0), \
         COALESCE(SUM(CASE WHEN state = 'refused' THEN 1 ELSE 0 END), 0) FROM tracker_outbox WHERE source = ?1",
        params![source],
    )?;
    row.map_or_else(
        || Ok(OutboxCounts::default()),
        |mut row| {
            Ok(OutboxCounts {
                waiting: row.take()?,
                refused: row.take()?,
            })
        },
    )
}

/// Links an item to its issue. Returns `false` when the item has another issue.
pub fn link_item(
    unit: &mut UnitOfWork<'_>,
    item: WorkItemId,
    source: &str,
    external_id: &str,
    revision: &str,
    url: Option<&str>,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE work_items SET source = ?2, external_id = ?3, external_revision = ?4, external_url = ?5, \
         updated_at = ?6, version = version + 1 \
         WHERE item_id = ?1 AND (source IS NULL OR (source = ?2 AND external_id = ?3))",
        params![item, source, external_id, revision, url, now],
    )?;
    Ok(touched == 1)
}

/// Stores the wanted text of the record of a pool. Returns `false` when it is the one that was stored last.
pub fn want_status(
    unit: &mut UnitOfWork<'_>,
    source: &str,
    pool: &str,
    hash: ContentHash,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO tracker_status_records (source, pool, content_hash, updated_at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (source, pool) DO UPDATE SET content_hash = excluded.content_hash, \
         updated_at = excluded.updated_at \
         WHERE tracker_status_records.content_hash <> excluded.content_hash",
        params![source, pool, hash, now],
    )?;
    Ok(touched == 1)
}

/// Replaces the text of a pending write of a pool's record that was never attempted. Returns `false` if no such write
/// exists.
pub fn replace_status(
    unit: &mut UnitOfWork<'_>,
    source: &str,
    subject: &str,
    payload: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE tracker_outbox SET payload = ?3 \
         WHERE source = ?1 AND subject = ?2 AND state = 'waiting' AND attempts = 0 AND action = 'status'",
        params![source, subject, payload],
    )?;
    Ok(touched > 0)
}

/// The issue that is the record of a pool.
pub fn status_record(
    reader: &mut dyn Reader,
    source: &str,
    pool: &str,
) -> Result<Option<String>, Error> {
    let row = reader.query_first(
        "SELECT external_id FROM tracker_status_records WHERE source = ?1 AND pool = ?2",
        params![source, pool],
    )?;
    row.map_or(Ok(None), |mut row| row.take())
}

/// Links a pool to the issue that is its record.
pub fn link_status(
    unit: &mut UnitOfWork<'_>,
    source: &str,
    pool: &str,
    external_id: &str,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE tracker_status_records SET external_id = ?3 WHERE source = ?1 AND pool = ?2",
        params![source, pool, external_id],
    )?;
    Ok(())
}

/// The issues of a source that are records of pools.
pub fn status_issues(reader: &mut dyn Reader, source: &str) -> Result<Vec<String>, Error> {
    let rows = reader.query(
        "SELECT external_id FROM tracker_status_records WHERE source = ?1 AND external_id IS NOT NULL",
        params![source],
    )?;
    rows.into_iter().map(|mut row| row.take()).collect()
}
