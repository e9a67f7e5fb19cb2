//! [`Root`]: a folder opened once, in which every path is resolved beneath it by the system itself.
//!
//! No symbolic link is followed on the way, `..` and absolute paths do not exist here, and what was
//! swapped between two calls cannot lead outside: resolving and opening are one step (`openat2`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, TreePath};
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// What the system says of a path; the part that tells whether it may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Kind and permissions; `None` for what a tree cannot hold.
    pub mode: Option<FileMode>,
    /// How many bytes.
    pub size: u64,
    /// When its content last changed, in nanoseconds since the epoch.
    pub modified: i64,
    /// When the entry itself last changed. Nobody can set this back.
    pub(crate) changed: i64,
    pub(crate) inode: u64,
    pub(crate) owner: (u32, u32),
}

#[expect(
    clippy::useless_conversion,
    reason = "the widths differ between systems"
)]
pub(crate) fn stat_of(stat: &fs::Stat) -> Stat {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
    Stat {
        mode: FileMode::from_raw(stat.st_mode),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: nanoseconds(
            i64::from(stat.st_mtime),
            i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        ),
        changed: nanoseconds(
            i64::from(stat.st_ctime),
            i64::try_from(stat.st_ctime_nsec).unwrap_or(0),
        ),
        inode: stat.st_ino,
        owner: (stat.st_uid, stat.st_gid),
    }
}

/// What a move does with something that is at its end already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and the move fails.
    Keep,
}

/// A folder that everything is beneath.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
    /// Whether it is a copy of ours and not the user's.
    is_own: bool,
    /// Where a file is written before it is put in its place; beside that place without one.
    scratch: Option<OwnedFd>,
}

impl Root {
    /// Opens a folder. Links on the way to it are followed; beneath it none is.
    pub fn open(path: &Path) -> io::Result<Self> {
        let folder = fs::open(
            path,
            OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY,
            Mode::empty(),
        )?;
        Ok(Self {
            folder,
            path: path.to_owned(),
            is_own: false,
            scratch: None,
        })
    }

    /// The same root, whose files are written in a folder outside of it until they are whole: what
    /// is killed in the middle of a write leaves nothing beneath the root. A folder on another file
    /// system is of no use for this and is left alone.
    pub fn with_scratch(self, folder: &Path) -> io::Result<Self> {
        let scratch = fs::open(
            folder,
            OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY,
            Mode::empty(),
        )?;
        let is_near = fs::fstat(&scratch)?.st_dev == fs::fstat(&self.folder)?.st_dev;
        Ok(Self {
            scratch: is_near.then_some(scratch),
            ..self
        })
    }

    /// The same root, known to be a copy of ours.
    pub(crate) fn into_own(self) -> Self {
        Self {
            is_own: true,
            ..self
        }
    }

    /// Whether it is a copy of ours and not the user's.
    pub(crate) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The opened folder, for calls of the system that take one.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The permissions of the root itself.
    pub(crate) fn own_mode(&self) -> io::Result<Option<FileMode>> {
        Ok(stat_of(&fs::fstat(&self.folder)?).mode)
    }

    /// Sets the permissions of the root itself.
    pub(crate) fn set_own_mode(&self, mode: FileMode) -> io::Result<()> {
        Ok(fs::fchmod(
            &self.folder,
            Mode::from_raw_mode(mode.permissions()),
        )?)
    }

    /// Opens something beneath the root; a link on the way, or as the last name, is an error.
    fn open_at(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match fs::openat2(
                &self.folder,
                path,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
                resolve,
            ) {
                // The tree was changed while the path was walked.
                Err(Errno::AGAIN) => {}
                other => return other,
            }
        }
    }

    /// A folder beneath the root; the root itself for `None`.
    pub(crate) fn folder(&self, path: Option<&TreePath>) -> rustix::io::Result<OwnedFd> {
        let path = path.map_or_else(|| Path::new("."), TreePath::as_path);
        self.open_at(path, OFlags::DIRECTORY | OFlags::RDONLY)
    }

    /// The folder that holds a path.
    pub(crate) fn parent(&self, path: &TreePath) -> rustix::io::Result<OwnedFd> {
        self.folder(path.parent().as_ref())
    }

    /// What is at a path, `None` when nothing is. A link is not followed.
    pub fn stat(&self, path: &TreePath) -> io::Result<Option<Stat>> {
        let parent = match self.parent(path) {
            Ok(parent) => parent,
            // Something else than a folder is on the way, so nothing is at the path itself.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match fs::statat(&parent, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file to read it.
    pub fn open_file(&self, path: &TreePath) -> io::Result<File> {
        // Not blocking: a pipe that took the file's place must not hold us up.
        let file = self.open_at(path.as_path(), OFlags::RDONLY | OFlags::NONBLOCK)?;
        Ok(File::from(file))
    }

    /// The target of a link.
    pub fn read_link(&self, path: &TreePath) -> io::Result<Vec<u8>> {
        let parent = self.parent(path)?;
        Ok(fs::readlinkat(parent, path.name(), Vec::new())?.into_bytes())
    }

    /// Makes a folder; one that is there already is fine.
    pub fn make_folder(&self, path: &TreePath) -> io::Result<()> {
        match fs::mkdirat(self.parent(path)?, path.name(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes every folder on the way to a path.
    pub fn make_parents(&self, path: &TreePath) -> io::Result<()> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        if self.stat(&parent)?.is_none() {
            self.make_parents(&parent)?;
            self.make_folder(&parent)?;
        }
        Ok(())
    }

    /// Sets the permissions of a file or folder.
    pub fn set_mode(&self, path: &TreePath, mode: FileMode) -> io::Result<()> {
        if mode.kind() == FileKind::Symlink {
            return Ok(());
        }
        // Opened as a mere place: reading may not be allowed.
        let place = self.open_at(path.as_path(), OFlags::PATH | OFlags::NOFOLLOW)?;
        let through = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&place));
        fs::chmod(through, Mode::from_raw_mode(mode.permissions()))?;
        Ok(())
    }

    /// Removes a file or link; nothing there is fine.
    pub fn remove_file(&self, path: &TreePath) -> io::Result<()> {
        self.unlink(path, AtFlags::empty())
    }

    /// Removes an empty folder; nothing there is fine.
    pub fn remove_folder(&self, path: &TreePath) -> io::Result<()> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, path: &TreePath, flags: AtFlags) -> io::Result<()> {
        let parent = match self.parent(path) {
            Ok(parent) => parent,
            // Something else than a folder is on the way, so nothing is at the path itself.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match fs::unlinkat(parent, path.name(), flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a folder holds, in the order of names; the top for `None`. What vanishes meanwhile is
    /// left out.
    pub fn entries(&self, path: Option<&TreePath>) -> io::Result<Vec<(Vec<u8>, Stat)>> {
        let folder = self.folder(path)?;
        let mut found = Vec::new();
        for entry in fs::Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => found.push((name.to_vec(), stat_of(&stat))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        found.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(found)
    }

    /// Moves something beneath this root to a path beneath another, in one step.
    pub fn rename(
        &self,
        path: &TreePath,
        other: &Self,
        other_path: &TreePath,
        existing: Existing,
    ) -> io::Result<()> {
        let flags = match existing {
            Existing::Replace => RenameFlags::empty(),
            Existing::Keep => RenameFlags::NOREPLACE,
        };
        Ok(self.rename_to(path, other, other_path, flags)?)
    }

    /// Removes the devices, sockets and pipes in a folder.
    pub(crate) fn remove_special(&self, path: &TreePath) -> io::Result<()> {
        let folder = self.folder(Some(path))?;
        for entry in fs::Dir::read_from(&folder)? {
            let entry = entry?;
            let found = match fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => stat_of(&found),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if found.mode.is_none() {
                fs::unlinkat(&folder, entry.file_name(), AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Writes a new file and puts it at a path in one step.
    pub fn write_file(
        &self,
        path: &TreePath,
        mode: FileMode,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        self.place(path, |folder, name| {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let mut file = File::from(fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
            io::copy(content, &mut file)?;
            file.flush()?;
            fs::fchmod(&file, Mode::from_raw_mode(mode.permissions()))?;
            Ok(())
        })
    }

    /// Puts a link at a path in one step, in place of a file or link.
    pub fn write_link(&self, path: &TreePath, target: &[u8]) -> io::Result<()> {
        self.place(path, |folder, name| {
            Ok(fs::symlinkat(target, folder, name)?)
        })
    }

    /// Makes something under a name of the moment and moves it to a path.
    fn place(
        &self,
        path: &TreePath,
        make: impl FnOnce(BorrowedFd<'_>, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let parent = self.parent(path)?;
        let folder = self.scratch.as_ref().unwrap_or(&parent);
        let name = temporary_name();
        let placed = make(folder.as_fd(), &name)
            .and_then(|()| Ok(fs::renameat(folder, name.as_str(), &parent, path.name())?));
        if placed.is_err() {
            let _gone = fs::unlinkat(folder, name.as_str(), AtFlags::empty());
        }
        placed
    }

    /// Moves between two roots, with what the system offers for one step.
    pub(crate) fn rename_to(
        &self,
        path: &TreePath,
        other: &Self,
        other_path: &TreePath,
        flags: RenameFlags,
    ) -> rustix::io::Result<()> {
        fs::renameat_with(
            self.parent(path)?,
            path.name(),
            other.parent(other_path)?,
            other_path.name(),
            flags,
        )
    }
}

/// Whether a name is one that the program gives its own files for a moment.
pub fn is_own_temporary(name: &[u8]) -> bool {
    name.starts_with(OWN_NAMES)
}

/// How the names of the program's own files begin, while it writes or applies something.
const OWN_NAMES: &[u8] = b".cleveragents-";

/// A name that no user gives a file, for the moment of a write.
fn temporary_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        ".cleveragents-{}-{}.tmp",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A path that the system gave as bytes.
pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content that looks at a folder while it is read.
    struct Watching<'a> {
        folder: &'a Path,
        seen: Vec<OsString>,
        rest: &'a [u8],
    }

    impl Read for Watching<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for entry in std::fs::read_dir(self.folder)? {
                self.seen.push(entry?.file_name());
            }
            self.rest.read(buffer)
        }
    }

    #[test]
    fn what_is_half_written_is_never_beneath_the_root() {
        let place = tempfile::tempdir().expect("a folder");
        let (tree, scratch) = (place.path().join("tree"), place.path().join("scratch"));
        std::fs::create_dir(&tree).expect("made");
        std::fs::create_dir(&scratch).expect("made");
        let root = Root::open(&tree)
            .and_then(|root| root.with_scratch(&scratch))
            .expect("a root");
        let mut content = Watching {
            folder: &tree,
            seen: Vec::new(),
            rest: b"whole",
        };
        let path = TreePath::from_bytes("file").expect("a path");
        root.write_file(&path, FileMode::REGULAR, &mut content)
            .expect("written");
        assert_eq!(content.seen, Vec::<OsString>::new());
        assert_eq!(std::fs::read(tree.join("file")).expect("read"), b"whole");
        let left = std::fs::read_dir(&scratch).expect("a folder").count();
        assert_eq!(left, 0);
    }
}
