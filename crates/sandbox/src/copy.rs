//! Copies of directories and files: sharing blocks where the file system can, else by content.

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

use crate::beneath::{Root, Stat};
use crate::capture::BaseContent;
use crate::error::{During as _, Error};
use crate::manifest::{Known, Manifest};
use crate::objects::Objects;
use crate::scan::Extent;
use crate::state::read_state;
use listing::{Listing, differences, list};

/// A tree that changes while it is copied is copied again where it changed, so often.
const ATTEMPTS: usize = 4;

/// Files that one thread copies before it looks for more work.
const RUN: usize = 64;

/// Content up to this size is copied through memory, in two calls.
const IN_MEMORY: u64 = 128 << 10;

/// The original of a copy, as it was copied.
#[derive(Debug)]
pub(crate) struct Copied {
    /// Folder by folder, in order.
    pub(crate) listings: Vec<Listing>,
    /// When it was looked at, in nanoseconds since the epoch.
    pub(crate) moment: i64,
}

/// Copies a tree into an empty folder.
pub(crate) fn copy_tree(from: &Root, to: &Root, extent: Extent<'_>) -> Result<Copied, Error> {
    let mut moment = crate::capture::now();
    let mut found = list(from, extent).during("walking", from.path())?;
    let mut wanted: Option<HashSet<TreePath>> = None;
    for _ in 0..ATTEMPTS {
        copy_paths(from, to, &found, wanted.as_ref())?;
        let again_at = crate::capture::now();
        let again = list(from, extent).during("walking", from.path())?;
        let changed = differences(&found, &again).during("walking", from.path())?;
        found = again;
        if changed.is_empty() {
            set_folder_times(to, &found)?;
            return Ok(Copied {
                listings: found,
                moment,
            });
        }
        for path in changed.iter().rev() {
            remove(to, path).during("removing", &to.path().join(path.as_path()))?;
        }
        wanted = Some(changed.into_iter().collect());
        moment = again_at;
    }
    Err(Error::CannotSandbox {
        what: format!("`{}`", from.path().display()),
        reason: "it changes faster than it can be copied".to_owned(),
        hint: Some("stop what writes there, then try again".to_owned()),
    })
}

fn remove(root: &Root, path: &TreePath) -> io::Result<()> {
    match root
        .stat(path)?
        .and_then(|stat| stat.mode)
        .map(FileMode::kind)
    {
        None => Ok(()),
        // What is still in it comes later, or stays and the folder with it.
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

/// Copies what is listed; only `wanted` when given.
fn copy_paths(
    from: &Root,
    to: &Root,
    listings: &[Listing],
    wanted: Option<&HashSet<TreePath>>,
) -> Result<(), Error> {
    // Those above come first.
    for listing in listings {
        for (name, _) in listing.entries().filter(|(_, stat)| is_folder(stat)) {
            let path = listing.inside(name).during("making", to.path())?;
            if wanted.is_none_or(|wanted| wanted.contains(&path)) {
                to.make_folder(&path)
                    .during("making", &to.path().join(path.as_path()))?;
            }
        }
    }
    let runs: Vec<(&Listing, usize)> = listings
        .iter()
        .flat_map(|listing| {
            let starts = (0..listing.len()).step_by(RUN);
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
        for _ in 0..workers.min(runs.len()) {
            scope.spawn(|| {
                let mut copier = Copier {
                    from,
                    to,
                    wanted,
                    can_share: &can_share,
                    is_superuser: rustix::process::geteuid().is_root(),
                    buffer: Vec::new(),
                };
                while let Some((listing, start)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err((place, error)) = copier.copy_run(listing, *start) {
                        next.store(runs.len(), Ordering::Relaxed);
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

/// What one thread copies files with.
struct Copier<'a> {
    from: &'a Root,
    to: &'a Root,
    wanted: Option<&'a HashSet<TreePath>>,
    /// Whether the file system was not yet found unable to share blocks.
    can_share: &'a AtomicBool,
    is_superuser: bool,
    buffer: Vec<u8>,
}

impl Copier<'_> {
    /// Copies the files and links of a folder from one on, at most [`RUN`].
    fn copy_run(
        &mut self,
        listing: &Listing,
        start: usize,
    ) -> Result<(), (std::path::PathBuf, io::Error)> {
        let place_of = |name: &[u8]| match listing.inside(name) {
            Ok(path) => self.from.path().join(path.as_path()),
            Err(_) => self.from.path().to_owned(),
        };
        let folder = listing.folder.as_ref();
        let open = || -> rustix::io::Result<_> {
            Ok((self.from.folder(folder)?, self.to.folder(folder)?))
        };
        let (from, to) = match open() {
            Ok(both) => both,
            // Gone or replaced since the walk; the next walk will tell.
            Err(error) if is_swap(error) => return Ok(()),
            Err(error) => return Err((place_of(b""), error.into())),
        };
        let from_path = self.from.path();
        for (name, stat) in listing.entries().skip(start).take(RUN) {
            let path = || {
                listing
                    .inside(name)
                    .map_err(|error| (from_path.to_owned(), error))
            };
            if is_folder(stat) {
                continue;
            }
            if let Some(wanted) = self.wanted
                && !wanted.contains(&path()?)
            {
                continue;
            }
            match self.copy_one(from.as_fd(), to.as_fd(), name, stat) {
                Ok(()) => {}
                Err(error) if Errno::from_io_error(&error).is_some_and(is_swap) => {}
                Err(error) => return Err((from_path.join(path()?.as_path()), error)),
            }
        }
        Ok(())
    }

    fn copy_one(
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
        // One name, no link: nothing leads out of the folder. A pipe must not hold us up.
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
            // Before the permissions, some of which it takes away.
            let (user, group) = stat.owner;
            let (user, group) = (fs::Uid::from_raw(user), fs::Gid::from_raw(group));
            fs::fchown(&target, Some(user), Some(group))?;
        }
        fs::fchmod(&target, Mode::from_raw_mode(permissions))?;
        Ok(fs::futimens(&target, &times_of(stat))?)
    }

    /// Copies no more than the file had when it was listed: one that grew is copied again.
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
        if size > IN_MEMORY {
            io::copy(&mut source, target)?;
            return Ok(());
        }
        self.buffer.clear();
        self.buffer.reserve(usize::try_from(size).unwrap_or(0));
        source.read_to_end(&mut self.buffer)?;
        target.write_all(&self.buffer)
    }
}

/// Whether a path became something else since it was listed. The next walk tells.
fn is_swap(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NOTDIR | Errno::AGAIN | Errno::NXIO
    )
}

/// Only the superuser copies the files of others; everyone else's copies are their own.
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

/// Folders last and deepest first: filling them changes their times, and some may not be written.
fn set_folder_times(to: &Root, listings: &[Listing]) -> Result<(), Error> {
    for listing in listings.iter().rev() {
        for (name, stat) in listing.entries().filter(|(_, stat)| is_folder(stat)) {
            let path = listing.inside(name).during("making", to.path())?;
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

/// The original of a copy, as the place where first content comes from.
pub(crate) struct Original<'a> {
    pub(crate) root: &'a Root,
    /// The original as it was when it was copied.
    pub(crate) manifest: &'a Manifest,
}

impl BaseContent for Original<'_> {
    fn keep(
        &self,
        paths: &[(TreePath, Known)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        paths
            .iter()
            .map(|(path, known)| {
                let place = self.root.path().join(path.as_path());
                let Some(first) = self.manifest.get(path).during("looking up", &place)? else {
                    return Ok(None);
                };
                let found = match read_state(self.root, path, Some(objects)) {
                    Ok(found) => found,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
                    Err(error) => return Err(error).during("reading", &place),
                };
                Ok(found
                    .filter(|(_, stat)| first.is_unchanged(stat))
                    .map(|(state, _)| FileState {
                        mode: known.mode,
                        ..state
                    }))
            })
            .collect()
    }
}

impl Original<'_> {
    /// Paths whose first content can no longer be had from the original.
    pub(crate) fn changed(&self, extent: Extent<'_>) -> Result<Vec<TreePath>, Error> {
        let found = self
            .manifest
            .compare(self.root, extent, &crate::stop::Stop::default())
            .during("walking", self.root.path())?;
        // What is new in the original was never copied.
        let known = found
            .pending
            .into_iter()
            .filter(|(_, first)| first.is_some());
        Ok(known.map(|(path, _)| path).collect())
    }
}

/// Where a single file lies: the folder that holds it and its name.
pub(crate) fn split_file(location: &Path) -> Option<(&Path, &[u8])> {
    use std::os::unix::ffi::OsStrExt as _;
    Some((location.parent()?, location.file_name()?.as_bytes()))
}
