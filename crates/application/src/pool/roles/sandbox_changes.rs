//! Reads the changed files of a sandbox with their contents, and identifies the state of its changes.

use std::fmt::Write as _;

use cleveragents_domain::{ContentHash, FileKind, FileState};
use cleveragents_sandbox::{Change, Member};

use super::change_check::FileVersions;
use crate::plan::{ChangeStatus, FileChange};
use crate::sandbox::{SandboxDiff, SandboxError};
use crate::tool::SandboxWorkspace;

/// Maximum size of a file whose content is compared, in bytes. A larger file counts as binary.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The changed files of a sandbox since it was created, without folders and by-products.
pub(crate) fn changed_files(
    workspace: &SandboxWorkspace,
) -> Result<Vec<FileVersions>, SandboxError> {
    let (_view, diff) = workspace.net_diff()?;
    let mut files = Vec::new();
    let is_single = diff.parts.len() == 1;
    for part in &diff.parts {
        for change in part.changes.iter().filter(|change| !is_folder(change)) {
            let path = if is_single {
                change.path.to_string()
            } else {
                format!("{}/{}", part.member.alias, change.path)
            };
            files.push(changed_file(&part.member, change, path)?);
        }
    }
    Ok(files)
}

fn is_folder(change: &Change) -> bool {
    let state = change.after.or(change.before);
    state.is_some_and(|state| state.kind() == FileKind::Directory)
}

fn changed_file(
    member: &Member,
    change: &Change,
    path: String,
) -> Result<FileVersions, SandboxError> {
    let mut is_binary = false;
    let mut text = |state: Option<FileState>| -> Result<Option<String>, SandboxError> {
        let Some(state) = state else { return Ok(None) };
        let content = if state.size <= MAX_FILE_BYTES {
            member.file_content(&state)?
        } else {
            None
        };
        let text = content.and_then(|bytes| String::from_utf8(bytes).ok());
        is_binary |= text.is_none();
        Ok(text)
    };
    let (before, after) = (text(change.before)?, text(change.after)?);
    Ok(FileVersions {
        is_test: is_test(&path),
        path,
        before,
        after,
        is_binary,
    })
}

/// True if the name or the folder of a path is that of a test.
pub(crate) fn is_test(path: &str) -> bool {
    let change = FileChange {
        part: String::new(),
        path: path.to_owned(),
        status: ChangeStatus::Modified,
        is_folder: false,
        size: 0,
        insertions: None,
        deletions: None,
        hunks: Vec::new(),
        is_made_by_command: false,
    };
    change.is_test()
}

/// Identifies the state of the changes of a sandbox: two sandboxes with the same base and the same changes have the same
/// state. A verdict or a gate counts only for the state that it was made for.
pub(crate) fn change_state(diff: &SandboxDiff) -> String {
    let mut text = String::new();
    for part in &diff.parts {
        let base = match &part.member.base {
            cleveragents_sandbox::Base::Git(base) => base.start().to_owned(),
            _ => String::new(),
        };
        let _written = writeln!(text, "part {} {base}", part.member.alias);
        for change in &part.changes {
            let after = change.after.map_or_else(
                || "deleted".to_owned(),
                |state| format!("{} {:?}", state.hash, state.mode),
            );
            let _written = writeln!(text, "{} {after}", change.path);
        }
    }
    ContentHash::of_bytes(text.as_bytes()).hex()
}
