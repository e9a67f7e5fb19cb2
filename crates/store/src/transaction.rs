//! Units of work: the only way to write.
//!
//! A repository receives a [`UnitOfWork`] (to write) or any [`Reader`] (to read). Neither can commit or roll back: the
//! engine does that, once the whole unit has succeeded or failed. Domain events are handed to the unit, which stores
//! them in the same transaction.

use std::any::Any;
use std::sync::Arc;

use cleveragents_domain::{NewEvent, SessionId, Timestamp};

use crate::counters::Counters;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::repository::events::{self, ReadyEvent};
use crate::value::{Param, Row, params};

/// Runs queries against one consistent snapshot of the database.
///
/// Statements use numbered parameters (`?1`, `?2`, …) and the subset of SQL that both databases share.
pub trait Reader {
    /// Database behind the reader, for the few statements that must differ.
    fn dialect(&self) -> Dialect;

    /// Calls `each` with every row of the result, in order.
    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error>;

    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        self.query_each(sql, params, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of the result, if there is one.
    fn query_first(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error> {
        let mut first = None;
        self.query_each(sql, params, &mut |row| {
            first.get_or_insert(row);
            Ok(())
        })?;
        Ok(first)
    }
}

/// A transaction of an engine. Only engines create one.
pub(crate) trait Transaction: Reader {
    /// Runs a statement and returns the number of affected rows.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error>;

    /// The in-memory counters of the transaction, if the engine keeps any.
    fn counters(&mut self) -> Option<&mut Counters> {
        None
    }

    /// Writes the counters to the rows they belong to.
    fn write_counters(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// One unit of work: everything written through it is committed together, or not at all.
///
/// The closure that receives it may be run again from the start when another process interfered, so it must have no
/// effects except through the unit.
pub struct UnitOfWork<'t> {
    transaction: &'t mut dyn Transaction,
    events: Vec<ReadyEvent>,
    now: Timestamp,
    identity: Arc<str>,
    wrote: bool,
    /// The first statement that failed. A unit with a failed statement cannot be committed, on either database, even
    /// when the closure ignored the error.
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

    /// Timestamp of this unit, the same for all its rows.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Identity recorded for the writes of this unit.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Adds an event, which is stored with the unit.
    pub fn emit(&mut self, event: NewEvent) {
        self.events.push(event.into());
    }

    /// Adds an event whose payload is already serialized.
    pub(crate) fn emit_ready(&mut self, event: ReadyEvent) {
        self.events.push(event);
    }

    /// Runs a statement and returns the number of affected rows.
    pub(crate) fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        self.write_counters()?;
        self.execute_unsettled(sql, params)
    }

    /// Runs a statement without flushing the [`Counters`] first. The statement must neither read nor change a session's
    /// row, whose counters may be out of date; it may only rely on the row's existence.
    pub(crate) fn execute_unsettled(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, Error> {
        self.wrote = true;
        let outcome = self.transaction.execute(sql, params);
        self.remember_failure(outcome)
    }

    /// Allocates the next `count` message numbers of a session and returns the first; `None` when the session does not
    /// exist.
    ///
    /// On both databases no other transaction can change the row until this one ends. On PostgreSQL the update locks
    /// the row; on SQLite there is only one writing transaction at a time, so the update may follow later.
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
            self.write_counters()?;
        }
        let outcome = self.read_number(session);
        let Some(next) = self.remember_failure(outcome)? else {
            return Ok(None);
        };
        self.wrote = true;
        Ok(self.transaction.counters().and_then(|counters| {
            counters.remember(session, next);
            counters.take(session, count, content_bytes, now)
        }))
    }

    /// Reads the next number from the row of a session that is not in the counters.
    fn read_number(&mut self, session: SessionId) -> Result<Option<u64>, Error> {
        let row = self
            .transaction
            .query_first(Counters::READ, params![session])?;
        row.map(|mut row| row.take()).transpose()
    }

    fn write_counters(&mut self) -> Result<(), Error> {
        let outcome = self.transaction.write_counters();
        self.remember_failure(outcome)
    }

    /// Runs a writing statement that returns rows (`RETURNING`).
    pub(crate) fn execute_returning(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        self.wrote = true;
        self.query_first(sql, params)
    }

    /// Runs an update of at most one row and reads a column back from it; `None` when no row matched.
    ///
    /// The row is locked from the update to the end of the transaction on both databases, so the value read is the one
    /// this update wrote. The first parameter is the key in both statements.
    pub(crate) fn update_and_read(
        &mut self,
        update: &str,
        params: &[Param<'_>],
        read_back: &ReadBack<'_>,
    ) -> Result<Option<Row>, Error> {
        match self.dialect() {
            // RETURNING makes SQLite fill a temporary table, which costs three times as much as an update and a query.
            Dialect::Sqlite => match self.execute(update, params)? {
                0 => Ok(None),
                _ => self.query_first(read_back.select, params.get(..1).unwrap_or_default()),
            },
            // RETURNING needs one round trip to the server instead of two.
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

    fn remember_failure<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
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
        self.write_counters()?;
        let outcome = self.transaction.query_each(sql, params, each);
        self.remember_failure(outcome)
    }
}

/// Column to read back after an update.
pub(crate) struct ReadBack<'s> {
    /// Name of the column.
    pub(crate) column: &'s str,
    /// Statement that reads it, with the key as `?1`.
    pub(crate) select: &'s str,
}

/// A unit of work as seen by an engine: work to run, and a slot for its outcome.
pub(crate) trait Unit: Any + Send {
    /// Runs the work and stores its events.
    fn run(&mut self, transaction: &mut dyn Transaction) -> UnitDecision;

    /// Replaces the outcome with an error, because the commit failed after the work ran.
    fn fail(&mut self, error: Error);
}

/// Action that the engine must take after a unit ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitDecision {
    Commit,
    /// No action: the unit failed before it wrote anything.
    Untouched,
    RollBack,
}
