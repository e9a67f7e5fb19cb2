//! `AGENTS.md` and `CLAUDE.md`: a repository's instructions for agents, from its root down to a folder.

use std::io;
use std::path::Path;

use cleveragents_domain::TreePath;
use cleveragents_sandbox::Root;

use crate::scoped_file;

/// The names of the files, in the order in which they are read.
const FILES: [&[u8]; 2] = [b"AGENTS.md", b"CLAUDE.md"];

/// Content of a `CLAUDE.md` that only references `AGENTS.md`.
const POINTER: &str = "@AGENTS.md";

/// Maximum number of bytes read of one file.
pub const MAX_FILE_BYTES: usize = 32 << 10;
/// Maximum number of bytes read of all files together.
pub const MAX_TOTAL_BYTES: usize = 64 << 10;

/// The instructions of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Path of the file, from the root.
    pub path: String,
    /// Text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether the text is truncated.
    pub is_cut: bool,
}

/// Reads the instructions from the root of a repository down to a folder in it, root first. Unreadable files and links
/// out of the root are skipped.
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

/// Like [`instructions`], for a repository whose root is already open.
pub fn instructions_in(root: &Root, folder: Option<&TreePath>) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    let mut remaining = MAX_TOTAL_BYTES;
    let folders = std::iter::successors(folder.cloned(), TreePath::parent);
    let mut folders: Vec<Option<TreePath>> = folders.map(Some).collect();
    folders.push(None);
    let folders = folders.into_iter().rev();
    for (folder, name) in folders.flat_map(|folder| FILES.map(|name| (folder.clone(), name))) {
        let path = match folder {
            Some(folder) => folder.join(name),
            None => TreePath::from_bytes(name),
        };
        let Ok(path) = path else { continue };
        let Ok(Some(file)) = scoped_file::open(root, &path) else {
            continue;
        };
        let Ok((bytes, is_cut)) = scoped_file::read(file, MAX_FILE_BYTES.min(remaining)) else {
            continue;
        };
        let text = decode(&bytes, is_cut);
        // Many repositories have the same text under both names.
        let is_repeated = text.trim() == POINTER
            || instructions.last().is_some_and(|last: &Instruction| {
                last.text == text && folder_of(&last.path) == folder_of(&path.to_string())
            });
        if is_repeated {
            continue;
        }
        remaining -= bytes.len();
        if !text.trim().is_empty() || is_cut {
            instructions.push(Instruction {
                path: path.to_string(),
                text,
                is_cut,
            });
        }
    }
    instructions
}

/// The parent folder of a path; empty for the root.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Decodes bytes; an incomplete character at the end is dropped.
fn decode(bytes: &[u8], is_cut: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    if is_cut {
        text.trim_end_matches('\u{fffd}').to_owned()
    } else {
        text.into_owned()
    }
}
