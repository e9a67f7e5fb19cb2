//! Copies directories and files: with shared blocks (reflinks) if the file system supports them, otherwise byte by
//! byte.

mod listing;

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cleveragents_domain::{FileKind, FileMode, FileState, TreePath};
use rustix::fs::{self, AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::capture::BaseContent;
use crate::error::{Error, PathContext as _};
use crate::manifest::{Manifest, PathRecord};
use crate::objects::Objects;
use crate::scan::Extent;
use crate::scoped_dir::{Root, Stat};
use crate::state::read_state;
use listing::{FolderListing, differences, list};

/// Maximum number of copy passes. Each later pass copies the paths that changed during the previous pass.
const MAX_PASSES: usize = 4;

/// Maximum number of files that a thread copies before it takes the next batch.
const BATCH_SIZE: usize = 64;

/// Maximum size of a file that is copied through a buffer in memory, in bytes.
const MAX_BUFFERED_BYTES: u64 = 128 << 10;

/// State of the original when it was copied.
#[derive(Debug)]
pub(crate) struct CopiedTree {
    /// One listing per folder, sorted by path.
    pub(crate) listings: Vec<FolderListing>,
    /// Time of the scan, in nanoseconds since the epoch.
    pub(crate) moment: i64,
}

/// Copies a tree into an empty folder.
pub(crate) fn copy_tree(from: &Root, to: &Root, extent: Extent<'_>) -> Result<CopiedTree, Error> {
    let mut moment = crate::capture::now();
    let mut scanned = list(from, extent).during("walking", from.path())?;
    let mut selected: Option<HashSet<TreePath>> = None;
    for _ in 0..MAX_PASSES {
        copy_paths(from, to, &scanned, selected.as_ref())?;
        let rescan_time = crate::capture::now();
        let rescan = list(from, extent).during("walking", from.path())?;
        let changed = differences(&scanned, &rescan).during("walking", from.path())?;
        scanned = rescan;
        if changed.is_empty() {
            set_folder_times(to, &scanned)?;
            return Ok(CopiedTree {
                listings: scanned,
                moment,
            });
        }
        for path in changed.iter().rev() {
            remove(to, path).during("removing", &to.path().join(path.as_path()))?;
        }
        selected = Some(changed.into_iter().collect());
        moment = rescan_time;
    }
    Err(Error::CannotSandbox {
        what: format!("`{}`", from.path().display()),
        reason: "it changes faster than it can be copied".to_owned(),
        hint: Some("stop the program that writes there, then run the command again".into()),
    })
}

/// Number of files in a tree, and their total size in bytes.
pub(crate) fn tree_size(root: &Root) -> io::Result<(u64, u64)> {
    let listings = list(root, Extent::default())?;
    let entries = listings.iter().flat_map(FolderListing::entries);
    let files = entries.filter(|(_, stat)| !is_folder(stat));
    Ok(files.fold((0, 0), |(count, bytes), (_, stat)| {
        (count + 1, bytes + stat.size)
    }))
}

/// Whether files of a tree can be copied into a folder with shared blocks.
pub(crate) fn shares_blocks(from: &Root, folder: &Path) -> bool {
    let try_first_file = || -> io::Result<bool> {
        let listings = list(from, Extent::default())?;
        for listing in &listings {
            for (name, stat) in listing.entries() {
                let kind = stat.mode.map(FileMode::kind);
                if kind == Some(FileKind::File) && stat.size > 0 {
                    let source = from.open_file(&listing.child_path(name)?)?;
                    let target = tempfile::tempfile_in(folder)?;
                    return Ok(fs::ioctl_ficlone(&target, &source).is_ok());
                }
            }
        }
        Ok(false)
    };
    try_first_file().unwrap_or(false)
}

fn remove(root: &Root, path: &TreePath) -> io::Result<()> {
    match root
        .stat(path)?
        .and_then(|stat| stat.mode)
        .map(FileMode::kind)
    {
        None => Ok(()),
        // A folder that still contains unchanged files stays.
        Some(FileKind::Directory) => match root.remove_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        },
        Some(_) => root.remove_file(path),
    }
}

fn is_folder(stat: &Stat) -> bool {
    stat.mode
        .is_some_and(|mode| mode.kind() == FileKind::Directory)
}

/// Copies the listed paths; only those in `selected` if it is given.
fn copy_paths(
    from: &Root,
    to: &Root,
    listings: &[FolderListing],
    selected: Option<&HashSet<TreePath>>,
) -> Result<(), Error> {
    // Parents come before their children.
    for listing in listings {
        for (name, _) in listing.entries().filter(|(_, stat)| is_folder(stat)) {
            let path = listing.child_path(name).during("making", to.path())?;
            if selected.is_none_or(|selected| selected.contains(&path)) {
                to.make_folder(&path)
                    .during("making", &to.path().join(path.as_path()))?;
            }
        }
    }
    let batches: Vec<(&FolderListing, usize)> = listings
        .iter()
        .flat_map(|listing| {
            let starts = (0..listing.len()).step_by(BATCH_SIZE);
            starts.map(move |start| (listing, start))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let can_share = AtomicBool::new(true);
    let failure = Mutex::new(None);
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(batches.len()) {
            scope.spawn(|| {
                let mut copier = Copier {
                    from,
                    to,
                    selected,
                    can_share: &can_share,
                    is_superuser: rustix::process::geteuid().is_root(),
                    buffer: Vec::new(),
                };
                while let Some((listing, start)) = batches.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err((place, error)) = copier.copy_batch(listing, *start) {
                        next.store(batches.len(), Ordering::Relaxed);
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some((place, error));
                        return;
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((place, error)) => Err(error).during("copying", &place),
        None => Ok(()),
    }
}

/// State of one copying thread.
struct Copier<'a> {
    from: &'a Root,
    to: &'a Root,
    selected: Option<&'a HashSet<TreePath>>,
    /// Whether to try sharing blocks; `false` after the first failed attempt.
    can_share: &'a AtomicBool,
    is_superuser: bool,
    buffer: Vec<u8>,
}

impl Copier<'_> {
    /// Copies at most [`BATCH_SIZE`] files and links of a folder, starting at index `start`.
    fn copy_batch(
        &mut self,
        listing: &FolderListing,
        start: usize,
    ) -> Result<(), (std::path::PathBuf, io::Error)> {
        let place_of = |name: &[u8]| match listing.child_path(name) {
            Ok(path) => self.from.path().join(path.as_path()),
            Err(_) => self.from.path().to_owned(),
        };
        let folder = listing.folder.as_ref();
        let open = || -> rustix::io::Result<_> {
            Ok((self.from.folder(folder)?, self.to.folder(folder)?))
        };
        let (from, to) = match open() {
            Ok(both) => both,
            // The folder was removed or replaced since the scan; the next scan detects it.
            Err(error) if is_replaced_path(error) => return Ok(()),
            Err(error) => return Err((place_of(b""), error.into())),
        };
        let from_path = self.from.path();
        for (name, stat) in listing.entries().skip(start).take(BATCH_SIZE) {
            let path = || {
                listing
                    .child_path(name)
                    .map_err(|error| (from_path.to_owned(), error))
            };
            if is_folder(stat) {
                continue;
            }
            if let Some(selected) = self.selected
                && !selected.contains(&path()?)
            {
                continue;
            }
            match self.copy_entry(from.as_fd(), to.as_fd(), name, stat) {
                Ok(()) => {}
                Err(error) if Errno::from_io_error(&error).is_some_and(is_replaced_path) => {}
                Err(error) => return Err((from_path.join(path()?.as_path()), error)),
            }
        }
        Ok(())
    }

    fn copy_entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
    ) -> io::Result<()> {
        if stat
            .mode
            .is_some_and(|mode| mode.kind() == FileKind::Symlink)
        {
            fs::symlinkat(fs::readlinkat(from, name, Vec::new())?, to, name)?;
            keep_owner(to, name, stat)?;
            return set_times(to, name, stat);
        }
        // A single name without following links cannot leave the folder. Non-blocking, because opening a pipe would
        // block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = std::fs::File::from(fs::openat(from, name, flags, Mode::empty())?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let target = fs::openat(to, name, flags, Mode::from_raw_mode(0o600))?;
        let mut target = std::fs::File::from(target);
        if stat.size > 0 {
            self.copy_content(source, &mut target, stat.size)?;
        }
        let permissions = stat.mode.map_or(0o600, FileMode::permissions);
        if self.is_superuser && stat.owner != (0, 0) {
            // The owner is set before the permissions, because `chown` clears some of them.
            let (user, group) = stat.owner;
            let (user, group) = (fs::Uid::from_raw(user), fs::Gid::from_raw(group));
            fs::fchown(&target, Some(user), Some(group))?;
        }
        fs::fchmod(&target, Mode::from_raw_mode(permissions))?;
        Ok(fs::futimens(&target, &times_of(stat))?)
    }

    /// Copies at most the listed size. A file that has grown is copied again by the next pass.
    fn copy_content(
        &mut self,
        source: std::fs::File,
        target: &mut std::fs::File,
        size: u64,
    ) -> io::Result<()> {
        if self.can_share.load(Ordering::Relaxed) {
            if fs::ioctl_ficlone(&*target, &source).is_ok() {
                return Ok(());
            }
            self.can_share.store(false, Ordering::Relaxed);
        }
        let mut source = source.take(size);
        if size > MAX_BUFFERED_BYTES {
            io::copy(&mut source, target)?;
            return Ok(());
        }
        self.buffer.clear();
        self.buffer.reserve(usize::try_from(size).unwrap_or(0));
        source.read_to_end(&mut self.buffer)?;
        target.write_all(&self.buffer)
    }
}

/// Whether the error means that the path was replaced since the listing. The next scan detects it.
fn is_replaced_path(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NOTDIR | Errno::AGAIN | Errno::NXIO
    )
}

/// Preserves the owner if the process is the superuser; other users own their copies.
pub(crate) fn keep_owner(parent: impl AsFd, name: &[u8], stat: &Stat) -> io::Result<()> {
    let (user, group) = stat.owner;
    if rustix::process::geteuid().is_root() && (user, group) != (0, 0) {
        let (user, group) = (
            rustix::fs::Uid::from_raw(user),
            rustix::fs::Gid::from_raw(group),
        );
        fs::chownat(
            parent,
            name,
            Some(user),
            Some(group),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    Ok(())
}

fn set_times(parent: impl AsFd, name: &[u8], stat: &Stat) -> io::Result<()> {
    fs::utimensat(parent, name, &times_of(stat), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = Timespec {
        tv_sec: stat.modified.div_euclid(1_000_000_000),
        tv_nsec: stat.modified.rem_euclid(1_000_000_000),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

/// Sets the modes, owners and times of folders. Runs last and deepest first, because filling a folder changes its
/// times, and some modes forbid writing.
fn set_folder_times(to: &Root, listings: &[FolderListing]) -> Result<(), Error> {
    for listing in listings.iter().rev() {
        for (name, stat) in listing.entries().filter(|(_, stat)| is_folder(stat)) {
            let path = listing.child_path(name).during("making", to.path())?;
            let place = to.path().join(path.as_path());
            if let Some(mode) = stat.mode {
                to.set_mode(&path, mode)
                    .during("setting the permissions of", &place)?;
            }
            let parent = to.parent(&path).during("opening", &place)?;
            keep_owner(&parent, name, stat).during("setting the owner of", &place)?;
            set_times(&parent, name, stat).during("setting the times of", &place)?;
        }
    }
    Ok(())
}

/// Reads original content from the files that were copied, if they have not changed since. The cost of a lookup does
/// not depend on the size of the tree.
pub(crate) struct CopyOriginal<'a> {
    pub(crate) root: &'a Root,
    /// Manifest of the original at the time of the copy.
    pub(crate) manifest: &'a Path,
}

impl BaseContent for CopyOriginal<'_> {
    fn store_original(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        let names: Vec<TreePath> = paths.iter().map(|(path, _)| path.clone()).collect();
        let originals =
            Manifest::look_up(self.manifest, &names).during("reading", self.manifest)?;
        paths
            .iter()
            .zip(originals)
            .map(|((path, known), original)| {
                let Some(original) = original else {
                    return Ok(None);
                };
                let found = match read_state(self.root, path, Some(objects)) {
                    Ok(found) => found,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
                    Err(error) => {
                        return Err(error)
                            .during("reading", &self.root.path().join(path.as_path()));
                    }
                };
                Ok(found
                    .filter(|(_, stat)| original.is_unchanged(stat))
                    .map(|(state, _)| FileState {
                        mode: known.mode,
                        ..state
                    }))
            })
            .collect()
    }
}

impl CopyOriginal<'_> {
    /// Copied paths that have changed in the original since the copy.
    pub(crate) fn changed(&self, extent: Extent<'_>) -> Result<Vec<TreePath>, Error> {
        // Paths that are new in the original are excluded.
        let pending = self.pending(extent)?.into_iter();
        let copied = pending.filter(|(_, first)| first.is_some());
        Ok(copied.map(|(path, _)| path).collect())
    }

    /// Paths of the original that may have changed since the copy was made, and their recorded state at that time.
    pub(crate) fn pending(
        &self,
        extent: Extent<'_>,
    ) -> Result<Vec<(TreePath, Option<PathRecord>)>, Error> {
        let manifest = Manifest::load(self.manifest)
            .map_err(|error| Error::Damaged(format!("`{}`: {error}", self.manifest.display())))?;
        let found = manifest
            .compare(
                self.root,
                extent,
                &crate::scan_cancel::ScanCancel::default(),
            )
            .during("walking", self.root.path())?;
        Ok(found.pending)
    }
}

/// Splits the location of a single file into its folder and name.
pub(crate) fn split_file(location: &Path) -> Option<(&Path, &[u8])> {
    use std::os::unix::ffi::OsStrExt as _;
    Some((location.parent()?, location.file_name()?.as_bytes()))
}
