//! Messages: appended with the next number of their session, never changed afterwards, except that the user can undo
//! them and restore them.
//!
//! The number is allocated from the session's row in the same unit of work that stores the message,
//! backed by `UNIQUE (session_id, sequence)`. N appends thus get N consecutive numbers under any
//! concurrency, and a unit that fails leaves no gap.

use std::borrow::Cow;
use std::ops::Range;

use cleveragents_domain::{
    EventKind, Message, MessageState, NewMessage, Sequence, SessionId, Timestamp,
};

use super::events::ReadyEvent;
use super::{sessions, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "message_id, sequence, role, content, metadata, state, created_at"
    };
}

fn read(mut row: Row) -> Result<Message, Error> {
    Ok(Message {
        id: row.take()?,
        sequence: Sequence(row.take()?),
        role: row.take()?,
        content: row.take()?,
        metadata: stored_json("the metadata of a message", &row.take::<String>()?)?,
        state: {
            let state: String = row.take()?;
            MessageState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a message", format!("is `{state}`")))?
        },
        created_at: row.take()?,
    })
}

/// Whether an append emits events to the followers of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendEvents {
    /// One event per message.
    Each,
    /// No event; the event of the whole operation is enough.
    Nothing,
}

/// A message to append, with its original time if that is not now.
#[derive(Debug, Clone)]
pub struct AppendedMessage {
    /// The message to store.
    pub message: NewMessage,
    /// Original time of imported and forked messages.
    pub message_at: Option<Timestamp>,
}

impl From<NewMessage> for AppendedMessage {
    fn from(message: NewMessage) -> Self {
        Self {
            message,
            message_at: None,
        }
    }
}

/// Appends messages in order, with consecutive numbers. `None` when the session does not exist.
pub fn append<'a>(
    unit: &mut UnitOfWork<'_>,
    session: SessionId,
    messages: impl IntoIterator<Item = &'a AppendedMessage, IntoIter: Clone>,
    announce: AppendEvents,
) -> Result<Option<Vec<Sequence>>, Error> {
    let messages = messages.into_iter();
    let (mut count, mut bytes) = (0, 0);
    for appended in messages.clone() {
        count += 1;
        bytes += appended.message.content().len() as u64;
    }
    let Some(first) = sessions::allocate(unit, session, count, bytes)? else {
        return Ok(None);
    };
    let now = unit.now();
    let subject = session.to_string();
    let mut sequences = Vec::new();
    for (sequence, appended) in (first.0..).zip(messages) {
        let message = &appended.message;
        let id = message.id().to_string();
        let metadata: Cow<'_, str> = if message.metadata().is_empty() {
            "{}".into()
        } else {
            serde_json::to_string(message.metadata())
                .map_err(|error| Error::Internal(format!("metadata does not serialize: {error}")))?
                .into()
        };
        unit.execute_unsettled(
            "INSERT INTO messages (message_id, session_id, sequence, role, state, content, metadata, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                &id,
                &subject,
                sequence,
                message.role().as_str(),
                message.state().as_str(),
                message.content(),
                metadata.as_ref(),
                appended.message_at.unwrap_or(now),
            ],
        )?;
        if announce == AppendEvents::Each {
            // The JSON is formatted as text: neither an id nor a role contains characters that JSON
            // escapes.
            let role = message.role().as_str();
            unit.emit_ready(ReadyEvent {
                kind: EventKind::MessageAppended,
                subject: subject.clone(),
                payload: format!(
                    r#"{{"sequence":{sequence},"message_id":"{id}","role":"{role}"}}"#
                ),
            });
        }
        sequences.push(Sequence(sequence));
    }
    Ok(Some(sequences))
}

/// Metadata key of a message that the user undid.
const UNDONE: &str = "undone";

/// Whether the user undid a message: models do not receive it.
pub fn is_undone(message: &Message) -> bool {
    message.metadata.get(UNDONE) == Some(&serde_json::Value::Bool(true))
}

/// Marks the messages of a session in a range of numbers as undone, or restores them.
pub fn set_undone(
    unit: &mut UnitOfWork<'_>,
    session: SessionId,
    range: Range<u64>,
    is_undone: bool,
) -> Result<(), Error> {
    let rows = unit.query(
        "SELECT sequence, metadata FROM messages WHERE session_id = ?1 AND sequence >= ?2 AND sequence < ?3",
        params![session, range.start, range.end],
    )?;
    for mut row in rows {
        let (sequence, metadata): (u64, String) = (row.take()?, row.take()?);
        let mut metadata: cleveragents_domain::Metadata =
            stored_json("the metadata of a message", &metadata)?;
        let was_undone = metadata.remove(UNDONE).is_some();
        if was_undone == is_undone {
            continue;
        }
        if is_undone {
            metadata.insert(UNDONE.to_owned(), true.into());
        }
        let text = serde_json::to_string(&metadata)
            .map_err(|error| Error::Internal(format!("metadata does not serialize: {error}")))?;
        unit.execute(
            "UPDATE messages SET metadata = ?3 WHERE session_id = ?1 AND sequence = ?2",
            params![session, sequence, text.as_str()],
        )?;
    }
    Ok(())
}

/// Messages from number `from` on, in order, at most `limit`.
pub fn page(
    reader: &mut dyn Reader,
    session: SessionId,
    from: Sequence,
    limit: u64,
) -> Result<Vec<Message>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM messages WHERE session_id = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3"
            ),
            params![session, from.0, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// The last `count` messages of a session, in order.
pub fn last(
    reader: &mut dyn Reader,
    session: SessionId,
    count: u64,
) -> Result<Vec<Message>, Error> {
    let mut messages = reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM messages WHERE session_id = ?1 ORDER BY sequence DESC LIMIT ?2"
            ),
            params![session, count],
        )?
        .into_iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    messages.reverse();
    Ok(messages)
}
