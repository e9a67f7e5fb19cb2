//! Units of work: the only way to write.
//!
//! A repository is handed a [`UnitOfWork`] (to write) or any [`Reader`] (to read). Neither can
//! commit or roll back: that is the engine's, once the whole unit has succeeded or failed. Domain
//! events are given to the unit and stored by it in the same transaction.

use std::any::Any;
use std::sync::Arc;

use cleveragents_domain::{NewEvent, SessionId, Timestamp};

use crate::counters::Counters;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::repository::events::{self, ReadyEvent};
use crate::value::{Param, Row, params};

/// Something that answers queries from one consistent state of the database.
///
/// Statements are written with numbered parameters (`?1`, `?2`, …) in the subset of SQL that both
/// databases share.
pub trait Reader {
    /// The database behind it, for the few statements that must differ.
    fn dialect(&self) -> Dialect;

    /// Hands each row of the answer to `each`, in order.
    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// All rows of the answer.
    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        self.query_each(sql, params, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of the answer, if there is one.
    fn query_first(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error> {
        let mut first = None;
        self.query_each(sql, params, &mut |row| {
            first.get_or_insert(row);
            Ok(())
        })?;
        Ok(first)
    }
}

/// What an engine's transaction can do. Only engines make one.
pub(crate) trait Transaction: Reader {
    /// Runs a statement and says how many rows it touched.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error>;

    /// The counters of the transaction, where they are kept in memory.
    fn counters(&mut self) -> Option<&mut Counters> {
        None
    }

    /// Writes the counters to the rows they belong to.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// One unit of work: everything written through it becomes true together, or not at all.
///
/// The closure that gets it may be run again from the start when another process interfered, so it
/// must have no effect other than through the unit.
pub struct UnitOfWork<'t> {
    transaction: &'t mut dyn Transaction,
    events: Vec<ReadyEvent>,
    now: Timestamp,
    identity: Arc<str>,
    wrote: bool,
    /// The first statement that failed. A unit with a failed statement cannot be committed, on
    /// either database, even when the closure overlooked the error.
    failed: Option<Error>,
}

impl<'t> UnitOfWork<'t> {
    pub(crate) fn new(transaction: &'t mut dyn Transaction, identity: Arc<str>) -> Self {
        Self {
            transaction,
            events: Vec::new(),
            now: Timestamp::now(),
            identity,
            wrote: false,
            failed: None,
        }
    }

    /// The moment of this unit, the same for all its rows.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Who does it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Adds an event, stored with the unit.
    pub fn emit(&mut self, event: NewEvent) {
        self.events.push(event.into());
    }

    /// Adds an event whose payload is text already.
    pub(crate) fn emit_ready(&mut self, event: ReadyEvent) {
        self.events.push(event);
    }

    /// Runs a statement and says how many rows it touched.
    pub(crate) fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        self.settle()?;
        self.execute_unsettled(sql, params)
    }

    /// Runs a statement that neither reads nor changes a session's row, whose number may be out of
    /// date ([`Counters`]). That the row is there is all it may rely on.
    pub(crate) fn execute_unsettled(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, Error> {
        self.wrote = true;
        let outcome = self.transaction.execute(sql, params);
        self.note(outcome)
    }

    /// Takes the next `count` message numbers of a session and gives the first, `None` when the
    /// session does not exist.
    ///
    /// The row is locked until the transaction ends on both databases: by the update on PostgreSQL,
    /// and by the one writing transaction on SQLite, where the update may follow later.
    pub(crate) fn take_numbers(
        &mut self,
        session: SessionId,
        count: u64,
        content_bytes: u64,
    ) -> Result<Option<u64>, Error> {
        let now = self.now;
        let Some(counters) = self.transaction.counters() else {
            let row = self.update_and_read(
                Counters::UPDATE,
                params![session, count, content_bytes, now],
                &ReadBack {
                    column: "next_sequence",
                    select: Counters::READ,
                },
            )?;
            return row
                .map(|mut row| Ok(row.take::<u64>()? - count))
                .transpose();
        };
        if let Some(first) = counters.take(session, count, content_bytes, now) {
            self.wrote = true;
            return Ok(Some(first));
        }
        if counters.is_full() {
            self.settle()?;
        }
        let outcome = self.read_number(session);
        let Some(next) = self.note(outcome)? else {
            return Ok(None);
        };
        self.wrote = true;
        Ok(self.transaction.counters().and_then(|counters| {
            counters.remember(session, next);
            counters.take(session, count, content_bytes, now)
        }))
    }

    /// The next number in the row of a session that the counters do not hold.
    fn read_number(&mut self, session: SessionId) -> Result<Option<u64>, Error> {
        let row = self
            .transaction
            .query_first(Counters::READ, params![session])?;
        row.map(|mut row| row.take()).transpose()
    }

    fn settle(&mut self) -> Result<(), Error> {
        let outcome = self.transaction.settle();
        self.note(outcome)
    }

    /// Runs a statement that writes and gives back rows (`RETURNING`).
    pub(crate) fn execute_returning(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        self.wrote = true;
        self.query_first(sql, params)
    }

    /// Runs an update of at most one row and reads a column back from it, `None` when no row matched.
    ///
    /// The row is locked from the update to the end of the transaction on both databases, so the
    /// value read is the one this update made. The
    /// first parameter is the key in both statements.
    pub(crate) fn update_and_read(
        &mut self,
        update: &str,
        params: &[Param<'_>],
        read_back: &ReadBack<'_>,
    ) -> Result<Option<Row>, Error> {
        match self.dialect() {
            // RETURNING makes SQLite fill a temporary table, at three times the cost of both steps.
            Dialect::Sqlite => match self.execute(update, params)? {
                0 => Ok(None),
                _ => self.query_first(read_back.select, params.get(..1).unwrap_or_default()),
            },
            // One round trip to the server instead of two.
            Dialect::Postgres => {
                self.execute_returning(&format!("{update} RETURNING {}", read_back.column), params)
            }
        }
    }

    pub(crate) const fn has_written(&self) -> bool {
        self.wrote
    }

    /// Stores the events; the last step before the commit.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            events::append(self, &events)?;
        }
        Ok(())
    }

    fn note<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &outcome
            && self.failed.is_none()
        {
            self.failed = Some(error.clone());
        }
        outcome
    }
}

impl Reader for UnitOfWork<'_> {
    fn dialect(&self) -> Dialect {
        self.transaction.dialect()
    }

    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.settle()?;
        let outcome = self.transaction.query_each(sql, params, each);
        self.note(outcome)
    }
}

/// How a column is read back after an update.
pub(crate) struct ReadBack<'s> {
    /// The column.
    pub(crate) column: &'s str,
    /// A statement that reads it, by the key that is `?1`.
    pub(crate) select: &'s str,
}

/// A unit of work as an engine sees it: something to run, and a place for how it ended.
pub(crate) trait Unit: Any + Send {
    /// Runs the work and stores its events.
    fn run(&mut self, transaction: &mut dyn Transaction) -> Verdict;

    /// Replaces the outcome: the work ran, and then it could not be committed.
    fn fail(&mut self, error: Error);
}

/// What a unit wants after it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To be committed.
    Commit,
    /// Nothing: it failed before it wrote anything.
    Untouched,
    /// To be taken back.
    RollBack,
}
