//! PostgreSQL databases of the user. The sandbox member is a script, [`SCRIPT`], that agents edit like any file. The
//! database itself is not copied: to show its future state, a transaction runs the script and is rolled back. An apply
//! commits such a transaction once, after all other members are in place.
//!
//! # A script cannot commit partially
//!
//! 1. Each statement is sent alone. The server prepares it first, and prepares at most one statement. No text can
//!    therefore hide a second statement, even if [`script`] misreads its quotes.
//! 2. The sent text starts with the statement's first word, because comments before it are removed. The server thus
//!    reads the same first word that is checked here, and in PostgreSQL's grammar this word determines whether a
//!    statement controls transactions. Only statements with words from a list are sent; `ROLLBACK` only as `ROLLBACK
//!    TO`.
//! 3. Procedures and `DO` blocks may end transactions, but the server refuses that inside `BEGIN`.
//! 4. Before the commit, the transaction must still have its initial number; otherwise it is not committed.
//!
//! Effects of server functions outside the transaction (sequences, `dblink`, programs that the server starts) cannot be
//! rolled back, and occur in a preview too.
//!
//! # An apply is atomic
//!
//! The script runs before other resources are changed, and its transaction stays open. The journal contains its number,
//! durably, before the first file is put in place, and `COMMIT` comes last. A process that finds the journal queries
//! the outcome of that number. If the transaction was committed, it completes all other members; otherwise it rolls
//! them back. The journal contains neither address nor password.

mod change;
mod query;
mod script;
mod session;

use serde::Serialize;

pub(crate) use change::{Outcome, ServerChange};
pub use query::QueryResult;
pub(crate) use script::Script;

use crate::error::Error;

/// Name of the file that contains the script for the database of a member.
pub const SCRIPT: &str = "changes.sql";

/// Initial content of the file.
pub(crate) const FIRST: &str =
    "-- Statements for the database. They run in one transaction when the sandbox is applied.
-- See the database as it will be with `agents sandbox query`, add to this file with `--record`.
";

/// Connects to the databases of members. Implementations provide addresses and passwords.
pub trait Servers {
    /// Opens a new connection to the database of a member.
    fn connect(&self, alias: &str) -> Result<Connection, Error>;
}

/// A connection to a database of the user.
pub struct Connection {
    /// The connection, outside a transaction.
    pub client: postgres::Client,
    /// Identifies the database independently of its address.
    pub identity: String,
    /// Address without the password.
    pub shown: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Refuses a server that is too old for the guarantees of this module.
    pub fn check(&mut self) -> Result<(), Error> {
        const MIN_VERSION: i32 = 130_000;
        let version_query =
            "SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4";
        let row = self.client.query_one(version_query, &[]);
        let version: i32 = row
            .map_err(|error| session::lost(&self.shown, &error))?
            .get(0);
        if version >= MIN_VERSION {
            return Ok(());
        }
        Err(Error::CannotSandbox {
            what: format!("database `{}`", self.shown),
            reason: "its server is older than PostgreSQL 13".to_owned(),
            hint: Some("leave it out, or use a newer server".into()),
        })
    }
}

/// A statement that was run or will be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatementRun {
    /// The line of the script on which it begins.
    pub line: usize,
    /// Its first word, in lower case.
    pub word: String,
    /// Number of rows it changed or returned; `None` if not applicable or not known yet.
    pub rows: Option<u64>,
}
