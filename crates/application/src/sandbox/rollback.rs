//! Going back to a checkpoint, and forward again.

use std::collections::BTreeMap;

use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, FileState, TreePath};
use cleveragents_sandbox::{Change, Member};
use cleveragents_store::sandboxes;

use super::error::SandboxError;
use super::history::{BY_REDO, BY_ROLLBACK};
use super::service::{OpenSandbox, SandboxService};

/// Where to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The last checkpoint whose state differs from the present one.
    Previous,
    /// A checkpoint by number or label.
    Checkpoint(String),
}

/// What a rollback or redo did.
#[derive(Debug)]
pub struct RolledBack {
    /// The state that was reached.
    pub checkpoint: Checkpoint,
    /// Where the state before can be found again; `None` for a redo.
    pub before: Option<CheckpointNumber>,
    /// Each path that was changed, with its part.
    pub changes: Vec<(String, Change)>,
}

/// A way through the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Journey {
    /// The position to reach.
    pub(super) to: u64,
    /// Whose doing it is.
    pub(super) by: &'static str,
    /// Makes a checkpoint of the state before, which names this one as the goal.
    pub(super) keeps: Option<CheckpointNumber>,
    /// The checkpoint of a rollback that is taken back by this.
    pub(super) takes_back: Option<CheckpointNumber>,
}

/// What a way through the history led to.
#[derive(Debug)]
pub(super) struct Travelled {
    /// The checkpoint of the state before, where one was wanted.
    before: Option<CheckpointNumber>,
    /// Each path that was changed, with its part.
    pub(super) changes: Vec<(String, Change)>,
}

impl SandboxService {
    /// Takes the sandbox back to a checkpoint. The state before becomes a checkpoint too.
    pub fn rollback(
        &self,
        open: &mut OpenSandbox,
        target: &RollbackTarget,
    ) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let checkpoint = self.choose(open, target)?;
        let journey = Journey {
            to: checkpoint.position,
            by: BY_ROLLBACK,
            keeps: Some(checkpoint.number),
            takes_back: None,
        };
        let Travelled { before, changes } = self.go_to(open, journey)?;
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

    /// What a rollback would change, path by path.
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

    /// Takes the last rollback back.
    pub fn redo(&self, open: &mut OpenSandbox) -> Result<RolledBack, SandboxError> {
        self.capture(open, None)?;
        let Some(checkpoint) = self.redoable(open)? else {
            return Err(SandboxError::NothingToRedo(open.view.sandbox.name.clone()));
        };
        let journey = Journey {
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

    /// The state before the last rollback, unless something else changed the sandbox since.
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

    /// The checkpoint with a number or label. A number comes before a label, a label that a person
    /// gave before one that a command left behind, and of several alike the newest wins.
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
                // After a rollback the present state is that of the checkpoint reached.
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

    /// Brings the files to a position of the history. Interrupted, it is done again by the next command.
    pub(super) fn go_to(
        &self,
        open: &mut OpenSandbox,
        journey: Journey,
    ) -> Result<Travelled, SandboxError> {
        let id = open.view.sandbox.id;
        let ways = self.way_back(open, journey.to)?;
        let targets = |member: &Member| -> BTreeMap<TreePath, Option<FileState>> {
            let ways = ways.get(&member.alias).into_iter().flatten();
            ways.map(|(path, way)| (path.clone(), way.after)).collect()
        };
        // Begun only when it can be ended.
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
        // What changed is told from the history, not from the files: an attempt before this one, which was
        // killed, may have changed some of them already, and nobody wrote that down.
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
            // A second redo must not find the same rollback again.
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
        Ok(Travelled { before, changes })
    }
}
