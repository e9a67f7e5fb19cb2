//! Lists a directory tree in a sandbox part, using directory handles instead of paths.

use cleveragents_domain::{FileKind, FileMode, TreePath};

use super::paths::Target;
use crate::tool::{Call, Failure};

/// Maximum number of touched paths that a tool reports individually.
pub(super) const MAX_PATHS: usize = 10_000;

/// An entry of a directory tree.
#[derive(Debug, Clone)]
pub(super) struct TreeEntry {
    pub(super) path: TreePath,
    /// `None` for devices, sockets and pipes.
    pub(super) mode: Option<FileMode>,
}

impl TreeEntry {
    pub(super) fn is_directory(&self) -> bool {
        self.mode
            .is_some_and(|mode| mode.kind() == FileKind::Directory)
    }
}

/// Lists everything below a directory, parents before children. The directory itself is not included.
pub(super) fn list_tree(folder: &Target<'_>, call: &Call<'_>) -> Result<Vec<TreeEntry>, Failure> {
    let mut tree = Vec::new();
    let mut pending = vec![folder.path.clone()];
    while let Some(next) = pending.pop() {
        call.check_running()?;
        let entries = folder
            .root()
            .entries(Some(&next))
            .map_err(|error| folder.failed("reading", &error))?;
        for (name, stat) in entries {
            let path = next
                .join(&name)
                .map_err(|error| Failure::new(error.to_string()))?;
            let entry = TreeEntry {
                path,
                mode: stat.mode,
            };
            if entry.is_directory() {
                pending.push(entry.path.clone());
            }
            tree.push(entry);
        }
    }
    Ok(tree)
}
