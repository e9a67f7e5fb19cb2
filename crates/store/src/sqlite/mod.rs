//! The embedded engine: one writing connection behind a group commit, and a pool of readers.
//!
//! It uses the write-ahead log, `synchronous=FULL`, foreign keys, and `BEGIN IMMEDIATE` for every write. An in-memory
//! database has a single connection for reading and writing; it lives as long as its engine.

mod connection;
mod repair;
mod writer;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use connection::{Access, open};
pub(crate) use connection::{SqliteTransaction, translate};
pub(crate) use repair::{Salvage, set_aside_and_salvage};
use writer::SqliteWriter;

use crate::Options;
use crate::error::Error;
use crate::group::{GroupCommit, LingerPolicy};
use crate::migrate::{self, Policy};
use crate::pool::{Connect, Pool};
use crate::transaction::{Reader, Unit};
use crate::url::Target;

/// The oldest SQLite that does not corrupt a write-ahead log under concurrent writers.
const MIN_SQLITE_VERSION: (i32, &str) = (3_051_003, "3.51.3");

/// Maximum number of units that share a commit.
const MAX_BATCH: usize = 1024;

/// An open SQLite database.
pub(crate) struct SqliteEngine {
    // Declared before the writer, so that it is dropped first. The last connection to close merges the write-ahead log
    // into the file, and a reader cannot do that. A copy of the database file alone would lack the changes in a
    // remaining log.
    readers: Option<Pool<OpenReader>>,
    writer: GroupCommit<SqliteWriter, WaitForCallers>,
    /// The open file; `None` for an in-memory database.
    file: Option<OpenFile>,
}

/// Identity of a database file at the time it was opened.
struct OpenFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Whether the file had content. A database never becomes empty again.
    has_content: bool,
}

impl OpenFile {
    fn from_path(path: PathBuf) -> Result<Self, Error> {
        let metadata = path
            .metadata()
            .map_err(|error| Error::file(&path, &error))?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            has_content: metadata.len() > 0,
            path,
        })
    }

    /// Fails if the path now refers to another file, an emptied file or no file. SQLite would keep writing to the open
    /// file, which no later process could open.
    fn check(&self) -> Result<(), Error> {
        match self.path.metadata() {
            Ok(metadata)
                if (metadata.dev(), metadata.ino()) == (self.device, self.inode)
                    && (metadata.len() > 0 || !self.has_content) =>
            {
                Ok(())
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file(&self.path, &error))
            }
            _ => Err(Error::Replaced {
                database: self.path.display().to_string(),
            }),
        }
    }
}

impl SqliteEngine {
    pub(crate) fn open(target: &Target, options: &Options, policy: Policy) -> Result<Self, Error> {
        check_version(rusqlite::version_number(), rusqlite::version())?;
        match target {
            Target::File(path) => Self::open_file(path.clone(), options, policy),
            _ => Self::open_memory(options),
        }
    }

    fn open_file(path: PathBuf, options: &Options, policy: Policy) -> Result<Self, Error> {
        if policy != Policy::Upgrade && !path.exists() {
            return Err(Error::unavailable(
                path.display(),
                "the file does not exist",
            ));
        }
        let connection = prepare_file(&path, options, policy)?;
        let file = OpenFile::from_path(path.clone())?;
        let writer =
            SqliteWriter::new(connection, path.display().to_string(), options.busy_timeout);
        let readers = Pool::new(
            OpenReader {
                path,
                timeout: options.busy_timeout,
            },
            options.connections,
            options.busy_timeout,
        );
        Ok(Self {
            writer: GroupCommit::new(writer, WaitForCallers, MAX_BATCH),
            readers: Some(readers),
            file: Some(file),
        })
    }

    fn open_memory(options: &Options) -> Result<Self, Error> {
        let mut connection = connection::open_memory(options.busy_timeout)?;
        migrate::sqlite(&mut connection, Policy::Upgrade, options.progress.as_ref())?;
        let writer = SqliteWriter::new(connection, "in memory".to_owned(), options.busy_timeout);
        Ok(Self {
            writer: GroupCommit::new(writer, WaitForCallers, MAX_BATCH),
            readers: None,
            file: None,
        })
    }

    /// Runs a unit of work, together with others that arrive at the same time. A write to a file that was replaced or
    /// deleted is never acknowledged.
    pub(crate) fn write(&self, mut unit: Box<dyn Unit>) -> Box<dyn Unit> {
        if let Err(error) = self.check_file() {
            unit.fail(error);
            return unit;
        }
        let mut unit = self.writer.submit(unit);
        if let Err(error) = self.check_file() {
            unit.fail(error);
        }
        unit
    }

    fn check_file(&self) -> Result<(), Error> {
        self.file.as_ref().map_or(Ok(()), OpenFile::check)
    }

    /// Reads from one consistent snapshot.
    pub(crate) fn read(&self, work: &mut dyn FnMut(&mut dyn Reader)) -> Result<(), Error> {
        self.check_file()?;
        match &self.readers {
            Some(readers) => {
                let connection = readers.get()?;
                read_snapshot(&connection, work)
            }
            None => self
                .writer
                .with_writer(|writer| read_snapshot(writer.connection(), work)),
        }
    }

    /// Uses the writing connection outside of any transaction, for maintenance.
    pub(crate) fn maintain<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.writer.with_writer(|writer| work(writer.connection()))
    }
}

fn check_version(number: i32, text: &str) -> Result<(), Error> {
    if number < MIN_SQLITE_VERSION.0 {
        return Err(Error::SqliteTooOld {
            found: text.to_owned(),
            needed: MIN_SQLITE_VERSION.1,
        });
    }
    Ok(())
}

/// Opens a database file, creating and migrating it when needed. The process that creates or migrates it holds a lock
/// file next to the database; a file that is up to date is opened without the lock.
fn prepare_file(
    path: &std::path::Path,
    options: &Options,
    policy: Policy,
) -> Result<Connection, Error> {
    let timeout = options.busy_timeout;
    refuse_short_file(path)?;
    if policy == Policy::Read {
        return open(path, Access::Read, timeout);
    }
    if path.exists() {
        let connection = open(path, Access::Write, timeout)?;
        if policy == Policy::Inspect {
            return Ok(connection);
        }
        // A refused database must stay unchanged: closing must not merge its log into it.
        connection::keep_log_on_close(&connection, true)?;
        if migrate::sqlite_is_current(&connection)? && connection::is_write_ahead(&connection)? {
            connection::keep_log_on_close(&connection, false)?;
            return Ok(connection);
        }
    }
    let lock = lock_database(path, timeout)?;
    if !path.exists() {
        drop(connection::create_private(path, path)?);
    }
    let mut connection = open(path, Access::Write, timeout)?;
    connection::switch_to_write_ahead(&connection, timeout)?;
    migrate::sqlite(&mut connection, policy, options.progress.as_ref())?;
    drop(lock);
    Ok(connection)
}

/// Refuses a non-empty file that is shorter than any database. SQLite would treat it as empty and overwrite it.
/// Only the length is read: opening and closing the file here would drop the POSIX locks that this process holds on it.
fn refuse_short_file(path: &std::path::Path) -> Result<(), Error> {
    const MIN_DATABASE_BYTES: u64 = 512;
    let length = path.metadata().map_or(0, |file| file.len());
    if (1..MIN_DATABASE_BYTES).contains(&length) {
        return Err(Error::Damaged {
            database: path.display().to_string(),
            reason: format!("{length} bytes are too few for a database"),
        });
    }
    Ok(())
}

fn lock_database(path: &std::path::Path, timeout: Duration) -> Result<std::fs::File, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    // A problem with the lock file is reported as a problem with its database.
    let file = connection::create_private(&lock_path, path)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if started.elapsed() < timeout => {
                std::thread::sleep(connection::jitter(8));
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    seconds: timeout.as_secs(),
                });
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(Error::file(&lock_path, &error));
            }
        }
    }
}

fn read_snapshot(
    connection: &Connection,
    work: &mut dyn FnMut(&mut dyn Reader),
) -> Result<(), Error> {
    let database = connection.path().unwrap_or("in memory").to_owned();
    let run = |sql: &str| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(|error| translate(&database, error))
    };
    run("BEGIN DEFERRED")?;
    let _end = EndOnPanic(connection);
    work(&mut SqliteTransaction::new(connection, &database));
    // Nothing was written, so ending a read transaction cannot lose anything.
    run("COMMIT").map(drop)
}

/// Ends the read transaction of a closure that panicked, because the connection is reused.
struct EndOnPanic<'c>(&'c Connection);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If the rollback fails too, the next BEGIN on this connection fails.
            let _ended = self.0.execute_batch("ROLLBACK");
        }
    }
}

#[derive(Debug)]
struct OpenReader {
    path: PathBuf,
    timeout: Duration,
}

impl Connect for OpenReader {
    type Connection = Connection;

    fn connect(&self) -> Result<Connection, Error> {
        open(&self.path, Access::Read, self.timeout)
    }

    fn is_usable(&self, connection: &Connection) -> bool {
        connection.is_autocommit()
    }
}

/// Waits for the callers of the last batch to submit their next units, as long as units keep arriving.
///
/// These callers were just woken, and most of them write again at once: sharing a flush with them saves far more time
/// than the wait costs. The caller of a batch with a single unit never waits.
#[derive(Debug)]
struct WaitForCallers;

impl WaitForCallers {
    /// Maximum wait for the next unit.
    const MAX_GAP: Duration = Duration::from_micros(60);
    /// Maximum time after the first wait of a batch at which another wait may begin.
    const MAX_TOTAL: Duration = Duration::from_millis(3);
}

impl LingerPolicy for WaitForCallers {
    /// Time of the first wait of this batch.
    type WaitState = Option<Instant>;

    fn wait(&self, wait_state: &mut Option<Instant>, queued: &dyn Fn() -> usize) {
        let now = Instant::now();
        let started = *wait_state.get_or_insert(now);
        let end = (started + Self::MAX_TOTAL).min(now + Self::MAX_GAP);
        while queued() == 0 && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_version;
    use crate::Error;

    #[test]
    fn an_sqlite_that_can_corrupt_a_log_is_refused() {
        assert!(matches!(
            check_version(3_051_002, "3.51.2"),
            Err(Error::SqliteTooOld { .. })
        ));
        assert!(check_version(3_051_003, "3.51.3").is_ok());
        assert!(check_version(rusqlite::version_number(), rusqlite::version()).is_ok());
    }
}
