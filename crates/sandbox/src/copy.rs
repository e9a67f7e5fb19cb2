//! Copies of directories and files: sharing blocks where the file system can, else by content.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cleveragents_domain::{FileKind, FileMode, FileState, TreePath};
use rustix::fs::{self, AtFlags, Timespec, Timestamps};

use crate::beneath::{Root, Stat, path_of};
use crate::capture::BaseContent;
use crate::error::{During as _, Error};
use crate::manifest::{Known, Manifest};
use crate::objects::Objects;
use crate::scan::{Extent, scan};
use crate::state::read_state;

/// A tree that changes while it is copied is copied again where it changed, so often.
const ATTEMPTS: usize = 4;

/// Copies a tree into an empty folder and gives the manifest of the original as it was copied.
pub(crate) fn copy_tree(from: &Root, to: &Root, extent: Extent<'_>) -> Result<Manifest, Error> {
    let mut moment = crate::capture::now();
    let mut found = scan(from, extent).during("walking", from.path())?;
    let mut wanted: Vec<TreePath> = found.entries.keys().cloned().collect();
    wanted.sort();
    for _ in 0..ATTEMPTS {
        copy_paths(from, to, &wanted, &found.entries)?;
        let again_at = crate::capture::now();
        let again = scan(from, extent).during("walking", from.path())?;
        wanted = differences(&found.entries, &again.entries);
        for path in wanted.iter().rev() {
            remove(to, path).during("removing", &to.path().join(path.as_path()))?;
        }
        found = again;
        if wanted.is_empty() {
            set_folder_times(to, &found.entries)?;
            return Ok(Manifest::of(found.entries.into_iter().filter_map(
                |(path, stat)| Some((path, Known::seen(&stat, stat.mode?, None, moment))),
            )));
        }
        wanted.retain(|path| found.entries.contains_key(path));
        moment = again_at;
    }
    Err(Error::CannotSandbox {
        what: format!("`{}`", from.path().display()),
        reason: "it changes faster than it can be copied".to_owned(),
        hint: Some("stop what writes there, then try again".to_owned()),
    })
}

fn differences(before: &HashMap<TreePath, Stat>, after: &HashMap<TreePath, Stat>) -> Vec<TreePath> {
    let is_same = |path: &TreePath, stat: &Stat| {
        before.get(path).is_some_and(|old| {
            let is_folder = |stat: &Stat| {
                stat.mode
                    .is_some_and(|mode| mode.kind() == FileKind::Directory)
            };
            if is_folder(stat) && is_folder(old) {
                stat.mode == old.mode
            } else {
                stat == old
            }
        })
    };
    let changed = after.iter().filter(|(path, stat)| !is_same(path, stat));
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let mut paths: Vec<TreePath> = changed.map(|(path, _)| path).chain(gone).cloned().collect();
    paths.sort();
    paths
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

fn copy_paths(
    from: &Root,
    to: &Root,
    paths: &[TreePath],
    stats: &HashMap<TreePath, Stat>,
) -> Result<(), Error> {
    let kind = |path: &TreePath| {
        stats
            .get(path)
            .and_then(|stat| stat.mode)
            .map(FileMode::kind)
    };
    for path in paths
        .iter()
        .filter(|path| kind(path) == Some(FileKind::Directory))
    {
        to.make_folder(path)
            .during("making", &to.path().join(path.as_path()))?;
    }
    let files: Vec<&TreePath> = paths
        .iter()
        .filter(|path| kind(path) != Some(FileKind::Directory))
        .collect();
    let next = AtomicUsize::new(0);
    let can_share = AtomicBool::new(true);
    let failure = Mutex::new(None);
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(files.len()) {
            scope.spawn(|| {
                // In runs, so that neighbours are made by one thread.
                while let start = next.fetch_add(64, Ordering::Relaxed)
                    && start < files.len()
                {
                    for path in &files[start..files.len().min(start + 64)] {
                        let Some(stat) = stats.get(*path) else {
                            continue;
                        };
                        if let Err(error) = copy_one(from, to, path, stat, &can_share) {
                            next.store(files.len(), Ordering::Relaxed);
                            let place = from.path().join(path.as_path());
                            *failure.lock().unwrap_or_else(PoisonError::into_inner) =
                                Some((place, error));
                            return;
                        }
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

fn copy_one(
    from: &Root,
    to: &Root,
    path: &TreePath,
    stat: &Stat,
    can_share: &AtomicBool,
) -> io::Result<()> {
    let is_link = stat
        .mode
        .is_some_and(|mode| mode.kind() == FileKind::Symlink);
    let copied = if is_link {
        from.read_link(path).and_then(|target| {
            fs::symlinkat(path_of(target), to.parent(path)?, path.name())?;
            Ok(())
        })
    } else {
        copy_content(from, to, path, stat, can_share)
    };
    match copied {
        Ok(()) => {}
        // Gone or replaced since the walk; the next walk will tell.
        Err(error) if is_swap(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let parent = to.parent(path)?;
    keep_owner(&parent, path.name(), stat)?;
    set_times(&parent, path.name(), stat)
}

fn is_swap(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NOTDIR)
    )
}

fn copy_content(
    from: &Root,
    to: &Root,
    path: &TreePath,
    stat: &Stat,
    can_share: &AtomicBool,
) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let mut source = from.open_file(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let target = fs::openat(
        to.parent(path)?,
        path.name(),
        flags,
        Mode::from_raw_mode(0o600),
    )?;
    let mut target = std::fs::File::from(target);
    let mut is_shared = can_share.load(Ordering::Relaxed);
    if is_shared && fs::ioctl_ficlone(&target, &source).is_err() {
        can_share.store(false, Ordering::Relaxed);
        is_shared = false;
    }
    if !is_shared {
        io::copy(&mut source, &mut target)?;
    }
    let permissions = stat.mode.map_or(0o600, FileMode::permissions);
    fs::fchmod(&target, Mode::from_raw_mode(permissions))?;
    Ok(())
}

/// Only the superuser copies the files of others; everyone else's copies are their own.
pub(crate) fn keep_owner(parent: &rustix::fd::OwnedFd, name: &[u8], stat: &Stat) -> io::Result<()> {
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

fn set_times(parent: &rustix::fd::OwnedFd, name: &[u8], stat: &Stat) -> io::Result<()> {
    let time = Timespec {
        tv_sec: stat.modified.div_euclid(1_000_000_000),
        tv_nsec: stat.modified.rem_euclid(1_000_000_000),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Folders last and deepest first: filling them changes their times, and some may not be written.
fn set_folder_times(to: &Root, stats: &HashMap<TreePath, Stat>) -> Result<(), Error> {
    let is_folder = |stat: &Stat| {
        stat.mode
            .is_some_and(|mode| mode.kind() == FileKind::Directory)
    };
    let mut folders: Vec<_> = stats.iter().filter(|(_, stat)| is_folder(stat)).collect();
    folders.sort_by(|left, right| right.0.cmp(left.0));
    for (path, stat) in folders {
        let place = to.path().join(path.as_path());
        if let Some(mode) = stat.mode {
            to.set_mode(path, mode)
                .during("setting the permissions of", &place)?;
        }
        let parent = to.parent(path).during("opening", &place)?;
        keep_owner(&parent, path.name(), stat).during("setting the owner of", &place)?;
        set_times(&parent, path.name(), stat).during("setting the times of", &place)?;
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
