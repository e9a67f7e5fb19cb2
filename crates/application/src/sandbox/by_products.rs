//! Separates intended changes from by-products of commands, such as build output and caches.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cleveragents_domain::{ChangeEntry, FileKind, FileState, SandboxState, TreePath};
use cleveragents_sandbox::apply::net_changes;
use cleveragents_sandbox::{Base, Change, Member, is_by_product};
use serde_json::Value;

use super::error::SandboxError;
use super::history::{MemberChanges, change_of};
use super::service::SandboxView;

/// Tools that write only files that their arguments name.
pub(crate) const FILE_TOOLS: &[&str] = &[
    "builtin/apply-patch",
    "builtin/file-write",
    "builtin/file-edit",
    "builtin/file-copy",
    "builtin/file-move",
    "builtin/dir-create",
];

/// Facts about a path from the whole history of its part.
#[derive(Default)]
struct PathHistory {
    /// Whether the path existed when the sandbox was created.
    is_original: bool,
    /// Whether a file tool wrote the path.
    is_written: bool,
}

/// The net changes of a part since a position, split into intended changes and by-products.
pub(super) fn split_changes(
    view: &SandboxView,
    member: &Member,
    entries: &[ChangeEntry],
    from: u64,
) -> Result<MemberChanges, SandboxError> {
    let mut paths: BTreeMap<TreePath, PathHistory> = BTreeMap::new();
    let mut recent = Vec::new();
    for entry in entries {
        let Some(change) = change_of(entry) else {
            continue;
        };
        let path_history = paths
            .entry(change.path.clone())
            .or_insert_with(|| PathHistory {
                is_original: change.before.is_some(),
                is_written: false,
            });
        let tool = entry.change.tool();
        path_history.is_written |= tool.is_some_and(|tool| FILE_TOOLS.contains(&tool));
        if entry.number.0 >= from {
            recent.push(change);
        }
    }
    let net = net_changes(recent);
    let ignored = ignored(view, member, &net, &paths)?;
    let exists = |path: &TreePath| {
        let in_copy = || {
            let root = member.work_root().ok()?;
            root.stat(path).ok().flatten()
        };
        paths.contains_key(path) || in_copy().is_some()
    };
    let is_left_out = |change: &Change| {
        if ignored.contains(&change.path) || member.is_in_dependencies(&change.path) {
            return true;
        }
        let path_history = &paths[&change.path];
        // A folder without a repository has no list of tracked files. A rewritten cache in such a folder
        // is a by-product, even if it existed before.
        let may_be_by_product =
            !path_history.is_original || (member.base == Base::Directory && change.after.is_some());
        may_be_by_product && !path_history.is_written && is_by_product(&change.path, exists)
    };
    let (left_out, mut changes): (Vec<Change>, Vec<Change>) =
        net.into_iter().partition(|change| is_left_out(change));
    let left_out = keep_needed_folders(&mut changes, left_out);
    let made_by_commands = changes
        .iter()
        .filter(|change| change.before.is_none() && !change.after.is_some_and(is_folder))
        .filter(|change| {
            let path_history = &paths[&change.path];
            !path_history.is_original && !path_history.is_written
        })
        .map(|change| change.path.clone())
        .collect();
    Ok(MemberChanges {
        member: member.clone(),
        changes,
        by_products: left_out.into_iter().map(|change| change.path).collect(),
        made_by_commands,
    })
}

fn is_folder(state: FileState) -> bool {
    state.kind() == FileKind::Directory
}

/// The new paths that git ignores, by the rules of the copy. After an apply removed the copy, the paths
/// come from the report of the apply.
fn ignored(
    view: &SandboxView,
    member: &Member,
    net: &[Change],
    paths: &BTreeMap<TreePath, PathHistory>,
) -> Result<HashSet<TreePath>, SandboxError> {
    if view.sandbox.state == SandboxState::Active {
        let new: Vec<TreePath> = net
            .iter()
            .filter(|change| change.after.is_some() && !paths[&change.path].is_original)
            .map(|change| change.path.clone())
            .collect();
        return Ok(member.ignored(&new)?);
    }
    let result = view.sandbox.result.as_deref().unwrap_or_default();
    let report: Value = serde_json::from_str(result).unwrap_or_default();
    let parts = report["parts"].as_array().into_iter().flatten();
    Ok(parts
        .filter(|part| part["alias"] == member.alias.as_str())
        .flat_map(|part| part["left_out"].as_array().into_iter().flatten())
        .filter_map(|path| path.as_str()?.parse().ok())
        .collect())
}

/// Moves folders that contain an intended change from the by-products to the changes, and new folders
/// that contain only by-products from the changes to the by-products, so that no empty folder is
/// applied.
fn keep_needed_folders(changes: &mut Vec<Change>, left_out: Vec<Change>) -> Vec<Change> {
    let ancestors = |changes: &[Change]| -> BTreeSet<TreePath> {
        let mut folders = BTreeSet::new();
        for change in changes {
            let mut parent = change.path.parent();
            while let Some(folder) = parent {
                parent = folder.parent();
                if !folders.insert(folder) {
                    break;
                }
            }
        }
        folders
    };
    let files: Vec<Change> = changes
        .iter()
        .filter(|change| !change.after.is_some_and(is_folder))
        .cloned()
        .collect();
    let needed = ancestors(&files);
    let emptied = ancestors(&left_out);
    let (needed_folders, mut left_out): (Vec<Change>, Vec<Change>) = left_out
        .into_iter()
        .partition(|change| needed.contains(&change.path));
    let is_empty_now = |change: &Change| {
        change.before.is_none()
            && change.after.is_some_and(is_folder)
            && emptied.contains(&change.path)
            && !needed.contains(&change.path)
    };
    left_out.extend(changes.extract_if(.., |change| is_empty_now(change)));
    changes.extend(needed_folders);
    changes.sort_by(|left, right| left.path.cmp(&right.path));
    left_out.sort_by(|left, right| left.path.cmp(&right.path));
    left_out
}
