//! What can go wrong between us and a database, told in terms of what a person can do about it.

use std::fmt;
use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, Version};
use serde_json::{Value, json};

/// A failure of the store. Cloneable, because units of work that share a commit share its fate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL does not name a database.
    #[error("`{url}` is not a database URL: {reason}")]
    InvalidUrl {
        /// The URL without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The database cannot be reached or opened.
    #[error("cannot open the database {database}: {reason}")]
    Unavailable {
        /// The database, without a password.
        database: String,
        /// What the system said.
        reason: String,
    },
    /// Another process kept the database for longer than the limit.
    #[error("the database stayed busy{}; nothing was written", wait_phrase(*.seconds))]
    Busy {
        /// The limit that ran out, 0 when it is not known.
        seconds: u64,
    },
    /// Another file, or none, is where the database was when it was opened.
    #[error("the database file {database} was replaced or deleted while it was in use")]
    Replaced {
        /// Where it was.
        database: String,
    },
    /// The file is not a sound database.
    #[error("the database {database} is damaged: {reason}")]
    Damaged {
        /// The file.
        database: String,
        /// What SQLite said.
        reason: String,
    },
    /// The database was made by a newer program.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}; it was not touched"
    )]
    Newer {
        /// The version found.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// No space left.
    #[error("the disk is full; nothing was written")]
    DiskFull,
    /// The database may not be written.
    #[error("the database {database} cannot be written: {reason}")]
    ReadOnly {
        /// The database.
        database: String,
        /// What the system said.
        reason: String,
    },
    /// A SQLite that can corrupt a database under concurrent writers.
    #[error("SQLite {found} is linked, {needed} or newer is needed")]
    SqliteTooOld {
        /// The version linked.
        found: String,
        /// The version needed.
        needed: &'static str,
    },
    /// A statement failed for a reason that has no name of its own.
    #[error("the database refused a statement: {0}")]
    Statement(String),
    /// A key or rule of the schema was violated.
    #[error("the database refused a row: {0}")]
    Constraint(String),
    /// The row changed between reading and writing.
    #[error(
        "{what} was changed by someone else: version {expected} was expected, it is at {actual}"
    )]
    Conflict {
        /// The row, such as `session 01J…`.
        what: String,
        /// The version the caller read.
        expected: Version,
        /// The version stored.
        actual: Version,
    },
    /// A migration failed; the database is as it was.
    #[error("migration {version} ({name}) failed and was taken back: {reason}")]
    Migration {
        /// Its number.
        version: u64,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Content that should be in the blob store is not, or is not what its hash says.
    #[error("the content {hash} is {problem}")]
    Blob {
        /// Its hash.
        hash: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A stored value does not fit its type.
    #[error("{what} {problem}")]
    Stored {
        /// What was read.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The lease under which a write was made belongs to someone else now.
    #[error("the lease on {subject} with token {token} is no longer held{}", holder_phrase(.holder.as_ref()))]
    LeaseLost {
        /// What the lease was for.
        subject: String,
        /// The token of the refused write.
        token: u64,
        /// Who holds it now.
        holder: Option<String>,
    },
    /// A rule of this crate was broken by its caller.
    #[error("{0}")]
    Internal(String),
    /// A filter is too long; nothing was read.
    #[error(transparent)]
    Filter(#[from] cleveragents_domain::FilterTooLong),
}

fn wait_phrase(seconds: u64) -> String {
    if seconds == 0 {
        String::new()
    } else {
        format!(" for {seconds} seconds")
    }
}

fn holder_phrase(holder: Option<&String>) -> String {
    holder.map_or_else(String::new, |holder| format!("; {holder} holds it now"))
}

impl Error {
    /// A stored value that cannot be read back.
    pub fn stored(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Stored {
            what: what.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn unavailable(database: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Unavailable {
            database: database.to_string(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::DiskFull,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly {
                    database: path.display().to_string(),
                    reason: error.to_string(),
                }
            }
            _ => Self::unavailable(path.display(), error),
        }
    }

    /// The damaged file, when that is what this error is about.
    pub fn damaged_file(&self) -> Option<PathBuf> {
        match self {
            Self::Damaged { database, .. } => Some(PathBuf::from(database)),
            _ => None,
        }
    }
}

impl Diagnose for Error {
    fn code(&self) -> Code {
        match self {
            Self::InvalidUrl { .. } => Code::InvalidDatabaseUrl,
            Self::Unavailable { .. } | Self::Replaced { .. } => Code::DatabaseUnavailable,
            Self::Busy { .. } => Code::DatabaseBusy,
            Self::Damaged { .. } => Code::DatabaseDamaged,
            Self::Newer { .. } => Code::DatabaseNewer,
            Self::DiskFull => Code::DiskFull,
            Self::ReadOnly { .. } => Code::DatabaseReadOnly,
            Self::SqliteTooOld { .. } => Code::SqliteTooOld,
            Self::Statement(_) => Code::StatementFailed,
            Self::Constraint(_) => Code::ConstraintViolated,
            Self::Conflict { .. } => Code::VersionConflict,
            Self::Migration { .. } => Code::MigrationFailed,
            Self::Blob { .. } => Code::BlobMissing,
            Self::Stored { .. } => Code::StoredValueInvalid,
            Self::LeaseLost { .. } => Code::LeaseLost,
            Self::Internal(_) => Code::Internal,
            Self::Filter(_) => Code::FilterTooLong,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InvalidUrl { .. } => {
                "use sqlite:///absolute/path, sqlite:relative/path, sqlite::memory: or postgres://user@host/database"
            }
            Self::Unavailable { .. } => {
                "check that the folder exists or the server runs, then run `agents diagnostics`"
            }
            Self::Replaced { .. } => {
                "end this process and start it again: it then uses the file that is there now"
            }
            Self::Busy { .. } => {
                "try again, or allow a longer wait with `agents config set store.busy-timeout-seconds 120`"
            }
            Self::Damaged { .. } => {
                "run `agents diagnostics --repair`: it sets the file aside, never deletes it, and saves what can be read"
            }
            Self::Newer { .. } => {
                "use the newer program that made this database, or another CLEVERAGENTS_HOME"
            }
            Self::DiskFull => {
                "free some space, for example with `agents cleanup run`, then try again"
            }
            Self::ReadOnly { .. } => {
                "give yourself write permission, or set CLEVERAGENTS_HOME to a folder you own"
            }
            Self::SqliteTooOld { .. } => "build with the bundled SQLite",
            Self::Statement(_) | Self::Constraint(_) | Self::Stored { .. } | Self::Blob { .. } => {
                "run `agents db check` to look for damage"
            }
            Self::Conflict { .. } => {
                "read it again, then repeat the command with the present version"
            }
            Self::Migration { .. } => {
                "free some space and check permissions, then run `agents db upgrade`"
            }
            Self::LeaseLost { .. } => "another owner took over; start again from the stored state",
            Self::Filter(_) => "filter by a shorter part of the name",
            Self::Internal(_) => return None,
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Value {
        match self {
            Self::Newer { found, known } => json!({"found": found, "known": known}),
            Self::Conflict {
                what,
                expected,
                actual,
            } => {
                json!({"what": what, "expected": expected, "actual": actual})
            }
            Self::Damaged { database, reason } => json!({"database": database, "reason": reason}),
            Self::LeaseLost {
                subject,
                token,
                holder,
            } => {
                json!({"subject": subject, "token": token, "holder": holder})
            }
            Self::Busy { seconds } => json!({"seconds": seconds}),
            _ => Value::Null,
        }
    }
}
