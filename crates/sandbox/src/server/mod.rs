//! PostgreSQL databases of the user's. The part of a sandbox is a script, [`SCRIPT`], that is written
//! like any file; the database itself is the copy: to see it as it will be, a transaction is begun, the
//! script run, and everything taken back. Applying commits such a transaction, once, after every other
//! part is in place.
//!
//! # Why a script cannot commit halfway
//!
//! 1. Each statement is sent alone. The server prepares it first, and prepares one statement at most, so
//!    no text can hide a second one, however it is quoted ([`script`] may be wrong about quotes, not
//!    about this).
//! 2. What is sent begins with its first word: comments before it are cut off here. So the word that we
//!    read is the word that the server reads, and PostgreSQL's grammar tells from it whether a statement
//!    controls transactions. Only words from a list are sent; `ROLLBACK` only as `ROLLBACK TO`.
//! 3. Procedures and `DO` blocks may end transactions, but not inside `BEGIN`: the server refuses that.
//! 4. At the end the transaction must still have the number that it began with, or nothing is committed.
//!
//! What a function of the server does past the transaction (sequences, `dblink`, programs that it
//! starts) cannot be taken back by anybody, and happens in a preview too.
//!
//! # Why an apply is never halfway
//!
//! The script runs before anything else is changed, and its transaction stays open. Its number is in the
//! journal, on disk, before the first file is put in place, and `COMMIT` comes last. Whoever finds the
//! journal asks the server what became of that number: committed means that all other parts are in place
//! or to be finished, anything else that they are taken back. The journal holds no address; the password
//! is where it was.

mod change;
mod query;
mod script;
mod session;

use serde::Serialize;

pub(crate) use change::{Outcome, ServerChange};
pub use query::Answer;
pub(crate) use script::Script;

use crate::error::Error;

/// The file of a part that holds what will be done to its database.
pub const SCRIPT: &str = "changes.sql";

/// What the file says at first.
pub(crate) const FIRST: &str =
    "-- Statements for the database. They run in one transaction when the sandbox is applied.
-- See the database as it will be with `agents sandbox query`, add to this file with `--record`.
";

/// Connects to the databases of parts. Addresses and passwords are known to whoever implements this.
pub trait Servers {
    /// A new connection to the database of a part.
    fn connect(&self, alias: &str) -> Result<Connection, Error>;
}

/// A connection to a database of the user's.
pub struct Connection {
    /// The connection, in no transaction.
    pub client: postgres::Client,
    /// Names the database, whatever its address is called.
    pub identity: String,
    /// Its address without the password.
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
    /// Refuses a server on which what is promised here cannot be kept.
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
            hint: Some("leave it out, or use a newer server".to_owned()),
        })
    }
}

/// A statement that was run, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatementRun {
    /// The line of the script on which it begins.
    pub line: usize,
    /// Its first word, in small letters.
    pub word: String,
    /// How many rows it changed or found; `None` where that has no meaning, or is not known yet.
    pub rows: Option<u64>,
}
