//! Summaries that replace the beginning of a conversation in requests to a model.

use cleveragents_domain::{SessionId, TurnId};

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A summary of the beginning of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSummary {
    /// The summary covers all messages of the session with a smaller sequence number.
    pub sequence: u64,
    /// The turn that ran when the summary was written.
    pub turn: TurnId,
    /// Number of steps of that turn that the summary covers, not counting the user's message.
    pub steps: u64,
    /// The summary.
    pub text: String,
    /// Estimated number of tokens of the covered messages.
    pub tokens_before: u64,
    /// Estimated number of tokens of the summary.
    pub tokens_after: u64,
}

fn read(mut row: Row) -> Result<ContextSummary, Error> {
    Ok(ContextSummary {
        sequence: row.take()?,
        turn: row.take()?,
        steps: row.take()?,
        text: row.take()?,
        tokens_before: row.take()?,
        tokens_after: row.take()?,
    })
}

/// Adds the newest summary of a session.
pub fn add(
    unit: &mut UnitOfWork<'_>,
    session: SessionId,
    summary: &ContextSummary,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO context_summaries \
         (session_id, number, sequence, turn_id, steps, text, tokens_before, tokens_after, created_at) \
         SELECT ?1, COALESCE(MAX(number) + 1, 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8 \
         FROM context_summaries WHERE session_id = ?1",
        params![
            session,
            summary.sequence,
            summary.turn,
            summary.steps,
            summary.text.as_str(),
            summary.tokens_before,
            summary.tokens_after,
            now
        ],
    )?;
    Ok(())
}

/// The newest summary of a session.
pub fn newest(
    reader: &mut dyn Reader,
    session: SessionId,
) -> Result<Option<ContextSummary>, Error> {
    let row = reader.query_first(
        "SELECT sequence, turn_id, steps, text, tokens_before, tokens_after \
         FROM context_summaries WHERE session_id = ?1 ORDER BY number DESC LIMIT 1",
        params![session],
    )?;
    row.map(read).transpose()
}

/// All summaries of a session, oldest first.
pub fn of_session(
    reader: &mut dyn Reader,
    session: SessionId,
) -> Result<Vec<ContextSummary>, Error> {
    let rows = reader.query(
        "SELECT sequence, turn_id, steps, text, tokens_before, tokens_after \
         FROM context_summaries WHERE session_id = ?1 ORDER BY number",
        params![session],
    )?;
    rows.into_iter().map(read).collect()
}
