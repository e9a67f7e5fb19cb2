//! [`Session`]: one transaction on a server, in which scripts run statement by statement.

use std::error::Error as _;

use postgres::SimpleQueryMessage;
use postgres::error::{DbError, ErrorPosition};

use super::script::{Script, Statement, line_of};
use super::{Connection, StatementRun};
use crate::error::Error;

/// Permissions of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Read-only.
    Read,
    /// All operations that the server permits to the user.
    Write,
}

/// Rows of a statement, as text. `None` is NULL.
#[derive(Debug, Default)]
pub(super) struct QueryRows {
    pub(super) columns: Vec<String>,
    pub(super) values: Vec<Vec<Option<String>>>,
}

/// One transaction. Without a commit, none of its changes persist, even if the connection is lost.
pub(super) struct Session {
    connection: Connection,
    /// The number of the transaction and of its server process; `None` if it is read-only.
    pub(super) number: Option<TransactionNumber>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Identifies a transaction on its server, even after its connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct TransactionNumber {
    /// A 64-bit transaction id (`xid8`), which is never reused.
    pub(super) transaction: String,
    /// Process id of the server process.
    pub(super) process: i32,
    /// Start time of the server process, to distinguish it from a later process with the same id.
    pub(super) began: String,
}

/// Error for a server that is unreachable, or whose connection was lost.
pub(super) fn lost(shown: &str, error: &postgres::Error) -> Error {
    let mut message = error.to_string();
    if let Some(failure) = error.as_db_error() {
        failure.message().clone_into(&mut message);
    } else if let Some(source) = error.source() {
        message = format!("{message}: {source}");
    }
    Error::Unreachable {
        address: shown.to_owned(),
        message,
        hint: None,
    }
}

impl Session {
    /// Begins a transaction. Sets the lock timeout to 10 seconds, unless the server has its own.
    pub(super) fn begin(connection: Connection, access: Access) -> Result<Self, Error> {
        const SETTINGS: &str =
            "SELECT pg_catalog.set_config('standard_conforming_strings', 'on', true),
            CASE WHEN pg_catalog.current_setting('lock_timeout') = '0'
                THEN pg_catalog.set_config('lock_timeout', '10s', true) END,
            CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
                THEN pg_catalog.set_config('synchronous_commit', 'on', true) END";
        const NUMBER: &str = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text,
            pg_catalog.pg_backend_pid(),
            (SELECT EXTRACT(epoch FROM backend_start)::pg_catalog.text
                FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid())";
        let mut session = Self {
            connection,
            number: None,
        };
        session.batch(match access {
            Access::Read => "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
            Access::Write => "BEGIN ISOLATION LEVEL READ COMMITTED",
        })?;
        session.batch(SETTINGS)?;
        if access == Access::Write {
            let shown = session.connection.shown.clone();
            let row = session.connection.client.query_one(NUMBER, &[]);
            let row = row.map_err(|error| lost(&shown, &error))?;
            session.number = Some(TransactionNumber {
                transaction: row.get(0),
                process: row.get(1),
                began: row.get::<_, Option<String>>(2).unwrap_or_default(),
            });
        }
        Ok(session)
    }

    fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let done = self.connection.client.batch_execute(sql);
        done.map_err(|error| lost(&self.connection.shown, &error))
    }

    /// Waits until no other apply uses the same database. Fails after the lock timeout.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        // An arbitrary constant that all processes share. Advisory locks are specific to a database.
        const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(4919131752989213764)";
        self.connection.client.batch_execute(LOCK).map_err(|error| {
            let is_late = error.code() == Some(&postgres::error::SqlState::LOCK_NOT_AVAILABLE);
            let shown = &self.connection.shown;
            if is_late {
                Error::Raced(format!("another apply is using the database `{shown}`"))
            } else {
                lost(shown, &error)
            }
        })
    }

    /// Runs a script. Returns the result of each statement, and the first rows of the last one.
    pub(super) fn run(
        &mut self,
        script: &Script,
        limit: usize,
    ) -> Result<(Vec<StatementRun>, QueryRows), Error> {
        let mut results = Vec::with_capacity(script.statements.len());
        let mut rows = QueryRows::default();
        for statement in &script.statements {
            let (count, statement_rows) = self.run_statement(script, statement, limit)?;
            results.push(StatementRun {
                line: statement.line,
                word: statement.word.clone(),
                rows: (count > 0 || has_row_count(&statement.word)).then_some(count),
            });
            rows = statement_rows;
        }
        Ok((results, rows))
    }

    fn run_statement(
        &mut self,
        script: &Script,
        statement: &Statement,
        limit: usize,
    ) -> Result<(u64, QueryRows), Error> {
        let shown = &self.connection.shown;
        let to_error = |error: postgres::Error| refused(script.name, statement, shown, &error);
        // The server confirms that the text is a single statement.
        let prepared = self
            .connection
            .client
            .prepare(&statement.text)
            .map_err(to_error)?;
        if !prepared.params().is_empty() {
            return Err(Error::SqlNotAdmitted {
                name: script.name,
                line: statement.line,
                reason: "has a parameter such as $1, which has no value here".to_owned(),
            });
        }
        drop(prepared);
        let mut rows = QueryRows::default();
        // The server's count and the number of received rows. EXPLAIN and SHOW return rows, but their count is 0.
        let (mut counted, mut received) = (0, 0);
        let messages = self.connection.client.simple_query(&statement.text);
        for message in messages.map_err(to_error)? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    rows.columns = columns.iter().map(|one| one.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    received += 1;
                    if rows.values.len() < limit {
                        let cells = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                        rows.values.push(cells.collect());
                    }
                }
                SimpleQueryMessage::CommandComplete(affected) => counted = affected,
                _ => {}
            }
        }
        Ok((counted.max(received), rows))
    }

    /// Verifies that a commit would store all changes: checks deferred constraints now, and that the transaction is
    /// still the same.
    pub(super) fn check(&mut self, script: &Script) -> Result<(), Error> {
        const CURRENT: &str = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text,
            pg_catalog.current_setting('standard_conforming_strings') = 'on'";
        let Some(number) = self.number.clone() else {
            return Ok(());
        };
        let shown = self.connection.shown.clone();
        let line = script.statements.last().map_or(1, |last| last.line);
        let checked = self
            .connection
            .client
            .batch_execute("SET CONSTRAINTS ALL IMMEDIATE");
        checked.map_err(|error| match error.as_db_error() {
            Some(failure) => statement_error(script.name, line, failure),
            None => lost(&shown, &error),
        })?;
        let row = self.connection.client.query_one(CURRENT, &[]);
        let row = row.map_err(|error| lost(&shown, &error))?;
        if row.get::<_, String>(0) != number.transaction {
            return Err(Error::Stuck(format!(
                "the statements ended their transaction on `{shown}`, so that some of them may be stored"
            )));
        }
        if !row.get::<_, bool>(1) {
            return Err(Error::SqlNotAdmitted {
                name: script.name,
                line,
                reason:
                    "leaves standard_conforming_strings off, which changes the meaning of quotes"
                        .to_owned(),
            });
        }
        Ok(())
    }

    /// Commits and returns the connection. The caller must query the outcome, because a lost connection does not show
    /// whether the server committed.
    pub(super) fn commit(mut self) -> Connection {
        let _unknown = self.connection.client.batch_execute("COMMIT");
        self.connection
    }

    /// Rolls back all changes.
    pub(super) fn roll_back(mut self) {
        // The server also rolls back if the connection is lost.
        let _gone = self.connection.client.batch_execute("ROLLBACK");
    }
}

/// Whether a statement with this first word has a number of rows.
fn has_row_count(word: &str) -> bool {
    let words = [
        "insert", "update", "delete", "merge", "with", "select", "table", "values", "fetch", "move",
    ];
    words.contains(&word)
}

/// Error for a statement that the server rejects.
fn refused(
    name: &'static str,
    statement: &Statement,
    shown: &str,
    error: &postgres::Error,
) -> Error {
    let Some(failure) = error.as_db_error() else {
        return lost(shown, error);
    };
    let further = match failure.position() {
        Some(ErrorPosition::Original(position)) => {
            let before = position.saturating_sub(1) as usize;
            let place = statement.text.char_indices().nth(before);
            let place = place.map_or(statement.text.len(), |(at, _)| at);
            line_of(statement.text.as_bytes(), place) - 1
        }
        _ => 0,
    };
    statement_error(name, statement.line + further, failure)
}

fn statement_error(name: &'static str, line: usize, failure: &DbError) -> Error {
    Error::Sql {
        name,
        line,
        state: failure.code().code().to_owned(),
        message: match failure.detail() {
            Some(detail) => format!("{} ({detail})", failure.message()),
            None => failure.message().to_owned(),
        },
        hint: failure.hint().map(str::to_owned),
    }
}
