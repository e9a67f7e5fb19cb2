//! SQLite databases of the user's: a copy to work in, and its content carried back in one
//! transaction of SQLite's own.
//!
//! These are resources, not the store of the program, which only `cleveragents-store` opens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cleveragents_domain::ContentHash;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::error::{During as _, Error};
use crate::fault;
use crate::objects::hash_of;

const PATIENCE: Duration = Duration::from_secs(5);

fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Database {
        path: path.clone(),
        message: error.to_string(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a database of the user's, not the store"
)]
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(failed(path))?;
    connection.busy_timeout(PATIENCE).map_err(failed(path))?;
    Ok(connection)
}

/// Opens a database to read it. Where a writer died in mid-transaction, reading begins with taking
/// back what it left, and that is writing.
fn open_to_read(path: &Path) -> Result<Connection, Error> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    match connection.query_row("PRAGMA schema_version", [], |_| Ok(())) {
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.code == rusqlite::ErrorCode::ReadOnly =>
        {
            open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        }
        _ => Ok(connection),
    }
}

/// Copies a database, whatever others do with it, into a new file.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let source = open_to_read(from)?;
    let mut target = open(
        to,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    let backup = Backup::new(&source, &mut target).map_err(failed(from))?;
    backup
        .run_to_completion(i32::MAX, Duration::from_millis(20), None)
        .map_err(failed(from))
}

/// Names the content of a database, independent of how its file came about.
pub(crate) fn digest(path: &Path, temporary: &Path) -> Result<ContentHash, Error> {
    let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
    let place = folder.path().join("copy.db");
    copy(path, &place)?;
    let mut file = std::fs::File::open(&place).during("reading", &place)?;
    Ok(hash_of(&mut file).during("reading", &place)?.0)
}

/// Brings what is in a log beside a database into its file, so that the file is whole.
pub(crate) fn fold(path: &Path) -> Result<(), Error> {
    let has_log = ["-wal", "-journal"]
        .iter()
        .any(|suffix| beside(path, suffix).exists());
    if !has_log {
        return Ok(());
    }
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Reading rolls back what an interrupted transaction left.
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(failed(path))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses a database that SQLite itself finds damaged.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(failed(path))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(Error::Database {
            path: path.to_owned(),
            message: format!("it is damaged: {verdict}"),
        })
    }
}

/// The content of a database taken from one file to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DatabaseChange {
    #[serde(with = "crate::path_text")]
    pub(crate) location: PathBuf,
    /// The database as it was, kept to be put back.
    #[serde(with = "crate::path_text")]
    saved: PathBuf,
    /// The database as it shall be.
    #[serde(with = "crate::path_text")]
    fresh: PathBuf,
    before: ContentHash,
    after: ContentHash,
    #[serde(with = "crate::path_text")]
    temporary: PathBuf,
}

impl DatabaseChange {
    /// Works the change out, with both contents in a folder of ours.
    pub(crate) fn plan(
        location: &Path,
        work: &Path,
        folder: &Path,
        temporary: &Path,
    ) -> Result<Self, Error> {
        check(work)?;
        let (saved, fresh) = (folder.join("before.db"), folder.join("after.db"));
        copy(location, &saved)?;
        copy(work, &fresh)?;
        Ok(Self {
            before: digest(&saved, temporary)?,
            after: digest(&fresh, temporary)?,
            location: location.to_owned(),
            saved,
            fresh,
            temporary: temporary.to_owned(),
        })
    }

    /// Whether the real database still is what it was when it was looked at.
    pub(crate) fn is_untouched(&self) -> Result<bool, Error> {
        Ok(digest(&self.location, &self.temporary)? == self.before)
    }

    pub(crate) fn forward(&self) -> Result<(), Error> {
        self.carry(self.before, &self.fresh, self.after)?;
        fault::boundary();
        Ok(())
    }

    /// Puts the old content back. `false` when someone changed the database since.
    pub(crate) fn backward(&self) -> Result<bool, Error> {
        let is_back = match self.carry(self.after, &self.saved, self.before) {
            Ok(()) => true,
            Err(Error::Raced(_)) => false,
            Err(error) => return Err(error),
        };
        fault::boundary();
        Ok(is_back)
    }

    /// Replaces the content in one transaction, provided that it is still what is expected.
    fn carry(&self, expected: ContentHash, from: &Path, wanted: ContentHash) -> Result<(), Error> {
        let wrong = failed(&self.location);
        let watch = Watch::new(&self.location)?;
        let before = watch.version()?;
        let found = digest(&self.location, &self.temporary)?;
        if found == wanted {
            return Ok(());
        }
        let changed = || {
            Error::Raced(format!(
                "the database `{}` was changed by someone else",
                self.location.display()
            ))
        };
        if found != expected {
            return Err(changed());
        }
        let source = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut target = open(&self.location, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let backup = Backup::new(&source, &mut target).map_err(&wrong)?;
        // The first page takes the write lock. Whoever wrote between the look and the lock shows
        // in the version; from now on nobody can.
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut pages = 1;
        loop {
            match backup.step(pages).map_err(&wrong)? {
                StepResult::Done if pages == 1 && watch.version()? != before => {
                    return Err(changed());
                }
                StepResult::Done => return Ok(()),
                StepResult::More => {
                    if watch.version()? != before {
                        return Err(changed());
                    }
                    fault::boundary();
                    pages = i32::MAX;
                }
                _ if std::time::Instant::now() > deadline => {
                    return Err(Error::Database {
                        path: self.location.clone(),
                        message: "it stayed busy".to_owned(),
                    });
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// Tells whether somebody wrote to a database, also while a writer of ours locks readers out.
struct Watch {
    /// Held open to the end: closing any handle of a file gives up the locks that SQLite holds on it.
    file: std::fs::File,
    connection: Connection,
    path: PathBuf,
}

impl Watch {
    fn new(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            connection: open_to_read(path)?,
            file: std::fs::File::open(path).during("reading", path)?,
            path: path.to_owned(),
        })
    }

    /// A pair that differs after each commit of another connection.
    fn version(&self) -> Result<(u32, i64), Error> {
        use std::os::unix::fs::FileExt as _;
        // Bytes of the file's header: how it is written, and the count of changes.
        let mut header = [0; 28];
        if self.file.metadata().during("reading", &self.path)?.len() > 0 {
            self.file
                .read_exact_at(&mut header, 0)
                .during("reading", &self.path)?;
        }
        let [.., a, b, c, d] = header;
        // With a log beside it the count stands still, but readers are never locked out.
        let has_log = header[18] == 2;
        let version = if has_log {
            self.connection
                .query_row("PRAGMA data_version", [], |row| row.get(0))
                .map_err(failed(&self.path))?
        } else {
            0
        };
        Ok((u32::from_be_bytes([a, b, c, d]), version))
    }
}
