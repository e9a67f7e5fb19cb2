//! Running a batch of units of work in one SQLite transaction.
//!
//! A batch first runs without savepoints, which cost a copy of every page touched. Only when a
//! unit fails after it wrote something is the batch taken back and run again with a savepoint
//! around each unit, so that the failing one takes only itself back. Units may be run twice for
//! this reason; they have no effect but through their transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::{SqliteTransaction, jitter, translate};
use crate::error::Error;
use crate::group::Writer;
use crate::transaction::{Unit, Verdict};

/// The writing connection of an engine.
pub(super) struct SqliteWriter {
    connection: Connection,
    place: String,
    limit: Duration,
}

impl SqliteWriter {
    pub(super) const fn new(connection: Connection, place: String, limit: Duration) -> Self {
        Self {
            connection,
            place,
            limit,
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
            .map_err(|error| translate(&self.place, error))
    }

    /// Takes the write lock, waiting for other processes up to the limit.
    fn begin(&self) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            match self.run_statement("BEGIN IMMEDIATE") {
                Err(Error::Busy { .. }) if started.elapsed() < self.limit => {
                    std::thread::sleep(jitter(4));
                }
                Err(Error::Busy { .. }) => {
                    return Err(Error::Busy {
                        seconds: self.limit.as_secs(),
                    });
                }
                outcome => return outcome,
            }
        }
    }

    /// Ends a transaction that must not be committed. A full disk may have ended it already.
    fn roll_back(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.run_statement("ROLLBACK")
    }

    fn run_unit(&self, unit: &mut Box<dyn Unit>) -> Verdict {
        let mut transaction = SqliteTransaction::new(&self.connection, &self.place);
        catch_unwind(AssertUnwindSafe(|| unit.run(&mut transaction))).unwrap_or_else(|_| {
            unit.fail(Error::Internal(
                "a unit of work panicked and was taken back".to_owned(),
            ));
            Verdict::RollBack
        })
    }

    /// Runs the batch as if nothing will fail. Says whether it can be committed.
    fn run_together(&self, units: &mut [Box<dyn Unit>]) -> bool {
        units
            .iter_mut()
            .all(|unit| self.run_unit(unit) != Verdict::RollBack)
    }

    /// Runs each unit in a savepoint of its own.
    fn run_apart(&self, units: &mut [Box<dyn Unit>]) -> Result<(), Error> {
        for unit in units {
            self.run_statement("SAVEPOINT unit")?;
            if self.run_unit(unit) == Verdict::RollBack {
                self.run_statement("ROLLBACK TO unit")?;
            }
            self.run_statement("RELEASE unit")?;
        }
        Ok(())
    }

    fn run_and_commit(&self, units: &mut [Box<dyn Unit>]) -> Result<(), Error> {
        self.begin()?;
        if let [unit] = units {
            if self.run_unit(unit) != Verdict::Commit {
                return self.roll_back();
            }
        } else if !self.run_together(units) {
            self.roll_back()?;
            self.begin()?;
            self.run_apart(units)?;
        }
        self.run_statement("COMMIT")
    }
}

impl Writer for SqliteWriter {
    type Unit = Box<dyn Unit>;

    fn run(&mut self, units: &mut [Box<dyn Unit>]) {
        if let Err(error) = self.run_and_commit(units) {
            // Nothing of the batch was stored; if even taking it back fails, the next BEGIN tells.
            let _taken_back = self.roll_back();
            for unit in units {
                unit.fail(error.clone());
            }
        }
    }
}
