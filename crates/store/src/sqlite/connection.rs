//! Opens SQLite connections with the required settings, and runs statements on them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ToSqlOutput, Value as SqliteValue, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::counters::Counters;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::transaction::{Reader, Transaction};
use crate::value::{Param, Row, Value};

/// Number of prepared statements cached per connection.
const CACHED_STATEMENTS: usize = 128;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that opens an SQLite file"
)]
pub(super) fn open(path: &Path, access: Access, timeout: Duration) -> Result<Connection, Error> {
    let flags = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let database = path.display().to_string();
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .and_then(|connection| configure(connection, timeout))
        .map_err(|error| translate(&database, error))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that creates an in-memory database"
)]
pub(super) fn open_memory(timeout: Duration) -> Result<Connection, Error> {
    Connection::open_in_memory()
        .and_then(|connection| configure(connection, timeout))
        .map_err(|error| translate("in memory", error))
}

fn configure(mut connection: Connection, timeout: Duration) -> rusqlite::Result<Connection> {
    connection.busy_handler(Some(wait_with_jitter(timeout)))?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Without this setting, SQLite may prepare a statement again when a bound value changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -8000; PRAGMA journal_size_limit = 8388608;",
    )?;
    Ok(connection)
}

/// Busy handler: waits for other processes with jittered, growing pauses, up to `timeout`.
fn wait_with_jitter(timeout: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut started = Instant::now();
    move |attempt| {
        if attempt == 0 {
            started = Instant::now();
        }
        if started.elapsed() >= timeout {
            return false;
        }
        std::thread::sleep(jitter(1 << attempt.clamp(0, 3)));
        true
    }
}

/// A random pause of up to `milliseconds`, different for every caller.
pub(super) fn jitter(milliseconds: u32) -> Duration {
    let noise = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |now| now.subsec_nanos());
    Duration::from_micros(u64::from(50 + noise / 7 % (milliseconds * 1000)))
}

/// Creates a file that only its owner can read, if it does not exist. Errors name the database.
pub(super) fn create_private(path: &Path, database: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::file(database, &error))
}

pub(super) fn is_write_ahead(connection: &Connection) -> Result<bool, Error> {
    connection
        .query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))
        .map(|mode| mode == "wal")
        .map_err(|error| translate(database_name(connection), error))
}

/// Switches a new database to write-ahead logging, and to incremental vacuum, which can return unused space.
///
/// SQLite needs exclusive access for the switch and does not wait for it. The switch is therefore retried: another
/// process may be checking whether the file is ready.
pub(super) fn switch_to_write_ahead(
    connection: &Connection,
    timeout: Duration,
) -> Result<(), Error> {
    let started = Instant::now();
    while !is_write_ahead(connection)? {
        let switched = connection
            .execute_batch("PRAGMA auto_vacuum = INCREMENTAL")
            .and_then(|()| connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())))
            .map_err(|error| translate(database_name(connection), error));
        match switched {
            Err(Error::Busy { .. }) if started.elapsed() < timeout => std::thread::sleep(jitter(4)),
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Sets whether the write-ahead log stays a separate file when the last connection closes.
pub(super) fn keep_log_on_close(connection: &Connection, keep: bool) -> Result<(), Error> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
        .map(drop)
        .map_err(|error| translate(database_name(connection), error))
}

fn database_name(connection: &Connection) -> &str {
    connection.path().unwrap_or("in memory")
}

/// A transaction in progress on a connection.
pub(crate) struct SqliteTransaction<'c> {
    connection: &'c Connection,
    database: &'c str,
    counters: Option<&'c mut Counters>,
}

impl<'c> SqliteTransaction<'c> {
    pub(crate) const fn new(connection: &'c Connection, database: &'c str) -> Self {
        Self {
            connection,
            database,
            counters: None,
        }
    }

    /// A transaction whose units share counters.
    pub(super) const fn counting(
        connection: &'c Connection,
        database: &'c str,
        counters: &'c mut Counters,
    ) -> Self {
        Self {
            connection,
            database,
            counters: Some(counters),
        }
    }

    fn translate(&self, error: rusqlite::Error) -> Error {
        translate(self.database, error)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqliteValue::Null),
            Self::Integer(number) => ToSqlOutput::Owned(SqliteValue::Integer(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

fn value(reference: ValueRef<'_>) -> Result<Value, Error> {
    Ok(match reference {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(
            String::from_utf8(bytes.to_vec())
                .map_err(|_| Error::stored("a text", "is not valid UTF-8"))?,
        ),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

impl Reader for SqliteTransaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut statement = self
            .connection
            .prepare_cached(sql)
            .map_err(|error| self.translate(error))?;
        let columns = statement.column_count();
        let mut rows = statement
            .query(rusqlite::params_from_iter(params))
            .map_err(|error| self.translate(error))?;
        while let Some(row) = rows.next().map_err(|error| self.translate(error))? {
            let mut values = Vec::with_capacity(columns);
            for column in 0..columns {
                values.push(value(
                    row.get_ref(column).map_err(|error| self.translate(error))?,
                )?);
            }
            each(Row::new(values))?;
        }
        Ok(())
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        execute(self.connection, self.database, sql, params)
    }

    fn counters(&mut self) -> Option<&mut Counters> {
        self.counters.as_deref_mut()
    }

    fn write_counters(&mut self) -> Result<(), Error> {
        let (connection, database) = (self.connection, self.database);
        match self.counters.as_deref_mut() {
            Some(counters) if !counters.is_empty() => {
                counters.write(|sql, params| execute(connection, database, sql, params))
            }
            _ => Ok(()),
        }
    }
}

fn execute(
    connection: &Connection,
    database: &str,
    sql: &str,
    params: &[Param<'_>],
) -> Result<u64, Error> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)))
        .map(|touched| touched as u64)
        .map_err(|error| translate(database, error))
}

/// Maps a SQLite error to the store error with a hint for users.
pub(crate) fn translate(database: &str, error: rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(failure, message) = &error else {
        return match error {
            rusqlite::Error::SqlInputError {
                error: failure,
                msg,
                ..
            } => translate(database, rusqlite::Error::SqliteFailure(failure, Some(msg))),
            other => Error::Statement(other.to_string()),
        };
    };
    let reason = message.clone().unwrap_or_else(|| failure.to_string());
    match failure.code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => Error::Busy { seconds: 0 },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Damaged {
            database: database.to_owned(),
            reason,
        },
        ErrorCode::DiskFull => Error::DiskFull,
        ErrorCode::SystemIoFailure
            if is_full(database) || failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE =>
        {
            Error::DiskFull
        }
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ => {
            Error::Damaged {
                database: database.to_owned(),
                reason,
            }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Error::ReadOnly {
            database: database.to_owned(),
            reason,
        },
        ErrorCode::CannotOpen if is_full(database) => Error::DiskFull,
        // SQLite cannot create the write-ahead log next to the database file.
        ErrorCode::CannotOpen if is_in_read_only_folder(database) => Error::ReadOnly {
            database: database.to_owned(),
            reason,
        },
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => Error::unavailable(database, reason),
        ErrorCode::ConstraintViolation => Error::Constraint(reason),
        _ => Error::Statement(reason),
    }
}

/// Whether a database exists in a directory where no file can be created.
fn is_in_read_only_folder(database: &str) -> bool {
    let folder = Path::new(database)
        .parent()
        .unwrap_or_else(|| Path::new("."));
    Path::new(database).is_file()
        && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err()
}

/// Whether the disk of a database has no room for another page.
fn is_full(database: &str) -> bool {
    let folder = Path::new(database)
        .parent()
        .unwrap_or_else(|| Path::new("."));
    rustix::fs::statvfs(folder)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < 64 * 1024)
}
