//! A walk over a whole tree: every path and what the system says of it, without reading content.

use std::collections::HashMap;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use cleveragents_domain::{FileKind, TreePath};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use crate::beneath::{Root, Stat, stat_of};

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Files, links and folders.
    pub(crate) entries: HashMap<TreePath, Stat>,
}

/// Which part of a folder is the tree.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent<'a> {
    /// Only this name at the top; everything when not given.
    pub(crate) only: Option<&'a [u8]>,
    /// Not this name at the top.
    pub(crate) without: Option<&'a [u8]>,
}

impl Extent<'_> {
    fn holds(self, name: &[u8]) -> bool {
        self.only.is_none_or(|only| only == name)
            && self.without.is_none_or(|without| without != name)
    }
}

/// A name in a folder and what the system says of it.
pub(crate) type Named = (Vec<u8>, Stat);

/// What is done with each folder of a walk, by one of several threads.
pub(crate) trait Visitor: Send {
    fn folder(&mut self, folder: Option<&TreePath>, names: Vec<Named>) -> io::Result<()>;
}

/// Walks a tree with as many threads as there are cores, each with a visitor of its own.
pub(crate) fn walk<V: Visitor>(
    root: &Root,
    extent: Extent<'_>,
    visitor: impl Fn() -> V + Sync,
) -> io::Result<Vec<V>> {
    let queue = Mutex::new(Queue {
        folders: vec![None],
        busy: 0,
        failure: None,
    });
    let ready = Condvar::new();
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let visitors = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut visitor = visitor();
                    read_folders(root, extent, &queue, &ready, &mut visitor);
                    visitor
                })
            })
            .collect();
        let joined: Result<Vec<V>, _> = readers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        joined.map_err(|_| io::Error::other("a reader of folders panicked"))
    })?;
    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    match queue.failure {
        Some(failure) => Err(failure),
        None => Ok(visitors),
    }
}

/// Folders still to be read, and how many readers are busy.
struct Queue {
    folders: Vec<Option<TreePath>>,
    busy: usize,
    failure: Option<io::Error>,
}

fn read_folders(
    root: &Root,
    extent: Extent<'_>,
    queue: &Mutex<Queue>,
    ready: &Condvar,
    visitor: &mut impl Visitor,
) {
    let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if state.failure.is_some() {
            return;
        }
        let Some(folder) = state.folders.pop() else {
            if state.busy == 0 {
                ready.notify_all();
                return;
            }
            state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.busy += 1;
        drop(state);
        let below = read_folder(root, folder.as_ref(), extent, visitor);
        state = queue.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        match below {
            Ok(below) => state.folders.extend(below.into_iter().map(Some)),
            Err(error) => {
                let place = folder.map_or_else(
                    || root.path().display().to_string(),
                    |path| path.to_string(),
                );
                state.failure = Some(io::Error::new(error.kind(), format!("{place}: {error}")));
            }
        }
        ready.notify_all();
    }
}

/// Reads one folder and gives the folders in it.
fn read_folder(
    root: &Root,
    folder: Option<&TreePath>,
    extent: Extent<'_>,
    visitor: &mut impl Visitor,
) -> io::Result<Vec<TreePath>> {
    let handle = match root.folder(folder) {
        Ok(handle) => handle,
        // Removed, or made into something else, since its parent was read.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if folder.is_some() => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let mut below = Vec::new();
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(&handle)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || (folder.is_none() && !extent.holds(name)) {
            continue;
        }
        let stat = match fs::statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat_of(&stat),
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if stat
            .mode
            .is_some_and(|mode| mode.kind() == FileKind::Directory)
        {
            below.push(inside(folder, name)?);
        }
        names.push((name.to_vec(), stat));
    }
    visitor.folder(folder, names)?;
    Ok(below)
}

/// The path of a name in a folder.
pub(crate) fn inside(folder: Option<&TreePath>, name: &[u8]) -> io::Result<TreePath> {
    match folder {
        Some(folder) => folder.join(name),
        None => TreePath::from_bytes(name),
    }
    .map_err(io::Error::other)
}

/// Collects every path.
#[derive(Default)]
struct Everything(Vec<(TreePath, Stat)>);

impl Visitor for Everything {
    fn folder(&mut self, folder: Option<&TreePath>, names: Vec<Named>) -> io::Result<()> {
        for (name, stat) in names {
            if stat.mode.is_some() {
                self.0.push((inside(folder, &name)?, stat));
            }
        }
        Ok(())
    }
}

/// Every path of a tree that a tree can hold.
pub(crate) fn scan(root: &Root, extent: Extent<'_>) -> io::Result<Scan> {
    let parts = walk(root, extent, Everything::default)?;
    let mut entries = HashMap::with_capacity(parts.iter().map(|part| part.0.len()).sum());
    for part in parts {
        entries.extend(part.0);
    }
    Ok(Scan { entries })
}
