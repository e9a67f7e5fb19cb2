//! Message numbers that units of a transaction took and that the rows of their sessions do not show
//! yet.
//!
//! Units that share a commit often append to the same session. The first one reads the session's
//! next number, the others count on from there in memory, and the row is written once for all of
//! them. Nobody can see the difference, because of one rule: the counters are settled, which means
//! written and forgotten, before anything that could read or write the row of a session.
//!
//! - Within a unit, [`UnitOfWork`](crate::UnitOfWork) settles before every statement, except the
//!   few that it is told cannot meet a session's row.
//! - Between units, the writer settles before it commits and before it ends a savepoint.
//! - What is taken back takes its counters with it. They are only ever shared by units that are
//!   taken back together; a unit in a savepoint of its own begins and ends without any.

use cleveragents_domain::{SessionId, Timestamp};

use crate::error::Error;
use crate::value::{Param, params};

/// With this many sessions in hand all are settled, so that finding one stays cheap.
const SESSIONS: usize = 64;

/// What was taken and not yet written.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    taken: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    session: SessionId,
    next: u64,
    count: u64,
    content_bytes: u64,
    at: Timestamp,
}

impl Counters {
    /// Reads the next number of a session.
    pub(crate) const READ: &str = "SELECT next_sequence FROM sessions WHERE session_id = ?1";

    /// Takes numbers, counts them, and tells when that was.
    pub(crate) const UPDATE: &str = "UPDATE sessions SET next_sequence = next_sequence + ?2, \
         content_bytes = content_bytes + ?3, updated_at = ?4 WHERE session_id = ?1";

    pub(crate) const fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.taken.len() >= SESSIONS
    }

    /// Forgets what was taken: it was taken back.
    pub(crate) fn discard(&mut self) {
        self.taken.clear();
    }

    /// Remembers the next number of a session, as it was read.
    pub(crate) fn remember(&mut self, session: SessionId, next: u64) {
        self.taken.push(Taken {
            session,
            next,
            count: 0,
            content_bytes: 0,
            at: Timestamp::default(),
        });
    }

    /// Takes the next numbers of a session and gives the first, `None` when it is not remembered.
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        count: u64,
        content_bytes: u64,
        at: Timestamp,
    ) -> Option<u64> {
        let taken = self
            .taken
            .iter_mut()
            .find(|taken| taken.session == session)?;
        let first = taken.next;
        taken.next += count;
        taken.count += count;
        taken.content_bytes += content_bytes;
        taken.at = at;
        Some(first)
    }

    /// Writes what was taken with `execute` and forgets it.
    pub(crate) fn settle(
        &mut self,
        mut execute: impl FnMut(&str, &[Param<'_>]) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        for taken in self.taken.drain(..) {
            let touched = execute(
                Self::UPDATE,
                params![taken.session, taken.count, taken.content_bytes, taken.at],
            )?;
            if touched != 1 {
                return Err(Error::Internal(format!(
                    "{touched} sessions {} took the numbers of its messages",
                    taken.session
                )));
            }
        }
        Ok(())
    }
}
