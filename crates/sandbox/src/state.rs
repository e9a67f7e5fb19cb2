//! What a path of a tree holds right now, read from the tree itself.

use std::io;

use cleveragents_domain::{ContentHash, FileKind, FileState, TreePath};

use crate::beneath::{Root, Stat, stat_of};
use crate::objects::{LARGEST_KEPT, Objects, hash_of};
use crate::readable::reading;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 5;

/// The error of a path that no state can describe.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is a device, socket or pipe")]
struct SpecialFile(TreePath);

/// What [`read_state`] finds in a copy of ours. A device, socket or pipe counts as nothing there: no
/// history holds it, and restoring the path replaces it. A file that is too large to be kept is not read.
pub(crate) fn read_own_state(
    root: &Root,
    path: &TreePath,
    objects: Option<&mut Objects>,
) -> io::Result<Option<(FileState, Stat)>> {
    if let Some(stat) = root.stat(path)?
        && let Some(mode) = stat.mode
        && mode.kind() == FileKind::File
        && stat.size > LARGEST_KEPT
    {
        let (hash, size) = (unkept(path, &stat), stat.size);
        return Ok(Some((FileState { hash, size, mode }, stat)));
    }
    match read_state(root, path, objects) {
        Err(error)
            if error
                .get_ref()
                .is_some_and(<dyn std::error::Error + Send + Sync>::is::<SpecialFile>) =>
        {
            Ok(None)
        }
        other => other,
    }
}

/// Reads what is at a path, together with the system's description of exactly that. `None` when
/// nothing is there. With `objects` the content is kept as well.
pub(crate) fn read_state(
    root: &Root,
    path: &TreePath,
    mut objects: Option<&mut Objects>,
) -> io::Result<Option<(FileState, Stat)>> {
    for _ in 0..ATTEMPTS {
        let Some(stat) = root.stat(path)? else {
            return Ok(None);
        };
        let Some(mode) = stat.mode else {
            return Err(io::Error::other(SpecialFile(path.clone())));
        };
        let content = match mode.kind() {
            FileKind::Directory => Some((ContentHash::of(b""), 0)),
            FileKind::Symlink => read_link(root, path, objects.as_deref_mut())?,
            FileKind::File => read_file(root, path, &stat, objects.as_deref_mut())?,
        };
        if let Some((hash, size)) = content {
            return Ok(Some((FileState { hash, size, mode }, stat)));
        }
    }
    Err(io::Error::other(format!("`{path}` changes all the time")))
}

type Content = Option<(ContentHash, u64)>;

fn read_link(root: &Root, path: &TreePath, objects: Option<&mut Objects>) -> io::Result<Content> {
    let target = match root.read_link(path) {
        Ok(target) => target,
        Err(error) if swapped(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let hash = match objects {
        Some(objects) => objects.put(&target)?,
        None => ContentHash::of(&target),
    };
    Ok(Some((hash, target.len() as u64)))
}

fn read_file(
    root: &Root,
    path: &TreePath,
    seen: &Stat,
    objects: Option<&mut Objects>,
) -> io::Result<Content> {
    let mut file = match reading(root, Some(path), || root.open_file(path)) {
        Ok(file) => file,
        Err(error) if swapped(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_as_seen = |file: &std::fs::File| -> io::Result<bool> {
        Ok(stat_of(&rustix::fs::fstat(file)?) == *seen)
    };
    if !is_as_seen(&file)? {
        return Ok(None);
    }
    let content = match objects {
        Some(_) if seen.size > LARGEST_KEPT => Some((unkept(path, seen), seen.size)),
        Some(objects) => objects.put_file(&mut file, seen.size)?,
        None => Some(hash_of(&mut file)?),
    };
    Ok(if is_as_seen(&file)? { content } else { None })
}

/// What stands for the content of a file that is too large to be kept: a hash that no object answers to, and
/// another one whenever the file changes.
fn unkept(path: &TreePath, seen: &Stat) -> ContentHash {
    let name = format!("too large {path} {seen:?}");
    ContentHash::of_parts([b"cleveragents\0".as_slice(), name.as_bytes()])
}

/// Whether the path became something else between two calls.
fn swapped(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NOTDIR | Errno::NXIO)
    )
}
