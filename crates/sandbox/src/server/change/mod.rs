//! [`ServerChange`]: the part of an apply that is a transaction on a server.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::session::{Access, Session, TransactionNumber, lost};
use super::{Connection, Script, Servers, StatementRun};
use crate::error::Error;
use crate::kill_points;

/// Maximum wait for a transaction without an owner to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transaction that an apply commits. Only the data needed to look it up is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerChange {
    pub(crate) alias: String,
    /// Identity of the database, so that another one behind the same address is not asked.
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
    /// The server stored all of it.
    Committed,
    /// The server stored nothing of it.
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

    /// Runs the script and rolls it back, to check whether it works.
    pub(crate) fn preview(
        script: &Script,
        connection: Connection,
    ) -> Result<Vec<StatementRun>, Error> {
        let mut session = Session::begin(connection, Access::Write)?;
        let ran = session.run(script, 0);
        let checked = ran.and_then(|(done, _)| session.check(script).map(|()| done));
        session.roll_back();
        checked
    }

    /// Runs the script in a transaction that stays open. Its effects are not visible to others yet.
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

    /// Commits the prepared transaction and asks the server for its outcome.
    pub(crate) fn commit(&mut self, servers: &dyn Servers) -> Result<Outcome, Error> {
        kill_points::boundary();
        let outcome = match self.session.take() {
            Some(session) => {
                let mut connection = session.commit();
                match self.ask(&mut connection) {
                    // The connection is lost; a new one can still ask.
                    Err(_) => self.outcome(servers),
                    known => known,
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

    /// Outcome of the transaction, asked on a new connection. A transaction that still runs has lost its
    /// owner and is terminated.
    pub(crate) fn outcome(&self, servers: &dyn Servers) -> Result<Outcome, Error> {
        if self.number.is_none() {
            return Ok(Outcome::Aborted);
        }
        let mut connection = servers.connect(&self.alias)?;
        if connection.identity != self.identity {
            return Err(Error::Stuck(format!(
                "`{}` is not the database that the apply was for, so its outcome cannot be read",
                connection.shown
            )));
        }
        self.ask(&mut connection)
    }

    fn ask(&self, connection: &mut Connection) -> Result<Outcome, Error> {
        const STATUS: &str =
            "SELECT pg_catalog.pg_xact_status($1::pg_catalog.text::pg_catalog.xid8)";
        // Only this very process: another one may have its number by now.
        const END: &str =
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
            WHERE pid = $1 AND EXTRACT(epoch FROM backend_start)::pg_catalog.text = $2";
        let Some(number) = &self.number else {
            return Ok(Outcome::Aborted);
        };
        let shown = connection.shown.clone();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let row = connection.client.query_one(STATUS, &[&number.transaction]);
            let status: Option<String> = row.map_err(|error| lost(&shown, &error))?.get(0);
            match status.as_deref() {
                Some("committed") => return Ok(Outcome::Committed),
                Some("aborted") => return Ok(Outcome::Aborted),
                Some(_) if Instant::now() < deadline => {
                    let ended = connection
                        .client
                        .query(END, &[&number.process, &number.began]);
                    ended.map_err(|error| lost(&shown, &error))?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(_) => {
                    return Err(Error::Stuck(format!(
                        "the transaction {} on `{shown}` does not end",
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
