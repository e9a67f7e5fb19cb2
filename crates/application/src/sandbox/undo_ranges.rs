//! Undoing parts of a history: the changes of some ranges, while later changes of other paths stay.

use std::collections::BTreeMap;
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
    /// Paths in the ranges that were changed again after a range, each with its part and the position of that change.
    /// As long as there are any, the ranges cannot be undone on their own.
    pub(crate) changed_later: Vec<(String, TreePath, u64)>,
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
    /// before the first of these changes.
    pub(crate) fn ranges_to_undo(
        &self,
        open: &mut OpenSandbox,
        ranges: &[Range<u64>],
    ) -> Result<RangesToUndo, SandboxError> {
        self.capture(open, None)?;
        let mut first: BTreeMap<(String, TreePath), Option<FileState>> = BTreeMap::new();
        let mut undo = RangesToUndo::default();
        for entry in self.entries(open, 0)? {
            let Some(change) = change_of(&entry) else {
                continue;
            };
            let alias = entry.change.resource().to_owned();
            let key = (alias, change.path.clone());
            if ranges.iter().any(|range| range.contains(&entry.number.0)) {
                first.entry(key).or_insert(change.before);
            } else if first.contains_key(&key) {
                undo.changed_later.push((key.0, key.1, entry.number.0));
            }
        }
        for ((alias, path), state) in first {
            undo.targets
                .targets
                .entry(alias)
                .or_insert_with(MergeTargets::new)
                .insert(path, state);
        }
        Ok(undo)
    }
}
