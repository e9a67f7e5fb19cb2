//! Walking everything beneath a folder of a part, through opened folders only.

use cleveragents_domain::{FileKind, FileMode, TreePath};

use super::paths::Target;
use crate::tool::{Call, Failure};

/// A tool that would touch more paths than this does not list them.
pub(super) const MOST_PATHS: usize = 10_000;

/// Something found on the way.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) path: TreePath,
    /// `None` for devices, sockets and pipes.
    pub(super) mode: Option<FileMode>,
}

impl Found {
    pub(super) fn is_directory(&self) -> bool {
        self.mode
            .is_some_and(|mode| mode.kind() == FileKind::Directory)
    }
}

/// Everything beneath a folder, folders before what they hold. The folder itself is not among it.
pub(super) fn beneath(folder: &Target<'_>, call: &Call<'_>) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![folder.path.clone()];
    while let Some(next) = open.pop() {
        call.keep_going()?;
        let entries = folder
            .root()
            .entries(Some(&next))
            .map_err(|error| folder.failed("reading", &error))?;
        for (name, stat) in entries {
            let path = next
                .join(&name)
                .map_err(|error| Failure::new(error.to_string()))?;
            let entry = Found {
                path,
                mode: stat.mode,
            };
            if entry.is_directory() {
                open.push(entry.path.clone());
            }
            found.push(entry);
        }
    }
    Ok(found)
}
