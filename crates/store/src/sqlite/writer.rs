//! Runs a batch of units of work in one SQLite transaction.
//!
//! A batch first runs without savepoints, which cost a copy of every touched page. Only when a unit
//! fails after it wrote something is the batch rolled back and run again with a savepoint around
//! each unit, so that the failing unit rolls back only itself. Units may therefore run twice; they
//! have no effects except through their transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::{SqliteTransaction, jitter, translate};
use crate::counters::Counters;
use crate::error::Error;
use crate::group::Writer;
use crate::transaction::{Transaction, Unit, UnitDecision};

/// A wait for the write lock of at least this long is logged for operators.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// The writing connection of an engine.
pub(super) struct SqliteWriter {
    connection: Connection,
    database: String,
    busy_timeout: Duration,
    /// Empty between two transactions.
    counters: Counters,
}

type Units = Vec<Box<dyn Unit>>;

impl SqliteWriter {
    pub(super) fn new(connection: Connection, database: String, busy_timeout: Duration) -> Self {
        Self {
            connection,
            database,
            busy_timeout,
            counters: Counters::default(),
        }
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    fn run_statement(&self, sql: &str) -> Result<(), Error> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| translate(&self.database, error))
    }

    /// Takes the write lock, waiting for other processes up to the busy timeout.
    fn begin(&self) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            match self.run_statement("BEGIN IMMEDIATE") {
                Err(Error::Busy { .. }) if started.elapsed() < self.busy_timeout => {
                    std::thread::sleep(jitter(4));
                }
                Err(Error::Busy { .. }) => {
                    return Err(Error::Busy {
                        seconds: self.busy_timeout.as_secs(),
                    });
                }
                outcome => {
                    let waited = started.elapsed();
                    if waited >= LONG_WAIT {
                        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                        tracing::info!(waited_ms, "waited for the write lock of the database");
                    }
                    return outcome;
                }
            }
        }
    }

    /// Rolls back a transaction that must not be committed. A full disk may already have ended it.
    fn roll_back(&mut self) -> Result<(), Error> {
        self.counters.discard();
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.run_statement("ROLLBACK")
    }

    fn transaction(&mut self) -> SqliteTransaction<'_> {
        SqliteTransaction::counting(&self.connection, &self.database, &mut self.counters)
    }

    fn run_unit(&mut self, unit: &mut Box<dyn Unit>) -> UnitDecision {
        let mut transaction = self.transaction();
        catch_unwind(AssertUnwindSafe(|| unit.run(&mut transaction))).unwrap_or_else(|_| {
            unit.fail(Error::Internal(
                "a unit of work panicked and was rolled back".to_owned(),
            ));
            UnitDecision::RollBack
        })
    }

    /// Runs the batch without savepoints, then the units that arrived meanwhile. On failure the
    /// batch must not be committed; the error is returned if no unit holds it yet.
    fn run_together(
        &mut self,
        units: &mut Units,
        more: &mut dyn FnMut(&mut Units) -> bool,
    ) -> Result<(), Option<Error>> {
        let mut ran = 0;
        loop {
            for unit in units.iter_mut().skip(ran) {
                if self.run_unit(unit) == UnitDecision::RollBack {
                    return Err(None);
                }
            }
            ran = units.len();
            if !more(units) {
                return self.transaction().write_counters().map_err(Some);
            }
        }
    }

    /// Runs each unit in its own savepoint.
    fn run_separately(&mut self, units: &mut Units) -> Result<(), Error> {
        for unit in units {
            self.run_statement("SAVEPOINT unit")?;
            let mut decision = self.run_unit(unit);
            if decision != UnitDecision::RollBack
                && let Err(error) = self.transaction().write_counters()
            {
                unit.fail(error);
                decision = UnitDecision::RollBack;
            }
            if decision == UnitDecision::RollBack {
                self.counters.discard();
                self.run_statement("ROLLBACK TO unit")?;
            }
            self.run_statement("RELEASE unit")?;
        }
        Ok(())
    }

    fn run_and_commit(
        &mut self,
        units: &mut Units,
        more: &mut dyn FnMut(&mut Units) -> bool,
    ) -> Result<(), Error> {
        self.begin()?;
        if let Err(failure) = self.run_together(units, more) {
            self.roll_back()?;
            if let [unit] = units.as_mut_slice() {
                if let Some(error) = failure {
                    unit.fail(error);
                }
                return Ok(());
            }
            tracing::debug!(
                units = units.len(),
                "transaction retried: one of its units failed"
            );
            self.begin()?;
            self.run_separately(units)?;
        }
        self.run_statement("COMMIT")
    }
}

impl Writer for SqliteWriter {
    type Unit = Box<dyn Unit>;

    fn run(&mut self, units: &mut Units, more: &mut dyn FnMut(&mut Units) -> bool) {
        if let Err(error) = self.run_and_commit(units, more) {
            tracing::warn!(units = units.len(), %error, "transaction failed");
            // No unit of the batch was stored. If the rollback fails too, the next BEGIN reports it.
            let _rolled_back = self.roll_back();
            for unit in units {
                unit.fail(error.clone());
            }
        }
    }
}
