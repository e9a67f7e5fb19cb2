//! Current state of a path, read from the tree itself.

use std::io;

use cleveragents_domain::{ContentHash, FileKind, FileState, TreePath};

use crate::objects::{MAX_CONTENT_BYTES, Objects, hash_of};
use crate::readable::reading;
use crate::scoped_dir::{Root, Stat, stat_of};

/// Maximum number of attempts to read a file that changes while it is read.
const MAX_READS: usize = 5;

/// Error for a path that no state can describe.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is a device, socket or pipe")]
struct SpecialFile(TreePath);

/// [`read_state`] for one of the program's own copies. A device, socket or pipe counts as absent, because no history
/// contains it; restoring the path replaces it. Does not read a file that is too large to be stored.
pub(crate) fn read_own_state(
    root: &Root,
    path: &TreePath,
    objects: Option<&mut Objects>,
) -> io::Result<Option<(FileState, Stat)>> {
    if let Some(stat) = root.stat(path)?
        && let Some(mode) = stat.mode
        && mode.kind() == FileKind::File
        && stat.size > MAX_CONTENT_BYTES
    {
        let (hash, size) = (placeholder_hash(path, &stat), stat.size);
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

/// Reads the state of a path, with the metadata of exactly that state; `None` if it does not exist. Stores the content
/// in `objects`, if given.
pub(crate) fn read_state(
    root: &Root,
    path: &TreePath,
    mut objects: Option<&mut Objects>,
) -> io::Result<Option<(FileState, Stat)>> {
    for _ in 0..MAX_READS {
        let Some(stat) = root.stat(path)? else {
            return Ok(None);
        };
        let Some(mode) = stat.mode else {
            return Err(io::Error::other(SpecialFile(path.clone())));
        };
        let content = match mode.kind() {
            FileKind::Directory => Some((ContentHash::of_bytes(b""), 0)),
            FileKind::Symlink => read_link(root, path, objects.as_deref_mut())?,
            FileKind::File => read_file(root, path, &stat, objects.as_deref_mut())?,
        };
        if let Some((hash, size)) = content {
            return Ok(Some((FileState { hash, size, mode }, stat)));
        }
    }
    Err(io::Error::other(format!("`{path}` keeps changing")))
}

type Content = Option<(ContentHash, u64)>;

fn read_link(root: &Root, path: &TreePath, objects: Option<&mut Objects>) -> io::Result<Content> {
    let target = match root.read_link(path) {
        Ok(target) => target,
        Err(error) if is_replaced_path(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let hash = match objects {
        Some(objects) => objects.put(&target)?,
        None => ContentHash::of_bytes(&target),
    };
    Ok(Some((hash, target.len() as u64)))
}

fn read_file(
    root: &Root,
    path: &TreePath,
    expected: &Stat,
    objects: Option<&mut Objects>,
) -> io::Result<Content> {
    let mut file = match reading(root, Some(path), || root.open_file(path)) {
        Ok(file) => file,
        Err(error) if is_replaced_path(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_unchanged = |file: &std::fs::File| -> io::Result<bool> {
        Ok(stat_of(&rustix::fs::fstat(file)?) == *expected)
    };
    if !is_unchanged(&file)? {
        return Ok(None);
    }
    let content = match objects {
        Some(_) if expected.size > MAX_CONTENT_BYTES => {
            Some((placeholder_hash(path, expected), expected.size))
        }
        Some(objects) => objects.put_file(&mut file, expected.size)?,
        None => Some(hash_of(&mut file)?),
    };
    Ok(if is_unchanged(&file)? { content } else { None })
}

/// Placeholder for the content of a file that is too large to be stored: a hash that matches no object and changes
/// whenever the file changes.
fn placeholder_hash(path: &TreePath, stat: &Stat) -> ContentHash {
    let name = format!("too large {path} {stat:?}");
    ContentHash::of_parts([b"cleveragents\0".as_slice(), name.as_bytes()])
}

/// Whether the error means that the path was replaced between two calls.
fn is_replaced_path(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NOTDIR | Errno::NXIO)
    )
}
