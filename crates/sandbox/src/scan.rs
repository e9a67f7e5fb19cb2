//! Scans a tree: lists all paths with their metadata, without reading content.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use cleveragents_domain::{FileKind, TreePath};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use crate::readable::reading;
use crate::scan_cancel::ScanCancel;
use crate::scoped_dir::{Root, Stat, stat_of};

/// Result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Files, links and folders.
    pub(crate) entries: HashMap<TreePath, Stat>,
}

/// The part of a folder that forms the tree.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent<'a> {
    /// Only this name in the root; all names if `None`.
    pub(crate) only: Option<&'a [u8]>,
    /// Excludes this name in the root.
    pub(crate) without: Option<&'a [u8]>,
}

impl Extent<'_> {
    fn includes(self, name: &[u8]) -> bool {
        self.only.is_none_or(|only| only == name)
            && self.without.is_none_or(|without| without != name)
    }
}

/// The names in one folder, each with its metadata.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// All names, concatenated.
    bytes: Vec<u8>,
    /// Range of each name in `bytes`, in the order in which the system returned them.
    entries: Vec<(usize, usize, Stat)>,
}

impl Names {
    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    fn push(&mut self, name: &[u8], stat: Stat) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.entries.push((from, self.bytes.len(), stat));
    }

    /// Entries sorted by name.
    pub(crate) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &Stat)> {
        let bytes = &self.bytes;
        self.entries
            .sort_unstable_by(|left, right| bytes[left.0..left.1].cmp(&bytes[right.0..right.1]));
        self.entries
            .iter()
            .map(|(start, end, stat)| (&bytes[*start..*end], stat))
    }
}

/// Receives each folder of a scan, on one of several threads.
pub(crate) trait Visitor: Send {
    /// Appends the names in a folder, each followed by a zero byte, and returns `true`, if the folder's metadata shows
    /// that they are unchanged. Otherwise the folder is read.
    fn names(&self, _folder: &TreePath, _stat: &Stat, _names: &mut Vec<u8>) -> io::Result<bool> {
        Ok(false)
    }

    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()>;
}

/// Scans a tree with one thread per core, at most eight, each with its own visitor. Returns the visitors.
pub(crate) fn walk<V: Visitor>(
    root: &Root,
    extent: Extent<'_>,
    visitor: impl Fn() -> V + Sync,
) -> io::Result<Vec<V>> {
    walk_until(root, extent, &ScanCancel::default(), visitor)
}

/// Like [`walk`]. Fails when it is cancelled.
pub(crate) fn walk_until<V: Visitor>(
    root: &Root,
    extent: Extent<'_>,
    stop: &ScanCancel,
    visitor: impl Fn() -> V + Sync,
) -> io::Result<Vec<V>> {
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let queue = Queue {
        shared: Mutex::new(QueueState {
            folders: vec![QueuedFolder::default()],
            busy_readers: 0,
            failure: None,
        }),
        ready: Condvar::new(),
        idle_readers: AtomicUsize::new(0),
    };
    let visitors = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut reader = Reader {
                        root,
                        extent,
                        stop,
                        buffer: vec![MaybeUninit::uninit(); BUFFER],
                        known_names: Vec::new(),
                        names: Names::default(),
                        visitor: visitor(),
                    };
                    queue.read_folders(&mut reader);
                    reader.visitor
                })
            })
            .collect();
        let joined: Result<Vec<V>, _> = readers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        joined.map_err(|_| io::Error::other("a reader of folders panicked"))
    })?;
    let shared = queue
        .shared
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match shared.failure {
        Some(failure) => Err(failure),
        None => Ok(visitors),
    }
}

/// Buffer size for the names of a folder, in bytes.
const BUFFER: usize = 32 << 10;

/// Queue of unread folders. Each thread has its own folders too, and moves half of them here when another thread is
/// idle.
struct Queue {
    shared: Mutex<QueueState>,
    ready: Condvar,
    /// Number of threads that wait for a folder.
    idle_readers: AtomicUsize,
}

/// An unread folder with its metadata; `None` is the root.
#[derive(Default)]
struct QueuedFolder(Option<(TreePath, Stat)>);

struct QueueState {
    folders: Vec<QueuedFolder>,
    busy_readers: usize,
    failure: Option<io::Error>,
}

impl Queue {
    /// Reads folders and their subfolders until all are read.
    fn read_folders(&self, reader: &mut Reader<'_, impl Visitor>) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if shared.failure.is_some() {
                return;
            }
            let Some(folder) = shared.folders.pop() else {
                if shared.busy_readers == 0 {
                    self.ready.notify_all();
                    return;
                }
                self.idle_readers.fetch_add(1, Ordering::Relaxed);
                shared = self
                    .ready
                    .wait(shared)
                    .unwrap_or_else(PoisonError::into_inner);
                self.idle_readers.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            shared.busy_readers += 1;
            drop(shared);
            let outcome = self.read_subtree(reader, folder);
            shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.busy_readers -= 1;
            if let Err(error) = outcome {
                shared.failure = Some(error);
            }
            self.ready.notify_all();
        }
    }

    fn read_subtree(
        &self,
        reader: &mut Reader<'_, impl Visitor>,
        folder: QueuedFolder,
    ) -> io::Result<()> {
        let mut pending = vec![folder];
        while let Some(folder) = pending.pop() {
            reader.stop.check()?;
            let root = reader.root;
            let path = folder.0.as_ref().map(|(path, _)| path);
            let subfolders = reading(root, path, || reader.read(&folder)).map_err(|error| {
                let place = match &folder.0 {
                    Some((path, _)) => path.to_string(),
                    None => root.path().display().to_string(),
                };
                io::Error::new(error.kind(), format!("{place}: {error}"))
            })?;
            pending.extend(subfolders);
            if pending.len() > 1 && self.idle_readers.load(Ordering::Relaxed) > 0 {
                let half = pending.len() / 2;
                let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                shared.folders.extend(pending.drain(..half));
                self.ready.notify_one();
            }
        }
        Ok(())
    }
}

/// State of one scanning thread.
struct Reader<'a, V> {
    root: &'a Root,
    extent: Extent<'a>,
    stop: &'a ScanCancel,
    buffer: Vec<MaybeUninit<u8>>,
    /// Names in the current folder, if they are known without reading it; each followed by a zero byte.
    known_names: Vec<u8>,
    names: Names,
    visitor: V,
}

impl<V: Visitor> Reader<'_, V> {
    /// Reads one folder and returns its subfolders.
    fn read(&mut self, QueuedFolder(folder): &QueuedFolder) -> io::Result<Vec<QueuedFolder>> {
        self.known_names.clear();
        let are_names_known = match folder {
            Some((path, stat)) => self.visitor.names(path, stat, &mut self.known_names)?,
            None => false,
        };
        let folder = folder.as_ref().map(|(path, _)| path);
        let handle = match self.root.folder(folder) {
            Ok(handle) => handle,
            // The folder was removed or replaced since its parent was read.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if folder.is_some() => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        };
        let mut subfolders = Vec::new();
        self.names.clear();
        if are_names_known {
            for name in self.known_names.split_inclusive(|byte| *byte == 0) {
                let name = CStr::from_bytes_with_nul(name).map_err(io::Error::other)?;
                add_entry(&handle, folder, name, &mut self.names, &mut subfolders)?;
            }
        } else {
            let mut listing = fs::RawDir::new(&handle, &mut self.buffer);
            while let Some(entry) = listing.next() {
                let entry = entry?;
                let name = entry.file_name();
                let is_part = folder.is_some() || self.extent.includes(name.to_bytes());
                if is_part && name != c"." && name != c".." {
                    add_entry(&handle, folder, name, &mut self.names, &mut subfolders)?;
                }
            }
        }
        self.visitor.folder(folder, &mut self.names)?;
        Ok(subfolders)
    }
}

/// Adds a name in a folder with its metadata, unless it does not exist any more.
fn add_entry(
    handle: &OwnedFd,
    folder: Option<&TreePath>,
    name: &CStr,
    names: &mut Names,
    subfolders: &mut Vec<QueuedFolder>,
) -> io::Result<()> {
    let stat = match fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat_of(&stat),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let name = name.to_bytes();
    if stat
        .mode
        .is_some_and(|mode| mode.kind() == FileKind::Directory)
    {
        subfolders.push(QueuedFolder(Some((child_path(folder, name)?, stat))));
    }
    names.push(name, stat);
    Ok(())
}

/// The path of a name in a folder.
pub(crate) fn child_path(folder: Option<&TreePath>, name: &[u8]) -> io::Result<TreePath> {
    match folder {
        Some(folder) => folder.join(name),
        None => TreePath::from_bytes(name),
    }
    .map_err(io::Error::other)
}

/// Collects all paths.
#[derive(Default)]
struct PathCollector(Vec<(TreePath, Stat)>);

impl Visitor for PathCollector {
    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        for (name, stat) in names.sorted() {
            if stat.mode.is_some() {
                self.0.push((child_path(folder, name)?, *stat));
            }
        }
        Ok(())
    }
}

/// All paths of a tree, without special files.
pub(crate) fn scan(root: &Root, extent: Extent<'_>) -> io::Result<Scan> {
    let parts = walk(root, extent, PathCollector::default)?;
    let mut entries = HashMap::with_capacity(parts.iter().map(|part| part.0.len()).sum());
    for part in parts {
        entries.extend(part.0);
    }
    Ok(Scan { entries })
}
