//! Undoing parts of a history: the changes of some ranges, while later changes of other paths stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cleveragents_domain::{FileState, TreePath};
use cleveragents_sandbox::MergeTargets;

use super::error::SandboxError;
use super::fork::ComputedMerge;
use super::history::change_of;
use super::service::{OpenSandbox, SandboxService};

/// The states that undo ranges of a history.
#[derive(Debug, Default)]
pub(crate) struct RangesToUndo {
    /// The states to write.
    pub(crate) targets: ComputedMerge,
    /// Later changes of paths in the ranges, outside the ranges.
    pub(crate) changed_later: Vec<LaterChange>,
}

/// A change of a path after a range that changed it too.
#[derive(Debug)]
pub(crate) struct LaterChange {
    /// Part of the sandbox.
    pub(crate) alias: String,
    pub(crate) path: TreePath,
    /// Position of the change in the history.
    pub(crate) position: u64,
    /// Whether the path is now as the ranges left it, for example because a rollback was undone.
    pub(crate) is_reverted: bool,
}

impl SandboxService {
    /// The states of all paths that changed since a position of the history, at that position.
    pub(crate) fn states_at(
        &self,
        open: &mut OpenSandbox,
        position: u64,
    ) -> Result<ComputedMerge, SandboxError> {
        self.capture(open, None)?;
        let mut states = ComputedMerge::default();
        for (alias, change) in self.all_net_changes_since(open, position)? {
            states
                .targets
                .entry(alias)
                .or_insert_with(MergeTargets::new)
                .insert(change.path, change.before);
        }
        Ok(states)
    }

    /// Computes the states that undo ranges of the history of a sandbox: each path that a range changed gets its state
    /// before the first of these changes. A folder that a range created stays if something outside the ranges is in it.
    pub(crate) fn ranges_to_undo(
        &self,
        open: &mut OpenSandbox,
        ranges: &[Range<u64>],
    ) -> Result<RangesToUndo, SandboxError> {
        self.capture(open, None)?;
        let mut first: BTreeMap<(String, TreePath), Option<FileState>> = BTreeMap::new();
        let mut last = BTreeMap::new();
        let mut current = BTreeMap::new();
        let mut undo = RangesToUndo::default();
        for entry in self.entries(open, 0)? {
            let Some(change) = change_of(&entry) else {
                continue;
            };
            let alias = entry.change.resource().to_owned();
            let key = (alias, change.path.clone());
            if ranges.iter().any(|range| range.contains(&entry.number.0)) {
                first.entry(key.clone()).or_insert(change.before);
                last.insert(key.clone(), change.after);
            } else if first.contains_key(&key) {
                undo.changed_later.push(LaterChange {
                    alias: key.0.clone(),
                    path: key.1.clone(),
                    position: entry.number.0,
                    is_reverted: false,
                });
            }
            current.insert(key, change.after);
        }
        for later in &mut undo.changed_later {
            let key = (later.alias.clone(), later.path.clone());
            later.is_reverted = last.get(&key) == current.get(&key);
        }
        let removed: BTreeSet<(String, TreePath)> = first
            .iter()
            .filter(|(_, state)| state.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        // The paths that remain, which includes those that kept parts of the history created in a folder of a range.
        let remains: Vec<&(String, TreePath)> = current
            .iter()
            .filter(|(key, state)| state.is_some() && !removed.contains(key))
            .map(|(key, _)| key)
            .collect();
        let has_remaining = |alias: &str, folder: &TreePath| {
            remains.iter().any(|(other, path)| {
                let below = path.as_bytes().strip_prefix(folder.as_bytes());
                other == alias && below.is_some_and(|rest| rest.first() == Some(&b'/'))
            })
        };
        for ((alias, path), state) in first {
            if state.is_none() && has_remaining(&alias, &path) {
                continue;
            }
            undo.targets
                .targets
                .entry(alias)
                .or_insert_with(MergeTargets::new)
                .insert(path, state);
        }
        Ok(undo)
    }
}
