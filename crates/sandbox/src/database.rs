//! SQLite databases of the user. The sandbox works on a copy; an apply writes its content back in one SQLite
//! transaction.
//!
//! These are resources of the user. Only `cleveragents-store` opens the program's own database.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleveragents_domain::{ContentHash, TreePath};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::error::{Error, PathContext as _};
use crate::kill_points;
use crate::objects::hash_of;
use crate::scoped_dir::Root;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

fn database_error(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
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
    check_companions(path)?;
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(database_error(path))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(database_error(path))?;
    Ok(connection)
}

/// Opens a database for reading. Opens it for writing if a writer died during a transaction, because the first read
/// then rolls back that transaction.
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

/// Copies a database into a new file, consistently even while other processes use it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let source = open_to_read(from)?;
    let mut target = open(
        to,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    let backup = Backup::new(&source, &mut target).map_err(database_error(from))?;
    backup
        .run_to_completion(i32::MAX, Duration::from_millis(20), None)
        .map_err(database_error(from))
}

/// Hash of the content of a database, independent of the layout of its file.
pub(crate) fn digest(path: &Path, temporary: &Path) -> Result<ContentHash, Error> {
    let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
    let place = folder.path().join("copy.db");
    copy(path, &place)?;
    let mut file = std::fs::File::open(&place).during("reading", &place)?;
    Ok(hash_of(&mut file).during("reading", &place)?.0)
}

/// Suffixes of the files that SQLite creates next to a database while it is in use.
pub(crate) const BESIDE: [&str; 3] = ["-wal", "-journal", "-shm"];

/// Magic at the end of a rollback journal that names a super-journal, which coordinates several
/// databases.
const SUPER_JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A private copy of a sandbox's database, with its log merged into the file.
pub(crate) struct FoldedDatabase {
    /// Keeps the copy on disk until it is read.
    _folder: tempfile::TempDir,
    pub(crate) file: std::fs::File,
}

/// Copies a database out of a sandbox and merges its write-ahead log or rollback journal into the copy. Returns `None`
/// if there is neither, or if SQLite cannot read the database.
///
/// Commands in the sandbox control every file of `root`. So this function only reads the bytes of regular files. SQLite
/// never opens them, because it would follow links, and because a rollback journal can make it delete any file of the
/// system.
pub(crate) fn fold(
    root: &Root,
    name: &TreePath,
    temporary: &Path,
) -> Result<Option<FoldedDatabase>, Error> {
    let reading = |path: &TreePath| root.path().join(path.as_path());
    let open_regular = |path: &TreePath| root.open_regular(path).during("reading", &reading(path));
    let Some(mut source) = open_regular(name)? else {
        return Ok(None);
    };
    let mut logs = Vec::new();
    for suffix in ["-wal", "-journal"] {
        let path = with_suffix(name, suffix)?;
        if let Some(log) = open_regular(&path)?
            && log.metadata().during("reading", &reading(&path))?.len() > 0
        {
            logs.push((suffix, log));
        }
    }
    if logs.is_empty() {
        return Ok(None);
    }
    let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
    let place = folder.path().join("copy.db");
    let write = |from: &mut std::fs::File, to: &Path| -> io::Result<()> {
        io::copy(from, &mut std::fs::File::create_new(to)?).map(drop)
    };
    write(&mut source, &place).during("copying", &reading(name))?;
    for (suffix, mut log) in logs {
        if suffix == "-journal" && !must_play_back(root, &mut log).during("reading", &place)? {
            continue;
        }
        let to = companion_path(&place, suffix);
        write(&mut log, &to).during("copying", &to)?;
        if suffix == "-journal" {
            remove_super_journal_records(&to).during("writing", &to)?;
        }
    }
    let connection = open(&place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Reading rolls back an interrupted transaction.
    match connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        Ok(()) => {}
        Err(rusqlite::Error::SqliteFailure(error, _))
            if matches!(
                error.code,
                rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(database_error(&place)(error)),
    }
    drop(connection);
    let file = std::fs::File::open(&place).during("reading", &place)?;
    Ok(Some(FoldedDatabase {
        _folder: folder,
        file,
    }))
}

/// Name of the super-journal at the end of a rollback journal, and the offset at which that record
/// starts.
fn super_journal(journal: &std::fs::File) -> io::Result<Option<(Vec<u8>, u64)>> {
    use std::os::unix::fs::FileExt as _;
    let size = journal.metadata()?.len();
    let Some(at) = size.checked_sub(16) else {
        return Ok(None);
    };
    let mut end = [0; 16];
    journal.read_exact_at(&mut end, at)?;
    if end[8..] != SUPER_JOURNAL_MAGIC {
        return Ok(None);
    }
    let length = u32::from_be_bytes([end[0], end[1], end[2], end[3]]);
    // A page number precedes the name.
    let start = at.saturating_sub(u64::from(length));
    let mut name = vec![0; usize::try_from(at - start).unwrap_or(0).min(4096)];
    journal.read_exact_at(&mut name, start)?;
    Ok(Some((name, start.saturating_sub(4))))
}

/// Whether to play back a rollback journal. A journal that names a super-journal is played back only if the
/// super-journal exists in the sandbox's folder; otherwise its transaction was committed.
fn must_play_back(root: &Root, journal: &mut std::fs::File) -> io::Result<bool> {
    let Some((name, _)) = super_journal(journal)? else {
        return Ok(true);
    };
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Ok(path) = TreePath::from_bytes(last) else {
        return Ok(false);
    };
    Ok(root.open_regular(&path)?.is_some())
}

/// Removes every super-journal record from our copy of a rollback journal.
fn remove_super_journal_records(place: &Path) -> io::Result<()> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(place)?;
    while let Some((_, start)) = super_journal(&file)? {
        file.set_len(start)?;
    }
    Ok(())
}

fn companion_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Path of a file that SQLite keeps next to a database.
pub(crate) fn with_suffix(name: &TreePath, suffix: &str) -> Result<TreePath, Error> {
    TreePath::from_bytes([name.as_bytes(), suffix.as_bytes()].concat())
        .map_err(|error| Error::Damaged(error.to_string()))
}

/// Refuses a real database if a file that SQLite would open next to it is a link or special file.
fn check_companions(path: &Path) -> Result<(), Error> {
    for suffix in BESIDE {
        let file = companion_path(path, suffix);
        if std::fs::symlink_metadata(&file).is_ok_and(|found| !found.is_file()) {
            return Err(Error::Database {
                path: path.to_owned(),
                message: format!("`{}` is not a regular file", file.display()),
            });
        }
    }
    Ok(())
}

/// Refuses a database that SQLite's integrity check reports as damaged.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(database_error(path))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(Error::Database {
            path: path.to_owned(),
            message: format!("it is damaged: {verdict}"),
        })
    }
}

/// A change of a database's content from one file to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DatabaseChange {
    #[serde(with = "crate::path_text")]
    pub(crate) location: PathBuf,
    /// Copy of the database before the apply, for a rollback.
    #[serde(with = "crate::path_text")]
    saved: PathBuf,
    /// New content of the database.
    #[serde(with = "crate::path_text")]
    fresh: PathBuf,
    before: ContentHash,
    after: ContentHash,
    #[serde(with = "crate::path_text")]
    temporary: PathBuf,
}

impl DatabaseChange {
    /// Plans the change and copies both contents into the scratch folder `folder`. `work` is a file there with the
    /// captured content.
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

    /// Whether the real database is unchanged since the plan.
    pub(crate) fn is_untouched(&self) -> Result<bool, Error> {
        Ok(digest(&self.location, &self.temporary)? == self.before)
    }

    pub(crate) fn forward(&self) -> Result<(), Error> {
        self.replace_content(self.before, &self.fresh, self.after)?;
        kill_points::boundary();
        Ok(())
    }

    /// Restores the old content; `false` if another process has changed the database since.
    pub(crate) fn backward(&self) -> Result<bool, Error> {
        let is_restored = match self.replace_content(self.after, &self.saved, self.before) {
            Ok(()) => true,
            Err(Error::Raced(_)) => false,
            Err(error) => return Err(error),
        };
        kill_points::boundary();
        Ok(is_restored)
    }

    /// Replaces the content in one transaction, if the current content has the hash `expected`.
    fn replace_content(
        &self,
        expected: ContentHash,
        from: &Path,
        desired: ContentHash,
    ) -> Result<(), Error> {
        let to_error = database_error(&self.location);
        let detector = WriteDetector::new(&self.location)?;
        let before = detector.version()?;
        let current = digest(&self.location, &self.temporary)?;
        if current == desired {
            return Ok(());
        }
        let changed = || {
            Error::Raced(format!(
                "the database `{}` was changed by another process",
                self.location.display()
            ))
        };
        if current != expected {
            return Err(changed());
        }
        let source = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut target = open(&self.location, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let backup = Backup::new(&source, &mut target).map_err(&to_error)?;
        // Writing the first page takes the write lock; from then on no other process can write. A write between the
        // check and the lock changes the version.
        let deadline = std::time::Instant::now() + BUSY_TIMEOUT;
        let mut pages = 1;
        loop {
            match backup.step(pages).map_err(&to_error)? {
                StepResult::Done if pages == 1 && detector.version()? != before => {
                    return Err(changed());
                }
                StepResult::Done => return Ok(()),
                StepResult::More => {
                    if detector.version()? != before {
                        return Err(changed());
                    }
                    kill_points::boundary();
                    pages = i32::MAX;
                }
                _ if std::time::Instant::now() > deadline => {
                    return Err(Error::Database {
                        path: self.location.clone(),
                        message: "another process keeps it locked".to_owned(),
                    });
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// Detects writes by other processes to a database, also while our own writer blocks readers.
struct WriteDetector {
    /// Kept open, because closing any handle of a file releases the locks that SQLite holds on it.
    file: std::fs::File,
    connection: Connection,
    path: PathBuf,
}

impl WriteDetector {
    fn new(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            connection: open_to_read(path)?,
            file: std::fs::File::open(path).during("reading", path)?,
            path: path.to_owned(),
        })
    }

    /// A pair of numbers that changes with each commit of another connection.
    fn version(&self) -> Result<(u32, i64), Error> {
        use std::os::unix::fs::FileExt as _;
        // Bytes of the file header: the write format, and the change counter.
        let mut header = [0; 28];
        if self.file.metadata().during("reading", &self.path)?.len() > 0 {
            self.file
                .read_exact_at(&mut header, 0)
                .during("reading", &self.path)?;
        }
        let [.., a, b, c, d] = header;
        // In WAL mode the counter does not change, but readers are never blocked.
        let has_log = header[18] == 2;
        let version = if has_log {
            self.connection
                .query_row("PRAGMA data_version", [], |row| row.get(0))
                .map_err(database_error(&self.path))?
        } else {
            0
        };
        Ok((u32::from_be_bytes([a, b, c, d]), version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rollback journal can name another file, which SQLite would read and delete during playback. `fold` does
    /// neither.
    #[test]
    fn a_journal_that_names_a_foreign_file_does_not_affect_it() {
        let place = tempfile::tempdir().expect("a folder");
        let (work, ours) = (place.path().join("work"), place.path().join("ours"));
        std::fs::create_dir(&work).expect("a folder");
        std::fs::create_dir(&ours).expect("a folder");
        let foreign = place.path().join("foreign");
        std::fs::write(&foreign, "kept").expect("a file");
        let database = work.join("a.db");
        let connection = open(
            &database,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )
        .expect("a database");
        connection
            .execute_batch("create table t(x); insert into t values (1)")
            .expect("filled");
        drop(connection);
        let size = std::fs::metadata(&database).expect("facts").len();
        // A journal without pages that names the file: it is hot and played back at the first read.
        let name = foreign.as_os_str().as_encoded_bytes();
        let number = |value: u32| value.to_be_bytes();
        let pages = u32::try_from(size / 4096).expect("few");
        let mut journal = SUPER_JOURNAL_MAGIC.to_vec();
        for value in [0, 7, pages, 512, 4096] {
            journal.extend(number(value));
        }
        journal.resize(512, 0);
        journal.extend(number(0x4000_0000 / 4096 + 1));
        journal.extend(name);
        journal.extend(number(u32::try_from(name.len()).expect("short")));
        let sum = name.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        journal.extend(number(sum));
        journal.extend(SUPER_JOURNAL_MAGIC);
        std::fs::write(companion_path(&database, "-journal"), &journal).expect("a journal");
        let root = Root::open(&work).expect("a root");
        let path = TreePath::from_bytes("a.db").expect("a path");
        let folded = fold(&root, &path, &ours).expect("folded");
        assert_eq!(std::fs::read_to_string(&foreign).expect("there"), "kept");
        let mut folded = folded.expect("there was a log");
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut folded.file, &mut bytes).expect("read");
        assert_eq!(bytes, std::fs::read(&database).expect("read"));
    }
}
