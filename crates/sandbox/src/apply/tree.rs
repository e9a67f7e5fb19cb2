//! Plans the apply of changes to a directory tree of the user: compares each changed path with its current state.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cleveragents_domain::{FileKind, FileState, TreePath};

use super::conflict::{Conflict, conflict, current_side, reason};
use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::objects::Objects;
use crate::scan::{Extent, scan};
use crate::scoped_dir::Root;
use crate::state::read_state;

/// Changes to a real tree: path, current state, new state.
pub(crate) type TreeChanges = Vec<(TreePath, Option<FileState>, Option<FileState>)>;

/// Folders whose content is managed by tools; changes in them are never applied.
const PROTECTED: [&[u8]; 3] = [b".git", b"node_modules", b"__pycache__"];

/// Whether a path of a plain directory is never applied.
pub(crate) fn is_protected(path: &TreePath) -> bool {
    path.names().any(|name| PROTECTED.contains(&name))
}

/// Compares changes with the real tree. Returns the changes to make and the conflicts. `cleared` lists paths that other
/// changes remove.
pub(crate) fn plan_tree(
    alias: &str,
    root: &Root,
    changes: &[&Change],
    cleared: &[TreePath],
    objects: &Objects,
) -> Result<(TreeChanges, Vec<Conflict>), Error> {
    let mut planned = Vec::new();
    let mut conflicts = Vec::new();
    for change in changes {
        let place = root.path().join(change.path.as_path());
        let current = match read_state(root, &change.path, None) {
            Ok(current) => current.map(|(state, _)| state),
            Err(source) => {
                conflicts.push(conflict(
                    alias,
                    root,
                    change,
                    None,
                    source.to_string(),
                    objects,
                ));
                continue;
            }
        };
        match decide(change, current) {
            Decision::Nothing => {}
            Decision::Make(after) => planned.push((change.path.clone(), current, after)),
            Decision::Conflict(reason) => {
                let yours = current_side(root, &change.path, current).during("reading", &place)?;
                conflicts.push(conflict(
                    alias,
                    root,
                    change,
                    yours,
                    reason.to_owned(),
                    objects,
                ));
            }
        }
    }
    let removed: BTreeSet<&TreePath> = planned
        .iter()
        .filter(|(_, _, after)| after.is_none_or(|after| after.kind() == FileKind::Directory))
        .map(|(path, _, _)| path)
        .chain(cleared)
        .collect();
    let by_path: HashMap<&TreePath, &Change> = changes
        .iter()
        .map(|change| (&change.path, *change))
        .collect();
    let mut obstacles = Obstacles::new(root, &removed);
    for (path, _, after) in &planned {
        let Some(reason) = obstacles.blocking_reason(path, *after)? else {
            continue;
        };
        if let Some(change) = by_path.get(path) {
            conflicts.push(conflict(alias, root, change, None, reason, objects));
        }
    }
    Ok((planned, conflicts))
}

/// Effect of a change on a path whose current state may differ from the state before the change.
pub(crate) enum Decision {
    Nothing,
    Make(Option<FileState>),
    Conflict(&'static str),
}

pub(crate) fn decide(change: &Change, current: Option<FileState>) -> Decision {
    if current == change.after {
        return Decision::Nothing;
    }
    if current == change.before {
        return Decision::Make(change.after);
    }
    match (change.before, change.after, current) {
        // Folders have no content to compare, and different permissions are no conflict.
        (_, Some(after), Some(current))
            if after.kind() == FileKind::Directory && current.kind() == FileKind::Directory =>
        {
            Decision::Nothing
        }
        (Some(before), None, None) if before.kind() == FileKind::Directory => Decision::Nothing,
        // The user changed only the permissions, the sandbox only the content: combine both.
        (Some(before), Some(after), Some(current))
            if before.same_content(&current) && before.mode == after.mode =>
        {
            let mode = if current.same_content(&after) {
                current.mode
            } else {
                current.mode.without_special_bits()
            };
            Decision::Make(Some(FileState { mode, ..after }))
        }
        // The user changed only the content, the sandbox only the permissions.
        (Some(before), Some(after), Some(current))
            if before.same_content(&after) && before.mode == current.mode =>
        {
            Decision::Make(Some(FileState {
                mode: after.mode,
                ..current
            }))
        }
        (None, _, Some(_)) => Decision::Conflict(reason::CREATED),
        (_, _, None) => Decision::Conflict(reason::REMOVED),
        _ => Decision::Conflict(reason::CHANGED),
    }
}

/// Finds other paths that block a change: a parent that is not a folder, or other files in a folder that a file
/// replaces.
pub(crate) struct Obstacles<'a> {
    root: &'a Root,
    /// Paths that are removed or become folders.
    removed: &'a BTreeSet<&'a TreePath>,
    folders: HashMap<TreePath, FolderAccess>,
}

/// Whether a folder can receive new paths.
#[derive(Debug, Clone)]
enum FolderAccess {
    /// The folder exists.
    Open,
    /// The folder does not exist, or the apply removes the file in its place.
    Absent,
    Blocked(String),
}

impl<'a> Obstacles<'a> {
    pub(crate) fn new(root: &'a Root, removed: &'a BTreeSet<&'a TreePath>) -> Self {
        Self {
            root,
            removed,
            folders: HashMap::new(),
        }
    }

    /// Reason why a path cannot change to the state `after`.
    pub(crate) fn blocking_reason(
        &mut self,
        path: &TreePath,
        after: Option<FileState>,
    ) -> Result<Option<String>, Error> {
        let Some(after) = after else { return Ok(None) };
        match self.access_to(path.parent())? {
            FolderAccess::Blocked(reason) => return Ok(Some(reason)),
            FolderAccess::Absent => return Ok(None),
            FolderAccess::Open => {}
        }
        let is_folder_now = self.is_folder(path)?.unwrap_or(false);
        if after.kind() == FileKind::Directory || !is_folder_now {
            return Ok(None);
        }
        // A file replaces a folder: this apply must remove all content of the folder.
        let name = path.names().next().unwrap_or_default();
        let found = scan(
            self.root,
            Extent {
                only: Some(name),
                without: None,
            },
        )
        .during("walking", self.root.path())?;
        let foreign = found
            .entries
            .keys()
            .find(|inner| *inner != path && inner.is_within(path) && !self.removed.contains(inner));
        Ok(foreign.map(reason::folder_holds))
    }

    fn access_to(&mut self, folder: Option<TreePath>) -> Result<FolderAccess, Error> {
        let Some(folder) = folder else {
            return Ok(FolderAccess::Open);
        };
        if let Some(access) = self.folders.get(&folder) {
            return Ok(access.clone());
        }
        let access = match self.access_to(folder.parent())? {
            FolderAccess::Open => match self.is_folder(&folder)? {
                Some(true) => FolderAccess::Open,
                None => FolderAccess::Absent,
                Some(false) if self.removed.contains(&folder) => FolderAccess::Absent,
                Some(false) => FolderAccess::Blocked(reason::not_a_folder(&folder)),
            },
            other => other,
        };
        self.folders.insert(folder, access.clone());
        Ok(access)
    }

    /// Whether a path is a folder; `None` if it does not exist.
    fn is_folder(&self, path: &TreePath) -> Result<Option<bool>, Error> {
        let place = self.root.path().join(path.as_path());
        let stat = self.root.stat(path).during("reading", &place)?;
        Ok(stat.map(|stat| {
            stat.mode
                .is_some_and(|mode| mode.kind() == FileKind::Directory)
        }))
    }
}

/// Net change of each path over a history.
pub fn net_changes(history: impl IntoIterator<Item = Change>) -> Vec<Change> {
    let mut net: BTreeMap<TreePath, Change> = BTreeMap::new();
    for change in history {
        match net.get_mut(&change.path) {
            Some(net_change) => net_change.after = change.after,
            None => {
                net.insert(change.path.clone(), change);
            }
        }
    }
    net.into_values()
        .filter(|change| change.before != change.after)
        .collect()
}
