//! [`ServerChange`]: the part of an apply that is a transaction on a server.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::session::{Access, Session, TransactionNumber, lost};
use super::{Connection, Script, Servers, StatementRun};
use crate::error::Error;
use crate::kill_points;

/// Maximum time to wait until a transaction has ended whose owning process has died.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A transaction that an apply commits. The journal stores only the data to look it up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerChange {
    pub(crate) alias: String,
    /// Identity of the database, to detect a different database at the same address.
    identity: String,
    /// `None` until the script has run.
    number: Option<TransactionNumber>,
    #[serde(skip)]
    script: Option<Script>,
    #[serde(skip)]
    session: Option<Session>,
    /// Result of each statement.
    #[serde(skip)]
    pub(crate) done: Vec<StatementRun>,
}

/// Outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server stored all its changes.
    Committed,
    /// The server stored none of its changes.
    Aborted,
}

impl ServerChange {
    pub(crate) fn new(alias: &str, script: Script) -> Self {
        Self {
            alias: alias.to_owned(),
            identity: String::new(),
            number: None,
            script: Some(script),
            session: None,
            done: Vec::new(),
        }
    }

    /// Runs the script and rolls it back; returns the result of each statement.
    pub(crate) fn preview(
        script: &Script,
        connection: Connection,
    ) -> Result<Vec<StatementRun>, Error> {
        let mut session = Session::begin(connection, Access::Write)?;
        let results = session.run(script, 0);
        let checked = results.and_then(|(done, _)| session.check(script).map(|()| done));
        session.roll_back();
        checked
    }

    /// Runs the script in a transaction that stays open, so that other clients do not see its effects yet.
    pub(crate) fn prepare(&mut self, servers: &dyn Servers) -> Result<(), Error> {
        let Some(script) = self.script.take() else {
            return Err(Error::Damaged(
                "the script of an apply is missing".to_owned(),
            ));
        };
        let connection = servers.connect(&self.alias)?;
        self.identity.clone_from(&connection.identity);
        let mut session = Session::begin(connection, Access::Write)?;
        session.lock()?;
        self.done = session.run(&script, 0)?.0;
        session.check(&script)?;
        self.number.clone_from(&session.number);
        self.session = Some(session);
        kill_points::boundary();
        Ok(())
    }

    /// Commits the prepared transaction and queries its outcome.
    pub(crate) fn commit(&mut self, servers: &dyn Servers) -> Result<Outcome, Error> {
        kill_points::boundary();
        let outcome = match self.session.take() {
            Some(session) => {
                let mut connection = session.commit();
                match self.query_outcome(&mut connection) {
                    // The connection is lost; query the outcome on a new one.
                    Err(_) => self.outcome(servers),
                    answer => answer,
                }
            }
            None => self.outcome(servers),
        };
        kill_points::boundary();
        outcome
    }

    /// Rolls back the prepared transaction.
    pub(crate) fn roll_back(&mut self) {
        if let Some(session) = self.session.take() {
            session.roll_back();
        }
    }

    /// Queries the outcome of the transaction on a new connection. Terminates the transaction if it still runs, because
    /// its owner has died.
    pub(crate) fn outcome(&self, servers: &dyn Servers) -> Result<Outcome, Error> {
        if self.number.is_none() {
            return Ok(Outcome::Aborted);
        }
        let mut connection = servers.connect(&self.alias)?;
        if connection.identity != self.identity {
            return Err(Error::Stuck(format!(
                "`{}` is not the database that this apply changed, so its outcome cannot be determined",
                connection.shown
            )));
        }
        self.query_outcome(&mut connection)
    }

    fn query_outcome(&self, connection: &mut Connection) -> Result<Outcome, Error> {
        const STATUS: &str =
            "SELECT pg_catalog.pg_xact_status($1::pg_catalog.text::pg_catalog.xid8)";
        // The start time ensures that this terminates only the transaction's own process, not a later one with the same
        // id.
        const TERMINATE: &str =
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
            WHERE pid = $1 AND EXTRACT(epoch FROM backend_start)::pg_catalog.text = $2";
        let Some(number) = &self.number else {
            return Ok(Outcome::Aborted);
        };
        let shown = connection.shown.clone();
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let row = connection.client.query_one(STATUS, &[&number.transaction]);
            let status: Option<String> = row.map_err(|error| lost(&shown, &error))?.get(0);
            match status.as_deref() {
                Some("committed") => return Ok(Outcome::Committed),
                Some("aborted") => return Ok(Outcome::Aborted),
                Some(_) if Instant::now() < deadline => {
                    let terminated = connection
                        .client
                        .query(TERMINATE, &[&number.process, &number.began]);
                    terminated.map_err(|error| lost(&shown, &error))?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(_) => {
                    return Err(Error::Stuck(format!(
                        "transaction {} on `{shown}` is still running",
                        number.transaction
                    )));
                }
                None => {
                    return Err(Error::Stuck(format!(
                        "the server of `{shown}` no longer knows the outcome of transaction {}",
                        number.transaction
                    )));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
