//! Opens files below a folder without ever leaving it.
//!
//! Links in the middle of a path are not followed ([`Root`]). If the last name is a link to a file
//! below the same folder, that file is opened instead.

use std::fs::File;
use std::io::{self, Read as _};

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::Root;

/// Maximum number of consecutive links.
const MAX_LINKS: usize = 8;

/// Opens a regular file below a folder; `None` when it does not exist.
pub(crate) fn open(root: &Root, path: &TreePath) -> io::Result<Option<File>> {
    let mut path = path.clone();
    for _ in 0..MAX_LINKS {
        let Some(stat) = root.stat(&path)? else {
            return Ok(None);
        };
        match stat.mode.map(FileMode::kind) {
            Some(FileKind::File) => return root.open_file(&path).map(Some),
            Some(FileKind::Symlink) => path = target(root, &path)?,
            Some(FileKind::Directory) => return Err(refused("it is a folder")),
            None => return Err(refused("it is a device, socket or pipe")),
        }
    }
    Err(refused("it is a symlink loop"))
}

/// Reads up to `max_bytes` bytes of a file; also returns whether the file has more bytes.
pub(crate) fn read(mut file: File, max_bytes: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    let has_more = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    Ok((bytes, has_more))
}

/// Target of a link, if it is below the same folder.
fn target(root: &Root, path: &TreePath) -> io::Result<TreePath> {
    let link = root.read_link(path)?;
    if link.starts_with(b"/") {
        return Err(refused("it is a symlink that points outside the folder"));
    }
    let mut names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    names.pop();
    for name in link.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if names.pop().is_none() {
                    return Err(refused("it is a symlink that points outside the folder"));
                }
            }
            name => names.push(name),
        }
    }
    TreePath::from_bytes(names.join(&b'/')).map_err(|error| refused(&error.to_string()))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
