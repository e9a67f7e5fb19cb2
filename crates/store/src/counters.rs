//! In-memory message counters: sequence numbers that the units of work in a transaction have
//! allocated, but that are not yet written to the rows of their sessions.
//!
//! Units of work that share a commit often append to the same session. The first unit reads the
//! session's next number, the others continue counting from there in memory, and the row is written
//! once for all of them. This is invisible to readers because of one rule: the counters are flushed
//! (written and cleared) before any statement that could read or write the row of a session.
//!
//! - Within a unit, [`UnitOfWork`](crate::UnitOfWork) flushes before every statement, except the
//!   few that are declared not to touch a session's row.
//! - Between units, the writer flushes before it commits and before it ends a savepoint.
//! - A rollback discards the counters. Counters are only shared by units that are rolled
//!   back together; a unit in its own savepoint starts and ends with empty counters.

use cleveragents_domain::{SessionId, Timestamp};

use crate::error::Error;
use crate::value::{Param, params};

/// Maximum number of sessions held before all are flushed, so that the linear lookup stays cheap.
const MAX_SESSIONS: usize = 64;

/// Numbers that are allocated but not yet written to the rows of their sessions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    allocated: Vec<AllocatedNumbers>,
}

#[derive(Debug)]
struct AllocatedNumbers {
    session: SessionId,
    next: u64,
    count: u64,
    content_bytes: u64,
    at: Timestamp,
}

impl Counters {
    /// Reads the next sequence number of a session.
    pub(crate) const READ: &str = "SELECT next_sequence FROM sessions WHERE session_id = ?1";

    /// Advances the next sequence number, adds to the content size, and sets the update time of a
    /// session.
    pub(crate) const UPDATE: &str = "UPDATE sessions SET next_sequence = next_sequence + ?2, \
         content_bytes = content_bytes + ?3, updated_at = ?4 WHERE session_id = ?1";

    pub(crate) const fn is_empty(&self) -> bool {
        self.allocated.is_empty()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.allocated.len() >= MAX_SESSIONS
    }

    /// Drops the allocated numbers after a rollback.
    pub(crate) fn discard(&mut self) {
        self.allocated.clear();
    }

    /// Stores the next number of a session, as read from its row.
    pub(crate) fn remember(&mut self, session: SessionId, next: u64) {
        self.allocated.push(AllocatedNumbers {
            session,
            next,
            count: 0,
            content_bytes: 0,
            at: Timestamp::default(),
        });
    }

    /// Allocates `count` consecutive numbers of a session and returns the first; `None` when the
    /// session is not in memory.
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        count: u64,
        content_bytes: u64,
        at: Timestamp,
    ) -> Option<u64> {
        let allocated = self
            .allocated
            .iter_mut()
            .find(|allocated| allocated.session == session)?;
        let first = allocated.next;
        allocated.next += count;
        allocated.count += count;
        allocated.content_bytes += content_bytes;
        allocated.at = at;
        Some(first)
    }

    /// Writes all allocated numbers with `execute` and clears them.
    pub(crate) fn write(
        &mut self,
        mut execute: impl FnMut(&str, &[Param<'_>]) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        for allocated in self.allocated.drain(..) {
            let affected = execute(
                Self::UPDATE,
                params![
                    allocated.session,
                    allocated.count,
                    allocated.content_bytes,
                    allocated.at
                ],
            )?;
            if affected != 1 {
                return Err(Error::Internal(format!(
                    "updating the message counter of session {} changed {affected} rows",
                    allocated.session
                )));
            }
        }
        Ok(())
    }
}
