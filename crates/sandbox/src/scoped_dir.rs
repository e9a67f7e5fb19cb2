//! [`Root`]: an open folder; the kernel resolves every path beneath it.
//!
//! No symbolic link is followed, and `..` and absolute paths are impossible. Even if another process replaces a path by
//! a link between two calls, the access cannot lead outside, because `openat2` resolves and opens a path in one step.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, TreePath};
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::own_temporary::temporary_name;

/// Metadata of a path that shows whether the path may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Kind and permissions; `None` for special files.
    pub mode: Option<FileMode>,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last content change, in nanoseconds since the epoch.
    pub modified: i64,
    /// Change time (`ctime`), which no program can set.
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

/// Maximum length of a path in one system call.
const MAX_PATH_BYTES: usize = 4095;

/// Opens a path beneath a folder without following links.
fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    loop {
        match fs::openat2(folder, path, flags, Mode::empty(), resolve) {
            // The tree changed during the resolution.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Effect of a move on an existing target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingTarget {
    /// The target is replaced.
    Replace,
    /// The target stays, and the move fails.
    Keep,
}

/// The folder that contains a path.
#[derive(Debug)]
pub(crate) enum Parent<'a> {
    /// The root itself, which is already open.
    Root(BorrowedFd<'a>),
    /// A folder beneath the root.
    Beneath(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(folder) => *folder,
            Self::Beneath(folder) => folder.as_fd(),
        }
    }
}

/// A folder to which all access is confined.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
    /// Whether the folder is one of the program's own copies, not the user's files.
    is_own: bool,
    /// Folder in which files are written before they are moved to their paths. `None` writes them next to their paths.
    scratch: Option<OwnedFd>,
}

impl Root {
    /// Opens a folder. Follows links in `path`, but none beneath it.
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

    /// Writes incomplete files into `folder`, outside the root, so that a killed process leaves no partial file beneath
    /// the root. A folder on another file system is ignored.
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

    /// Marks the root as one of the program's own copies.
    pub(crate) fn into_own(self) -> Self {
        Self {
            is_own: true,
            ..self
        }
    }

    /// Whether the folder is one of the program's own copies, not the user's files.
    pub(crate) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Path of the root, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder, for system calls that take a descriptor.
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

    /// Opens a path beneath the root. A link at any component is an error.
    fn open_at(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut remaining = path.as_os_str().as_bytes();
        let mut folder: Option<OwnedFd> = None;
        // The system limits the length of a path; a longer path is opened in parts.
        while remaining.len() > MAX_PATH_BYTES {
            let end = remaining[..=MAX_PATH_BYTES]
                .iter()
                .rposition(|byte| *byte == b'/');
            let end = end.ok_or(Errno::NAMETOOLONG)?;
            let above = folder.as_ref().unwrap_or(&self.folder).as_fd();
            let next = open_beneath(above, &remaining[..end], OFlags::DIRECTORY | OFlags::PATH)?;
            folder = Some(next);
            remaining = &remaining[end + 1..];
        }
        let above = folder.as_ref().unwrap_or(&self.folder).as_fd();
        open_beneath(above, remaining, flags)
    }

    /// A folder beneath the root; the root itself for `None`.
    pub(crate) fn folder(&self, path: Option<&TreePath>) -> rustix::io::Result<OwnedFd> {
        let path = path.map_or_else(|| Path::new("."), TreePath::as_path);
        self.open_at(path, OFlags::DIRECTORY | OFlags::RDONLY)
    }

    /// The folder that contains a path.
    pub(crate) fn parent(&self, path: &TreePath) -> rustix::io::Result<Parent<'_>> {
        match path.parent() {
            Some(parent) => self.folder(Some(&parent)).map(Parent::Beneath),
            None => Ok(Parent::Root(self.folder.as_fd())),
        }
    }

    /// Metadata of a path; `None` if it does not exist. Does not follow a link.
    pub fn stat(&self, path: &TreePath) -> io::Result<Option<Stat>> {
        let parent = match self.parent(path) {
            Ok(parent) => parent,
            // A parent is not a folder, so the path itself does not exist.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match fs::statat(&parent, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file for reading.
    pub fn open_file(&self, path: &TreePath) -> io::Result<File> {
        // Non-blocking, because a pipe may have replaced the file.
        let file = self.open_at(path.as_path(), OFlags::RDONLY | OFlags::NONBLOCK)?;
        Ok(File::from(file))
    }

    /// Opens a regular file for reading; `None` if it does not exist, or is a folder, link, device, socket or pipe.
    pub fn open_regular(&self, path: &TreePath) -> io::Result<Option<File>> {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(error) if is_absent_or_special(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }

    /// The target of a link.
    pub fn read_link(&self, path: &TreePath) -> io::Result<Vec<u8>> {
        let parent = self.parent(path)?;
        Ok(fs::readlinkat(parent, path.name(), Vec::new())?.into_bytes())
    }

    /// Creates a folder; succeeds if it exists.
    pub fn make_folder(&self, path: &TreePath) -> io::Result<()> {
        match fs::mkdirat(self.parent(path)?, path.name(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates all parent folders of a path.
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
        // Opened with `O_PATH`, because the file may not be readable.
        let place = self.open_at(path.as_path(), OFlags::PATH | OFlags::NOFOLLOW)?;
        let through = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&place));
        fs::chmod(through, Mode::from_raw_mode(mode.permissions()))?;
        Ok(())
    }

    /// Whether a file has further names (hard links).
    pub(crate) fn has_other_names(&self, path: &TreePath) -> io::Result<bool> {
        let place = self.open_at(path.as_path(), OFlags::PATH | OFlags::NOFOLLOW)?;
        Ok(fs::fstat(place)?.st_nlink > 1)
    }

    /// Removes a file or link; succeeds if it does not exist.
    pub fn remove_file(&self, path: &TreePath) -> io::Result<()> {
        self.unlink(path, AtFlags::empty())
    }

    /// Removes an empty folder; succeeds if it does not exist.
    pub fn remove_folder(&self, path: &TreePath) -> io::Result<()> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, path: &TreePath, flags: AtFlags) -> io::Result<()> {
        let parent = match self.parent(path) {
            Ok(parent) => parent,
            // A parent is not a folder, so the path itself does not exist.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match fs::unlinkat(parent, path.name(), flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Entries of a folder (the root for `None`), sorted by name. Skips entries that vanish meanwhile.
    pub fn entries(&self, path: Option<&TreePath>) -> io::Result<Vec<(Vec<u8>, Stat)>> {
        let folder = self.folder(path)?;
        let mut entries_found = Vec::new();
        for entry in fs::Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => entries_found.push((name.to_vec(), stat_of(&stat))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        entries_found.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(entries_found)
    }

    /// Moves a path beneath this root to a path beneath another, atomically.
    pub fn rename(
        &self,
        path: &TreePath,
        other: &Self,
        other_path: &TreePath,
        existing: ExistingTarget,
    ) -> io::Result<()> {
        let flags = match existing {
            ExistingTarget::Replace => RenameFlags::empty(),
            ExistingTarget::Keep => RenameFlags::NOREPLACE,
        };
        Ok(self.rename_to(path, other, other_path, flags)?)
    }

    /// Exchanges two existing paths beneath this root, atomically.
    pub fn exchange(&self, path: &TreePath, other_path: &TreePath) -> io::Result<()> {
        Ok(self.rename_to(path, self, other_path, RenameFlags::EXCHANGE)?)
    }

    /// Removes a path if it is a device, a socket or a pipe.
    pub(crate) fn remove_special_file(&self, path: &TreePath) -> io::Result<()> {
        match self.stat(path)? {
            Some(stat) if stat.mode.is_none() => self.remove_file(path),
            _ => Ok(()),
        }
    }

    /// Removes a path with its content; for `None` only the content of the root. Handles paths of any length and depth,
    /// and folders that their owner cannot write.
    pub(crate) fn remove_all(&self, path: Option<&TreePath>) -> io::Result<()> {
        let is_folder = |stat: &Stat| {
            stat.mode
                .is_some_and(|mode| mode.kind() == FileKind::Directory)
        };
        if let Some(path) = path {
            match self.stat(path)? {
                Some(stat) if is_folder(&stat) => {}
                Some(_) => return self.remove_file(path),
                None => return Ok(()),
            }
        }
        let mut folders = vec![path.cloned()];
        let mut next = 0;
        while let Some(folder) = folders.get(next).cloned() {
            next += 1;
            let open = FileMode::new(FileKind::Directory, 0o700);
            match &folder {
                Some(folder) => self.set_mode(folder, open)?,
                None => self.set_own_mode(open)?,
            }
            for (name, stat) in self.entries(folder.as_ref())? {
                let inner = match &folder {
                    Some(folder) => folder.join(&name),
                    None => TreePath::from_bytes(name),
                };
                let inner = inner.map_err(io::Error::other)?;
                if is_folder(&stat) {
                    folders.push(Some(inner));
                } else {
                    self.remove_file(&inner)?;
                }
            }
        }
        for folder in folders.iter().rev().flatten() {
            self.remove_folder(folder)?;
        }
        Ok(())
    }

    /// Removes the devices, sockets and pipes in a folder.
    pub(crate) fn remove_special(&self, path: &TreePath) -> io::Result<()> {
        let folder = self.folder(Some(path))?;
        for entry in fs::Dir::read_from(&folder)? {
            let entry = entry?;
            let stat = match fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat_of(&stat),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if stat.mode.is_none() {
                fs::unlinkat(&folder, entry.file_name(), AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Writes a new file and moves it to a path atomically, replacing a file or link.
    pub fn write_file(
        &self,
        path: &TreePath,
        mode: FileMode,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        self.place(path, |folder, name| {
            create(folder, name.as_bytes(), mode, content)
        })
    }

    /// Writes a new file at a path that does not exist. Only for the program's own folders: the incomplete file is
    /// visible meanwhile, and remains after a failure.
    pub(crate) fn create_file(
        &self,
        path: &TreePath,
        mode: FileMode,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        create(self.parent(path)?.as_fd(), path.name(), mode, content)
    }

    /// Creates a link at a path that does not exist.
    pub(crate) fn create_link(&self, path: &TreePath, target: &[u8]) -> io::Result<()> {
        Ok(fs::symlinkat(target, self.parent(path)?, path.name())?)
    }

    /// Creates a link at a path atomically, replacing a file or link.
    pub fn write_link(&self, path: &TreePath, target: &[u8]) -> io::Result<()> {
        self.place(path, |folder, name| {
            Ok(fs::symlinkat(target, folder, name)?)
        })
    }

    /// Creates a file or link under a temporary name and moves it to a path.
    fn place(
        &self,
        path: &TreePath,
        make: impl FnOnce(BorrowedFd<'_>, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let parent = self.parent(path)?;
        let folder = self
            .scratch
            .as_ref()
            .map_or_else(|| parent.as_fd(), AsFd::as_fd);
        let name = temporary_name();
        let result = make(folder, &name)
            .and_then(|()| Ok(fs::renameat(folder, name.as_str(), &parent, path.name())?));
        if result.is_err() {
            let _gone = fs::unlinkat(folder, name.as_str(), AtFlags::empty());
        }
        result
    }

    /// Moves between two roots with the flags of `renameat2`.
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

/// Writes a file with an unused name.
fn create(
    folder: BorrowedFd<'_>,
    name: &[u8],
    mode: FileMode,
    content: &mut dyn Read,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
    io::copy(content, &mut file)?;
    file.flush()?;
    fs::fchmod(&file, Mode::from_raw_mode(mode.permissions()))?;
    Ok(())
}

/// Whether opening a path failed because it does not exist, is a link, or is of a kind that cannot be opened for
/// reading, such as a socket.
fn is_absent_or_special(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::ISDIR | Errno::NODEV
        )
    )
}

/// A path from the bytes that the system uses.
pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_the_system_limit_is_created_read_and_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let root = Root::open(place.path()).expect("a root");
        let name = "n".repeat(200);
        let mut folder = TreePath::from_bytes(name.as_str()).expect("a path");
        root.make_folder(&folder).expect("made");
        while folder.as_bytes().len() < 3 * MAX_PATH_BYTES {
            folder = folder.join(name.as_bytes()).expect("a path");
            root.make_folder(&folder).expect("made");
        }
        let file = folder.join(b"file").expect("a path");
        root.write_file(&file, FileMode::REGULAR, &mut b"deep".as_slice())
            .expect("written");
        let mut text = String::new();
        let mut opened = root.open_file(&file).expect("opened");
        opened.read_to_string(&mut text).expect("read");
        assert_eq!(text, "deep");
        assert!(root.stat(&file).expect("metadata").is_some());
        root.remove_all(None).expect("removed");
        assert_eq!(root.entries(None).expect("a list").len(), 0);
    }

    #[test]
    fn open_regular_opens_only_regular_files() {
        let place = tempfile::tempdir().expect("a folder");
        let root = Root::open(place.path()).expect("a root");
        let path = |name: &str| TreePath::from_bytes(name).expect("a path");
        std::fs::write(place.path().join("file"), "text").expect("a file");
        std::fs::create_dir(place.path().join("folder")).expect("a folder");
        std::os::unix::fs::symlink("/dev/zero", place.path().join("link")).expect("a link");
        std::os::unix::net::UnixListener::bind(place.path().join("socket")).expect("a socket");
        make_pipe(&place.path().join("pipe"));
        for name in ["folder", "link", "socket", "pipe", "nothing"] {
            let opened = root.open_regular(&path(name)).expect(name);
            assert!(opened.is_none(), "{name}");
        }
        assert!(root.open_regular(&path("file")).expect("opened").is_some());
    }

    fn make_pipe(place: &Path) {
        let result = rustix::fs::mknodat(
            rustix::fs::CWD,
            place,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        );
        result.expect("a pipe");
    }

    /// A reader that lists a folder at each read.
    struct CheckedReader<'a> {
        folder: &'a Path,
        seen: Vec<OsString>,
        rest: &'a [u8],
    }

    impl Read for CheckedReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for entry in std::fs::read_dir(self.folder)? {
                self.seen.push(entry?.file_name());
            }
            self.rest.read(buffer)
        }
    }

    #[test]
    fn partially_written_files_are_never_below_the_root() {
        let place = tempfile::tempdir().expect("a folder");
        let (tree, scratch) = (place.path().join("tree"), place.path().join("scratch"));
        std::fs::create_dir(&tree).expect("made");
        std::fs::create_dir(&scratch).expect("made");
        let root = Root::open(&tree)
            .and_then(|root| root.with_scratch(&scratch))
            .expect("a root");
        let mut content = CheckedReader {
            folder: &tree,
            seen: Vec::new(),
            rest: b"whole",
        };
        let path = TreePath::from_bytes("file").expect("a path");
        root.write_file(&path, FileMode::REGULAR, &mut content)
            .expect("written");
        assert_eq!(content.seen, Vec::<OsString>::new());
        assert_eq!(std::fs::read(tree.join("file")).expect("read"), b"whole");
        let leftovers = std::fs::read_dir(&scratch).expect("a folder").count();
        assert_eq!(leftovers, 0);
    }
}
