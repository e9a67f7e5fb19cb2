//! Rollback to a checkpoint, and redo.

use std::collections::BTreeMap;

use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, FileState, TreePath};
use cleveragents_sandbox::{Change, Member};
use cleveragents_store::sandboxes;

use super::error::SandboxError;
use super::history::{BY_REDO, BY_ROLLBACK};
use super::service::{OpenSandbox, SandboxService};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The last checkpoint whose state differs from the current one.
    Previous,
    /// A checkpoint by number or label.
    Checkpoint(String),
}

/// Result of a rollback or redo.
#[derive(Debug)]
pub struct RolledBack {
    /// Checkpoint that was restored.
    pub checkpoint: Checkpoint,
    /// Checkpoint of the state before the rollback; `None` for a redo.
    pub before: Option<CheckpointNumber>,
    /// Each changed path with the alias of its part.
    pub changes: Vec<(String, Change)>,
}

/// A move to another position of the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryMove {
    /// Target position.
    pub(super) to: u64,
    /// Tool name of the history entries that the move records.
    pub(super) by: &'static str,
    /// If set, a checkpoint of the state before the move is created; its `target` is this checkpoint.
    pub(super) keeps: Option<CheckpointNumber>,
    /// For a redo: the checkpoint that the undone rollback created.
    pub(super) takes_back: Option<CheckpointNumber>,
}

/// Result of a move to another position.
#[derive(Debug)]
pub(super) struct RestoreResult {
    /// Checkpoint of the state before the move, if one was requested.
    before: Option<CheckpointNumber>,
    /// Each changed path with the alias of its part.
    pub(super) changes: Vec<(String, Change)>,
}

impl SandboxService {
    /// Rolls the sandbox back to a checkpoint. First creates a checkpoint of the current state, for a redo.
    pub fn rollback(
        &self,
        open: &mut OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let checkpoint = self.choose(open, target)?;
        let restore = HistoryMove {
            to: checkpoint.position,
            by: BY_ROLLBACK,
            keeps: Some(checkpoint.number),
            takes_back: None,
        };
        let RestoreResult { before, changes } = self.go_to(open, restore)?;
        tracing::info!(
            sandbox = %open.view.sandbox.id, checkpoint = checkpoint.number.0, changes = changes.len(),
            "sandbox rolled back"
        );
        Ok(RolledBack {
            checkpoint,
            before,
            changes,
        })
    }

    /// Returns the changes that a rollback would make.
    pub fn rollback_preview(
        &self,
        open: &mut OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let checkpoint = self.choose(open, target)?;
        let changes = self
            .all_net_changes_since(open, checkpoint.position)?
            .into_iter();
        let changes = changes
            .map(|(alias, change)| {
                let back = Change {
                    path: change.path,
                    before: change.after,
                    after: change.before,
                };
                (alias, back)
            })
            .collect();
        Ok(RolledBack {
            checkpoint,
            before: None,
            changes,
        })
    }

    /// Undoes the last rollback.
    pub fn redo(&self, open: &mut OpenSandbox) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let Some(checkpoint) = self.redoable(open)? else {
            return Err(SandboxError::NothingToRedo(open.view.sandbox.name.clone()));
        };
        let restore = HistoryMove {
            to: checkpoint.position,
            by: BY_REDO,
            keeps: None,
            takes_back: Some(checkpoint.number),
        };
        let changes = self.go_to(open, restore)?.changes;
        Ok(RolledBack {
            checkpoint,
            before: None,
            changes,
        })
    }

    /// The checkpoint of the state before the last rollback; `None` if the sandbox changed since.
    pub(super) fn redoable(&self, open: &OpenSandbox) -> Result<Option<Checkpoint>, SandboxError> {
        let last = open.view.checkpoints.iter().rfind(|checkpoint| {
            checkpoint.reason == CheckpointReason::BeforeRollback && !checkpoint.undone
        });
        let Some(last) = last else { return Ok(None) };
        let is_rollback_or_redo = |tool: Option<&str>| matches!(tool, Some(BY_ROLLBACK | BY_REDO));
        let entries = self.entries(open, last.position)?;
        Ok(entries
            .iter()
            .all(|entry| is_rollback_or_redo(entry.change.tool()))
            .then(|| last.clone()))
    }

    /// Looks up a checkpoint by number or label. A number takes precedence over a label, a label of a user over a label
    /// of a command, and a newer checkpoint over an older one with the same label.
    pub fn checkpoint_named(
        &self,
        open: &OpenSandbox,
        reference: &str,
    ) -> Result<Checkpoint, SandboxError> {
        let rank = |checkpoint: &&Checkpoint| {
            if checkpoint.number.to_string() == reference {
                Some(2)
            } else if checkpoint.label.as_deref() == Some(reference) {
                Some(u8::from(checkpoint.reason == CheckpointReason::Manual))
            } else {
                None
            }
        };
        let checkpoints = open.view.checkpoints.iter();
        let checkpoint = checkpoints
            .filter(|checkpoint| rank(checkpoint).is_some())
            .max_by_key(|checkpoint| (rank(checkpoint), checkpoint.number));
        checkpoint
            .cloned()
            .ok_or_else(|| SandboxError::CheckpointNotFound {
                name: open.view.sandbox.name.clone(),
                checkpoint: reference.to_owned(),
            })
    }

    fn choose(
        &self,
        open: &OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<Checkpoint, SandboxError> {
        let view = &open.view;
        match target {
            RollbackTarget::Checkpoint(reference) => self.checkpoint_named(open, reference),
            RollbackTarget::Previous => {
                // After a rollback, the current state equals its target, so only older checkpoints qualify.
                let reached = self.redoable(open)?.and_then(|before| before.target);
                for checkpoint in view.checkpoints.iter().rev() {
                    if checkpoint.reason == CheckpointReason::BeforeRollback
                        || reached.is_some_and(|reached| checkpoint.number >= reached)
                    {
                        continue;
                    }
                    if !self
                        .all_net_changes_since(open, checkpoint.position)?
                        .is_empty()
                    {
                        return Ok(checkpoint.clone());
                    }
                }
                Err(SandboxError::NothingToTakeBack(view.sandbox.name.clone()))
            }
        }
    }

    /// Restores the files to a position of the history. If interrupted, the next command repeats the restore.
    pub(super) fn go_to(
        &self,
        open: &mut OpenSandbox,
        restore: HistoryMove,
    ) -> Result<RestoreResult, SandboxError> {
        let id = open.view.sandbox.id;
        let reverse_changes = self.restoring_changes(open, restore.to)?;
        let targets = |member: &Member| -> BTreeMap<TreePath, Option<FileState>> {
            let reverse_changes = reverse_changes.get(&member.alias).into_iter().flatten();
            reverse_changes
                .map(|(path, change)| (path.clone(), change.after))
                .collect()
        };
        // Start only if all parts can be restored.
        for member in &open.view.members {
            member.check_restore(&targets(member))?;
        }
        let before = self.write_with(open, &[], None, move |unit, position| {
            let reason = CheckpointReason::BeforeRollback;
            let checkpoint = restore.keeps.map(|target| {
                sandboxes::add_checkpoint(unit, id, reason, None, position, Some(target))
                    .map(|checkpoint| checkpoint.number)
            });
            sandboxes::set_rolling_back(unit, id, Some(restore.to))?;
            Ok(checkpoint.transpose()?)
        })?;
        for member in &open.view.members {
            member.restore(&targets(member))?;
        }
        // Take the changes from the history, not from the files: an earlier attempt that was killed may
        // have restored some files without recording the change.
        let changes: Vec<(String, Change)> = reverse_changes
            .iter()
            .flat_map(|(alias, reverse_changes)| {
                reverse_changes.values().map(move |change| (alias, change))
            })
            .filter(|(_, change)| change.before != change.after)
            .map(|(alias, change)| (alias.clone(), change.clone()))
            .collect();
        let paths = changes.len() as u64;
        self.write_with(open, &changes, Some(restore.by.into()), move |unit, _| {
            sandboxes::set_rolling_back(unit, id, None)?;
            sandboxes::announce_rollback(unit, id, restore.to, paths);
            // Mark the rollback as undone, so that a second redo does not select it again.
            if let Some(number) = restore.takes_back {
                sandboxes::mark_undone(unit, id, number)?;
            }
            Ok(())
        })?;
        for member in &open.view.members {
            let of_member = |(alias, _): &&(String, Change)| *alias == member.alias;
            let restored = changes.iter().filter(of_member);
            let restored: Vec<Change> = restored.map(|(_, change)| change.clone()).collect();
            member.remember_restored(&restored, open.view.position)?;
        }
        self.refresh_checkpoints(open)?;
        Ok(RestoreResult { before, changes })
    }
}
