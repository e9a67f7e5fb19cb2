//! Separates the changes that a user wants from by-products of the commands that ran.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cleveragents_domain::{ChangeEntry, FileKind, FileState, SandboxState, TreePath};
use cleveragents_sandbox::apply::net_changes;
use cleveragents_sandbox::{Base, Change, Member, is_by_product};
use serde_json::Value;

use super::error::SandboxError;
use super::history::{MemberChanges, change_of};
use super::service::SandboxView;

/// Tools that write files which the model names explicitly.
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
    /// Whether it existed when the sandbox was created.
    is_original: bool,
    /// Whether a file tool wrote it.
    is_written: bool,
}

/// The net changes of a part since a position, split into wanted changes and by-products.
pub(super) fn without(
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
        let known = paths
            .entry(change.path.clone())
            .or_insert_with(|| PathHistory {
                is_original: change.before.is_some(),
                is_written: false,
            });
        let tool = entry.change.tool();
        known.is_written |= tool.is_some_and(|tool| FILE_TOOLS.contains(&tool));
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
        if ignored.contains(&change.path) {
            return true;
        }
        let known = &paths[&change.path];
        // A folder without a repository has no list of tracked files: there a rewritten cache is a
        // by-product too.
        let may_be =
            !known.is_original || (member.base == Base::Directory && change.after.is_some());
        may_be && !known.is_written && is_by_product(&change.path, exists)
    };
    let (left_out, mut changes): (Vec<Change>, Vec<Change>) =
        net.into_iter().partition(|change| is_left_out(change));
    let left_out = keep_needed_folders(&mut changes, left_out);
    let made_by_commands = changes
        .iter()
        .filter(|change| change.before.is_none() && !change.after.is_some_and(is_folder))
        .filter(|change| {
            let known = &paths[&change.path];
            !known.is_original && !known.is_written
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

/// The new paths that git ignores: by the rules of the copy, or as recorded by the apply that removed
/// the copy.
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

/// Moves folders that contain a wanted change back to the changes, and removes new folders that
/// contain only by-products, so that no empty folder is applied.
fn keep_needed_folders(changes: &mut Vec<Change>, left_out: Vec<Change>) -> Vec<Change> {
    let ancestors = |changes: &[Change]| -> BTreeSet<TreePath> {
        let mut folders = BTreeSet::new();
        for change in changes {
            let mut near = change.path.parent();
            while let Some(folder) = near {
                near = folder.parent();
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
    let (back, mut left_out): (Vec<Change>, Vec<Change>) = left_out
        .into_iter()
        .partition(|change| needed.contains(&change.path));
    let is_empty_now = |change: &Change| {
        change.before.is_none()
            && change.after.is_some_and(is_folder)
            && emptied.contains(&change.path)
            && !needed.contains(&change.path)
    };
    left_out.extend(changes.extract_if(.., |change| is_empty_now(change)));
    changes.extend(back);
    changes.sort_by(|left, right| left.path.cmp(&right.path));
    left_out.sort_by(|left, right| left.path.cmp(&right.path));
    left_out
}
