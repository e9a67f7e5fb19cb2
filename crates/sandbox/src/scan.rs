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
    /// Devices, sockets and pipes, which a tree cannot hold.
    pub(crate) special: Vec<TreePath>,
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

/// Folders still to be read, and how many readers are busy.
struct Queue {
    folders: Vec<Option<TreePath>>,
    busy: usize,
    failure: Option<io::Error>,
}

/// Walks a tree with as many threads as there are cores.
pub(crate) fn scan(root: &Root, extent: Extent<'_>) -> io::Result<Scan> {
    let queue = Mutex::new(Queue {
        folders: vec![None],
        busy: 0,
        failure: None,
    });
    let ready = Condvar::new();
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| read_folders(root, extent, &queue, &ready)))
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_default())
            .collect()
    });
    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = queue.failure {
        return Err(failure);
    }
    let mut whole = Scan {
        entries: HashMap::with_capacity(parts.iter().map(|part| part.0.len()).sum()),
        special: Vec::new(),
    };
    for (entries, special) in parts {
        whole.entries.extend(entries);
        whole.special.extend(special);
    }
    whole.special.sort();
    Ok(whole)
}

type Part = (Vec<(TreePath, Stat)>, Vec<TreePath>);

fn read_folders(root: &Root, extent: Extent<'_>, queue: &Mutex<Queue>, ready: &Condvar) -> Part {
    let mut found = (Vec::new(), Vec::new());
    let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if state.failure.is_some() {
            return found;
        }
        let Some(folder) = state.folders.pop() else {
            if state.busy == 0 {
                ready.notify_all();
                return found;
            }
            state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.busy += 1;
        drop(state);
        let below = read_folder(root, folder.as_ref(), extent, &mut found);
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
    (entries, special): &mut Part,
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
        let path = match folder {
            Some(folder) => folder.join(name),
            None => TreePath::from_bytes(name),
        }
        .map_err(io::Error::other)?;
        match stat.mode {
            None => special.push(path),
            Some(mode) => {
                if mode.kind() == FileKind::Directory {
                    below.push(path.clone());
                }
                entries.push((path, stat));
            }
        }
    }
    Ok(below)
}
