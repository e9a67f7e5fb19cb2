//! `AGENTS.md`: what a repository asks of whoever works on its code, from its root down to a folder.

use std::io;
use std::path::Path;

use cleveragents_domain::TreePath;
use cleveragents_sandbox::Root;

use crate::inside;

/// The name of the file.
const FILE: &[u8] = b"AGENTS.md";

/// So much of one file is read, and of all together.
pub const ONE: usize = 32 << 10;
/// So much of all files together is read.
pub const ALL: usize = 64 << 10;

/// The instructions of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The file, from the root.
    pub path: String,
    /// What it says; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether there is more of it than was read.
    pub is_cut: bool,
}

/// The instructions from the root of a repository down to a folder in it, the root's first. A file
/// that cannot be read, or is a link out of the root, is left out.
pub fn instructions(root: &Path, folder: &Path) -> io::Result<Vec<Instruction>> {
    let inner = folder.strip_prefix(root).map_err(|_| {
        let message = format!("`{}` is not in `{}`", folder.display(), root.display());
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })?;
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(inner.as_os_str());
    let folder = if bytes.is_empty() {
        None
    } else {
        let path = TreePath::from_bytes(bytes);
        Some(path.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?)
    };
    Ok(instructions_in(&Root::open(root)?, folder.as_ref()))
}

/// The same beneath a folder that is open already.
pub fn instructions_in(root: &Root, folder: Option<&TreePath>) -> Vec<Instruction> {
    let mut found = Vec::new();
    let mut left = ALL;
    let folders = std::iter::successors(folder.cloned(), TreePath::parent);
    let mut folders: Vec<Option<TreePath>> = folders.map(Some).collect();
    folders.push(None);
    for folder in folders.into_iter().rev() {
        let path = match folder {
            Some(folder) => folder.join(FILE),
            None => TreePath::from_bytes(FILE),
        };
        let Ok(path) = path else { continue };
        let Ok(Some(file)) = inside::open(root, &path) else {
            continue;
        };
        let Ok((bytes, is_cut)) = inside::read(file, ONE.min(left)) else {
            continue;
        };
        left -= bytes.len();
        let text = whole_letters(&bytes, is_cut);
        if !text.trim().is_empty() || is_cut {
            found.push(Instruction {
                path: path.to_string(),
                text,
                is_cut,
            });
        }
    }
    found
}

/// The text of bytes; a letter that was cut in two at the end is left out.
fn whole_letters(bytes: &[u8], is_cut: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    if is_cut {
        text.trim_end_matches('\u{fffd}').to_owned()
    } else {
        text.into_owned()
    }
}
