//! PostgreSQL databases of the user. The sandbox member is a script, [`SCRIPT`], that is written like
//! any file; the database itself is not copied: to see its future state, a transaction runs the script
//! and is rolled back. An apply commits such a transaction, once, after every other member is in place.
//!
//! # Why a script cannot commit halfway
//!
//! 1. Each statement is sent alone. The server prepares it first, and prepares at most one statement, so
//!    no text can hide a second one, however it is quoted ([`script`] may misread quotes without
//!    breaking this).
//! 2. The text sent starts with the statement's first word: comments before it are removed. So the
//!    word checked here is the word that the server reads, and PostgreSQL's grammar decides by it
//!    whether a statement controls transactions. Only words from a list are sent; `ROLLBACK` only as
//!    `ROLLBACK TO`.
//! 3. Procedures and `DO` blocks may end transactions, but not inside `BEGIN`: the server refuses that.
//! 4. At the end the transaction must still have the number that it started with, or nothing is
//!    committed.
//!
//! Effects of server functions outside the transaction (sequences, `dblink`, programs that the server
//! starts) cannot be rolled back, and happen in a preview too.
//!
//! # Why an apply is never halfway
//!
//! The script runs before anything else is changed, and its transaction stays open. Its number is in the
//! journal, on disk, before the first file is put in place, and `COMMIT` comes last. A process that
//! finds the journal asks the server for the outcome of that number: if committed, all other members are
//! in place or to be completed; otherwise they are rolled back. The journal contains neither address nor
//! password.

mod change;
mod query;
mod script;
mod session;

use serde::Serialize;

pub(crate) use change::{Outcome, ServerChange};
pub use query::QueryResult;
pub(crate) use script::Script;

use crate::error::Error;

/// The file of a member that contains the script for its database.
pub const SCRIPT: &str = "changes.sql";

/// Initial content of the file.
pub(crate) const FIRST: &str =
    "-- Statements for the database. They run in one transaction when the sandbox is applied.
-- See the database as it will be with `agents sandbox query`, add to this file with `--record`.
";

/// Connects to the databases of members. The implementation knows addresses and passwords.
pub trait Servers {
    /// A new connection to the database of a member.
    fn connect(&self, alias: &str) -> Result<Connection, Error>;
}

/// A connection to a database of the user.
pub struct Connection {
    /// The connection, in no transaction.
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
    /// Refuses a server that cannot keep the guarantees of this module.
    pub fn check(&mut self) -> Result<(), Error> {
        const OLDEST: i32 = 130_000;
        let asked = "SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4";
        let row = self.client.query_one(asked, &[]);
        let version: i32 = row
            .map_err(|error| session::lost(&self.shown, &error))?
            .get(0);
        if version >= OLDEST {
            return Ok(());
        }
        Err(Error::CannotSandbox {
            what: format!("database `{}`", self.shown),
            reason: "its server is older than PostgreSQL 13".to_owned(),
            hint: Some("leave it out, or use a newer server".into()),
        })
    }
}

/// A statement that was run, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatementRun {
    /// The line of the script on which it begins.
    pub line: usize,
    /// Its first word, in lower case.
    pub word: String,
    /// Number of rows it changed or found; `None` if that is meaningless, or not known yet.
    pub rows: Option<u64>,
}
