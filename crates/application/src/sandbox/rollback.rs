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
    /// Tool name of its history entries.
    pub(super) by: &'static str,
    /// If set, creates a checkpoint of the state before, with this one as its target.
    pub(super) keeps: Option<CheckpointNumber>,
    /// The checkpoint of a rollback that this redo undoes.
    pub(super) takes_back: Option<CheckpointNumber>,
}

/// Result of a move to another position.
#[derive(Debug)]
pub(super) struct RestoreResult {
    /// Checkpoint of the state before, if one was requested.
    before: Option<CheckpointNumber>,
    /// Each changed path with the alias of its part.
    pub(super) changes: Vec<(String, Change)>,
}

impl SandboxService {
    /// Rolls the sandbox back to a checkpoint. A new checkpoint stores the state before.
    pub fn rollback(
        &self,
        open: &mut OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let checkpoint = self.choose(open, target)?;
        let journey = HistoryMove {
            to: checkpoint.position,
            by: BY_ROLLBACK,
            keeps: Some(checkpoint.number),
            takes_back: None,
        };
        let RestoreResult { before, changes } = self.go_to(open, journey)?;
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

    /// Changes that a rollback would make.
    pub fn rollback_preview(
        &self,
        open: &mut OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let checkpoint = self.choose(open, target)?;
        let changes = self.net_of_all(open, checkpoint.position)?.into_iter();
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
        let journey = HistoryMove {
            to: checkpoint.position,
            by: BY_REDO,
            keeps: None,
            takes_back: Some(checkpoint.number),
        };
        let changes = self.go_to(open, journey)?.changes;
        Ok(RolledBack {
            checkpoint,
            before: None,
            changes,
        })
    }

    /// The state before the last rollback, unless the sandbox was changed since.
    fn redoable(&self, open: &OpenSandbox) -> Result<Option<Checkpoint>, SandboxError> {
        let last = open.view.checkpoints.iter().rfind(|checkpoint| {
            checkpoint.reason == CheckpointReason::BeforeRollback && !checkpoint.undone
        });
        let Some(last) = last else { return Ok(None) };
        let is_ours = |tool: Option<&str>| matches!(tool, Some(BY_ROLLBACK | BY_REDO));
        let entries = self.entries(open, last.position)?;
        Ok(entries
            .iter()
            .all(|entry| is_ours(entry.change.tool()))
            .then(|| last.clone()))
    }

    /// The checkpoint with a number or label. A number takes precedence over a label, a user's label over
    /// one that a command created, and the newest wins among equals.
    pub fn checkpoint_named(
        &self,
        open: &OpenSandbox,
        wanted: &str,
    ) -> Result<Checkpoint, SandboxError> {
        let rank = |checkpoint: &&Checkpoint| {
            if checkpoint.number.to_string() == wanted {
                Some(2)
            } else if checkpoint.label.as_deref() == Some(wanted) {
                Some(u8::from(checkpoint.reason == CheckpointReason::Manual))
            } else {
                None
            }
        };
        let checkpoints = open.view.checkpoints.iter();
        let found = checkpoints
            .filter(|checkpoint| rank(checkpoint).is_some())
            .max_by_key(|checkpoint| (rank(checkpoint), checkpoint.number));
        found
            .cloned()
            .ok_or_else(|| SandboxError::CheckpointNotFound {
                name: open.view.sandbox.name.clone(),
                checkpoint: wanted.to_owned(),
            })
    }

    fn choose(
        &self,
        open: &OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<Checkpoint, SandboxError> {
        let view = &open.view;
        match target {
            RollbackTarget::Checkpoint(wanted) => self.checkpoint_named(open, wanted),
            RollbackTarget::Previous => {
                // After a rollback the current state is that of its target.
                let reached = self.redoable(open)?.and_then(|before| before.target);
                for checkpoint in view.checkpoints.iter().rev() {
                    if checkpoint.reason == CheckpointReason::BeforeRollback
                        || reached.is_some_and(|reached| checkpoint.number >= reached)
                    {
                        continue;
                    }
                    if !self.net_of_all(open, checkpoint.position)?.is_empty() {
                        return Ok(checkpoint.clone());
                    }
                }
                Err(SandboxError::NothingToTakeBack(view.sandbox.name.clone()))
            }
        }
    }

    /// Restores the files to a position of the history. If interrupted, the next command repeats it.
    pub(super) fn go_to(
        &self,
        open: &mut OpenSandbox,
        journey: HistoryMove,
    ) -> Result<RestoreResult, SandboxError> {
        let id = open.view.sandbox.id;
        let ways = self.way_back(open, journey.to)?;
        let targets = |member: &Member| -> BTreeMap<TreePath, Option<FileState>> {
            let ways = ways.get(&member.alias).into_iter().flatten();
            ways.map(|(path, way)| (path.clone(), way.after)).collect()
        };
        // Start only if every part can be restored.
        for member in &open.view.members {
            member.check_restore(&targets(member))?;
        }
        let before = self.write_with(open, &[], None, move |unit, position| {
            let reason = CheckpointReason::BeforeRollback;
            let kept = journey.keeps.map(|target| {
                sandboxes::add_checkpoint(unit, id, reason, None, position, Some(target))
                    .map(|made| made.number)
            });
            sandboxes::set_rolling_back(unit, id, Some(journey.to))?;
            Ok(kept.transpose()?)
        })?;
        for member in &open.view.members {
            member.restore(&targets(member))?;
        }
        // The changes come from the history, not from the files: an earlier attempt that was killed may
        // have changed some files without recording it.
        let changes: Vec<(String, Change)> = ways
            .iter()
            .flat_map(|(alias, ways)| ways.values().map(move |way| (alias, way)))
            .filter(|(_, way)| way.before != way.after)
            .map(|(alias, way)| (alias.clone(), way.clone()))
            .collect();
        let paths = changes.len() as u64;
        self.write_with(open, &changes, Some(journey.by.into()), move |unit, _| {
            sandboxes::set_rolling_back(unit, id, None)?;
            sandboxes::announce_rollback(unit, id, journey.to, paths);
            // A second redo must not find the same rollback.
            if let Some(number) = journey.takes_back {
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
