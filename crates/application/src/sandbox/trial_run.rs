//! Trials: work in a sandbox that leaves its files unchanged, whatever happens.
//!
//! A trial marks the sandbox as rolling back to the current position of its history. If the process
//! dies, the mark stays, and the next process that opens the sandbox undoes the changes.

use std::collections::BTreeMap;

use cleveragents_domain::{FileState, TreePath};
use cleveragents_sandbox::{Change, Error};
use cleveragents_store::{leases, sandboxes};

use super::error::SandboxError;
use super::history::{BY_ROLLBACK, fence, remember};
use super::rollback::HistoryMove;
use super::service::{OpenSandbox, SandboxService};

impl SandboxService {
    /// Starts a trial and returns the current position of the history.
    pub(crate) fn begin_trial(&self, open: &mut OpenSandbox) -> Result<u64, SandboxError> {
        for member in &open.view.members {
            member.protect()?;
        }
        self.capture(open, None)?;
        self.mark(open, Some(open.view.position))?;
        Ok(open.view.position)
    }

    /// Ends a trial that started at a position of the history, and restores every file. Returns the
    /// changes of the trial. If it recorded nothing, the position is the same as before.
    pub(crate) fn end_trial(
        &self,
        open: &mut OpenSandbox,
        began: u64,
    ) -> Result<Vec<(String, Change)>, SandboxError> {
        if open.view.position > began {
            // Something was recorded meanwhile, so the restore is recorded too.
            self.capture(open, Some(BY_ROLLBACK.into()))?;
            let journey = HistoryMove {
                to: began,
                by: BY_ROLLBACK,
                keeps: None,
                takes_back: None,
            };
            return Ok(self.go_to(open, journey)?.changes);
        }
        let (found, _) = self.look(open)?;
        if !found.changes.is_empty() {
            for member in &open.view.members {
                let of_member = found.changes.iter();
                let targets: BTreeMap<TreePath, Option<FileState>> = of_member
                    .filter(|(alias, _)| *alias == member.alias)
                    .map(|(_, change)| (change.path.clone(), change.before))
                    .collect();
                member.check_restore(&targets)?;
                member.restore(&targets)?;
            }
        }
        let (left, captures) = self.look(open)?;
        if let Some((alias, change)) = left.changes.first() {
            let place = format!("`{alias}/{}` could not be rolled back", change.path);
            return Err(Error::Damaged(place).into());
        }
        remember(open, captures)?;
        self.mark(open, None)?;
        Ok(found.changes)
    }

    /// Undoes the changes of a trial whose process died. The mark shows that it was a trial: a
    /// rollback has a different target position.
    pub(super) fn recover_trial(&self, open: &mut OpenSandbox) -> Result<(), SandboxError> {
        let began = open.view.position;
        self.end_trial(open, began).map(drop)
    }

    fn mark(&self, open: &OpenSandbox, position: Option<u64>) -> Result<(), SandboxError> {
        let (id, fence) = (open.view.sandbox.id, fence(open));
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            Ok(sandboxes::set_rolling_back(unit, id, position)?)
        })
    }
}
