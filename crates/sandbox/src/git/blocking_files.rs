//! Finds pipes and devices in place of the files of a git folder. Git would wait for a pipe forever, and reads some
//! devices without end. An unpacked archive can contain them, unlike a clone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::hint;

use crate::error::Error;
use crate::regular_file::{Links, read_regular};

/// Maximum size of the files that name another git folder, in bytes.
const MAX_POINTER_BYTES: u64 = 64 << 10;

/// Maximum depth of the inspected folders.
const MAX_DEPTH: usize = 64;

/// Folders in a git folder whose files git opens. The loose objects, which are many, are left out.
const INSPECTED: [&str; 9] = [
    "info",
    "objects/info",
    "objects/pack",
    "refs",
    "reftable",
    "logs",
    "worktrees",
    "modules",
    "sequencer",
];

/// Refuses the repository that contains `location` if git would wait for one of the files in its git folder. Accepts a
/// folder without a repository.
pub fn check_repository_files(location: &Path) -> Result<(), Error> {
    let refused = |place: &Path, reason: &str| Error::CannotSandbox {
        what: format!("`{}`", location.display()),
        reason: format!("`{}` {reason}", place.display()),
        hint: Some(hint!("remove it: `rm {}`", place.display())),
    };
    let blocked =
        |place: PathBuf| refused(&place, "is a pipe or device, and git would wait for it");
    let pointer =
        |place: &Path, key: &str| match read_regular(place, Links::Follow, MAX_POINTER_BYTES) {
            Ok(text) => Ok(text.and_then(|text| target(place, &text, key))),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(refused(place, "is not a short regular file"))
            }
            // Git reports the reason.
            Err(_) => Ok(None),
        };
    let Some(git_dir) = location.ancestors().find_map(|folder| {
        let inside = folder.join(".git");
        if fs::symlink_metadata(&inside).is_ok() {
            Some(inside)
        } else {
            is_bare(folder).then(|| folder.to_owned())
        }
    }) else {
        return Ok(());
    };
    let git_dir = if git_dir.is_dir() {
        git_dir
    } else {
        match pointer(&git_dir, "gitdir: ")? {
            Some(target) => target,
            None => return Ok(()),
        }
    };
    if let Some(place) = blocking_file(&git_dir) {
        return Err(blocked(place));
    }
    match pointer(&git_dir.join("commondir"), "")? {
        Some(common) => blocking_file(&common).map_or(Ok(()), |place| Err(blocked(place))),
        None => Ok(()),
    }
}

fn is_bare(folder: &Path) -> bool {
    folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
        && fs::symlink_metadata(folder.join("HEAD")).is_ok()
}

/// The folder that a file names after `key`, relative to the folder of the file.
fn target(place: &Path, text: &[u8], key: &str) -> Option<PathBuf> {
    let name = text.strip_prefix(key.as_bytes())?.trim_ascii_end();
    Some(place.parent()?.join(OsStr::from_bytes(name)))
}

/// A pipe or device among the files of a git folder that git opens.
fn blocking_file(git_dir: &Path) -> Option<PathBuf> {
    let top = entries(git_dir).find(|place| is_blocking(place));
    let mut inspected = INSPECTED.iter().map(|name| git_dir.join(name));
    top.or_else(|| inspected.find_map(|folder| blocking_below(&folder, 0)))
}

fn blocking_below(folder: &Path, depth: usize) -> Option<PathBuf> {
    if depth > MAX_DEPTH {
        return None;
    }
    entries(folder).find_map(|place| {
        let is_folder = fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir());
        if !is_folder {
            return is_blocking(&place).then_some(place);
        }
        // The objects of a submodule.
        let is_inspected = place.file_name() != Some(OsStr::new("objects"));
        is_inspected.then(|| blocking_below(&place, depth + 1))?
    })
}

/// The paths in a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// Whether a path is, or leads to, a pipe or device. Opening a socket fails at once.
fn is_blocking(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|found| {
        let kind = found.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    })
}
