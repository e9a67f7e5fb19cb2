//! The event log: audit trail, live stream and outbox in one.

use cleveragents_domain::{Event, EventKind, NewAuditEntry, NewEvent, PlanId, Position, Timestamp};
use serde_json::{Value, json};

use super::{audit, json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// An event with its payload serialized for storage.
#[derive(Debug)]
pub(crate) struct ReadyEvent {
    pub(crate) kind: EventKind,
    pub(crate) subject: String,
    pub(crate) payload: String,
}

impl From<NewEvent> for ReadyEvent {
    fn from(event: NewEvent) -> Self {
        Self {
            kind: event.kind,
            payload: json_text(&event.payload),
            subject: event.subject,
        }
    }
}

/// Stores events in the order given, as the last step of a unit of work.
pub(crate) fn append(unit: &mut UnitOfWork<'_>, events: &[ReadyEvent]) -> Result<(), Error> {
    if let Some(lock) = unit.dialect().lock_event_numbers() {
        unit.query(lock, &[])?;
    }
    let now = unit.now();
    for event in events {
        unit.execute_unsettled(
            "INSERT INTO events (kind, subject, payload, occurred_at) VALUES (?1, ?2, ?3, ?4)",
            params![event.kind.as_str(), &event.subject, &event.payload, now],
        )?;
    }
    for event in events {
        if let Some(kind) = event.kind.audited() {
            write_audit_entry(unit, kind, event)?;
        }
    }
    Ok(())
}

/// Writes the audit entry of an event, in the unit of work that caused it.
fn write_audit_entry(
    unit: &mut UnitOfWork<'_>,
    kind: &'static str,
    event: &ReadyEvent,
) -> Result<(), Error> {
    let payload: Value = stored_json("the payload of an event", &event.payload)?;
    let namespace = payload.get("namespace").and_then(Value::as_str);
    let entry = NewAuditEntry {
        kind,
        identity: unit.identity().to_owned(),
        namespace: namespace.map(str::to_owned),
        subject: Some(event.subject.clone()),
        details: json!({"event": event.kind.as_str(), "payload": payload}),
    };
    audit::record(unit, entry)?;
    Ok(())
}

macro_rules! columns {
    () => {
        "position, kind, subject, payload, occurred_at"
    };
}

fn read(mut row: Row) -> Result<Event, Error> {
    Ok(Event {
        position: Position(row.take()?),
        kind: {
            let kind: String = row.take()?;
            EventKind::from_stored(&kind).ok_or_else(|| {
                Error::stored("an event", format!("has the unknown kind `{kind}`"))
            })?
        },
        subject: row.take()?,
        payload: stored_json("the payload of an event", &row.take::<String>()?)?,
        occurred_at: row.take()?,
    })
}

/// Events after a position, in order, at most `limit`. A reader that continues after the last position of each page
/// gets every event once.
pub fn after(reader: &mut dyn Reader, position: Position, limit: u64) -> Result<Vec<Event>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM events WHERE position > ?1 ORDER BY position LIMIT ?2"
            ),
            params![position.0, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Position of the newest event; 0 when there is none.
pub fn newest(reader: &mut dyn Reader) -> Result<Position, Error> {
    let row = reader.query_first("SELECT MAX(position) FROM events", &[])?;
    let newest = row.map(|mut row| row.take::<Option<u64>>()).transpose()?;
    Ok(Position(newest.flatten().unwrap_or_default()))
}

/// Events about one subject after a position, in order, at most `limit`. Excludes events about appended messages.
pub fn about(
    reader: &mut dyn Reader,
    subject: &str,
    position: Position,
    limit: u64,
) -> Result<Vec<Event>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM events WHERE position > ?2 AND subject = ?1 \
                 AND kind <> 'session.message_appended' ORDER BY position LIMIT ?3"
            ),
            params![subject, position.0, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// The newest events about one subject, oldest first, at most `limit`. Excludes events about appended messages.
pub fn newest_about(
    reader: &mut dyn Reader,
    subject: &str,
    limit: u64,
) -> Result<Vec<Event>, Error> {
    let mut events = reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM events WHERE subject = ?1 \
                 AND kind <> 'session.message_appended' ORDER BY position DESC LIMIT ?2"
            ),
            params![subject, limit],
        )?
        .into_iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    events.reverse();
    Ok(events)
}

/// The subjects of the events of a plan: the plan itself, and the ends of its tool calls.
const OF_PLAN: &str = "(subject = ?1 OR (kind IN ('tool.finished', 'tool.refused') AND subject IN \
     (SELECT invocation_id FROM tool_invocations WHERE plan_id = ?1)))";

/// The events of a plan and of its tool calls after a position, at most `limit`.
pub fn of_plan(
    reader: &mut dyn Reader,
    plan: PlanId,
    position: Position,
    limit: u64,
) -> Result<Vec<Event>, Error> {
    let text = format!(
        "SELECT {} FROM events WHERE position > ?2 AND {OF_PLAN} ORDER BY position LIMIT ?3",
        columns!()
    );
    let rows = reader.query(&text, params![plan, position.0, limit])?;
    rows.into_iter().map(read).collect()
}

/// The newest events of a plan and of its tool calls, oldest first, at most `limit`.
pub fn newest_of_plan(
    reader: &mut dyn Reader,
    plan: PlanId,
    limit: u64,
) -> Result<Vec<Event>, Error> {
    let text = format!(
        "SELECT {} FROM events WHERE {OF_PLAN} ORDER BY position DESC LIMIT ?2",
        columns!()
    );
    let rows = reader.query(&text, params![plan, limit])?;
    rows.into_iter().rev().map(read).collect()
}

/// Number of events that [`prune`] would remove.
pub fn count_before(reader: &mut dyn Reader, moment: Timestamp) -> Result<u64, Error> {
    reader
        .query_first(
            "SELECT COUNT(*) FROM events WHERE occurred_at < ?1 \
             AND position < (SELECT MAX(position) FROM events)",
            params![moment],
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()
}

/// Removes events older than `moment` and returns their number. The newest event always stays,
/// because the next position is counted from it.
pub fn prune(unit: &mut UnitOfWork<'_>, moment: Timestamp) -> Result<u64, Error> {
    unit.execute(
        "DELETE FROM events WHERE occurred_at < ?1 AND position < (SELECT MAX(position) FROM events)",
        params![moment],
    )
}
