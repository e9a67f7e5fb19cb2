//! Errors of the store, grouped by what a user can do about them.

use std::fmt;
use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, Hint, Version, hint, suggest};
use serde_json::{Value, json};

/// An error of the store. Cloneable, because units of work that share a commit share its failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL does not name a database.
    #[error("`{url}` is not a database URL: {reason}")]
    InvalidUrl {
        /// The URL without its password.
        url: String,
        /// Reason why the URL is invalid.
        reason: String,
    },
    /// The database cannot be reached or opened.
    #[error("cannot open the database {database}: {reason}")]
    Unavailable {
        /// The database, without a password.
        database: String,
        /// Error text of the operating system or database.
        reason: String,
    },
    /// Another process held the database for longer than the busy timeout.
    #[error("the database stayed busy{}; nothing was written", wait_phrase(*.seconds))]
    Busy {
        /// The timeout that expired, in seconds; 0 when unknown.
        seconds: u64,
    },
    /// The file at the database's path is missing or is not the one that was opened.
    #[error("the database file {database} was replaced or deleted while it was in use")]
    Replaced {
        /// Path of the database.
        database: String,
    },
    /// The file is not an intact SQLite database.
    #[error("the database {database} is damaged: {reason}")]
    Damaged {
        /// Path of the database file.
        database: String,
        /// Error text of SQLite.
        reason: String,
    },
    /// The database was created by a newer version of the program.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}; it was not touched"
    )]
    Newer {
        /// Schema version of the database.
        found: u64,
        /// Newest schema version this program knows.
        known: u64,
    },
    /// No disk space is left.
    #[error("the disk is full; nothing was written")]
    DiskFull,
    /// The database is not writable.
    #[error("the database {database} cannot be written: {reason}")]
    ReadOnly {
        /// The database, without a password.
        database: String,
        /// Error text of the operating system or database.
        reason: String,
    },
    /// The linked SQLite can corrupt a database under concurrent writers.
    #[error("SQLite {found} is linked, {needed} or newer is needed")]
    SqliteTooOld {
        /// Linked version.
        found: String,
        /// Minimum version.
        needed: &'static str,
    },
    /// A statement failed for a reason that has no variant of its own.
    #[error("the database refused a statement: {0}")]
    Statement(String),
    /// A key or constraint of the schema was violated.
    #[error("the database refused a row: {0}")]
    Constraint(String),
    /// The row changed between reading and writing.
    #[error("{what} was changed by another process: expected version {expected}, found {actual}")]
    Conflict {
        /// The row, such as `session 01J…`.
        what: String,
        /// Version that the caller read.
        expected: Version,
        /// Version that is stored.
        actual: Version,
    },
    /// A migration failed; the database is unchanged.
    #[error("migration {version} ({name}) failed and was rolled back: {reason}")]
    Migration {
        /// Number of the migration.
        version: u64,
        /// Name of the migration.
        name: String,
        /// Error text.
        reason: String,
    },
    /// Stored content is missing, or does not match its hash.
    #[error("the content {hash} is {problem}")]
    Blob {
        /// Hash of the content.
        hash: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// A stored value does not fit its type.
    #[error("{what} {problem}")]
    Stored {
        /// Name of the stored value.
        what: String,
        /// Description of the problem.
        problem: String,
    },
    /// The lease under which a write was made now belongs to another owner.
    #[error("the lease on {subject} with token {token} is no longer held{}", holder_phrase(.holder.as_ref()))]
    LeaseLost {
        /// Subject of the lease.
        subject: String,
        /// Lease token of the refused write.
        token: u64,
        /// Current holder, if any.
        holder: Option<String>,
    },
    /// The caller violated a rule of this crate.
    #[error("{0}")]
    Internal(String),
    /// A filter text is too long; nothing was read.
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
    /// Creates the error for a stored value that cannot be read back.
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

    /// Path of the damaged file, when this error is about one.
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

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::InvalidUrl { .. } => {
                "use sqlite:///absolute/path, sqlite:relative/path, sqlite::memory: or postgres://user@host/database"
            }
            Self::Unavailable { .. } => {
                return Some(hint!(
                    "check that the folder exists or the server runs, then run {}",
                    suggest::diagnostics()
                ));
            }
            Self::Replaced { .. } => "restart this process, so that it uses the current file",
            Self::Busy { .. } => {
                return Some(hint!(
                    "try again, or allow a longer wait with {}",
                    suggest::config_set("store.busy-timeout-seconds", 120)
                ));
            }
            Self::Damaged { .. } => {
                return Some(hint!(
                    "run {}: it sets the file aside, never deletes it, and saves what can be read",
                    suggest::diagnostics_repair()
                ));
            }
            Self::Newer { .. } => {
                "use the newer version of the program that created this database, or another CLEVERAGENTS_HOME"
            }
            Self::DiskFull => {
                return Some(hint!(
                    "free some space, for example with {}, then try again",
                    suggest::cleanup_run()
                ));
            }
            Self::ReadOnly { .. } => {
                "give yourself write permission, or set CLEVERAGENTS_HOME to a folder you own"
            }
            Self::SqliteTooOld { .. } => "build with the bundled SQLite",
            Self::Statement(_) | Self::Constraint(_) | Self::Stored { .. } | Self::Blob { .. } => {
                return Some(hint!("run {} to look for damage", suggest::db_check()));
            }
            Self::Conflict { .. } => {
                "read it again, then repeat the command with the present version"
            }
            Self::Migration { .. } => {
                return Some(hint!(
                    "free some space and check permissions, then run {}",
                    suggest::db_upgrade()
                ));
            }
            Self::LeaseLost { .. } => "another owner took over; start again from the stored state",
            Self::Filter(_) => "filter by a shorter part of the name",
            Self::Internal(_) => return None,
        };
        Some(text.into())
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
