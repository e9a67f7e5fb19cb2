//! Trials: work in a sandbox whose file changes are always undone, even after a crash.
//!
//! A trial marks the sandbox as rolling back to the current position of its history. If the process
//! dies, the mark stays, and the next process that opens the sandbox undoes the changes.

use std::collections::BTreeMap;

use cleveragents_domain::{FileState, TreePath};
use cleveragents_sandbox::{Change, Error};
use cleveragents_store::{leases, sandboxes};

use super::error::SandboxError;
use super::history::{BY_ROLLBACK, fencing_token, remember};
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

    /// Ends a trial that started at a position of the history, and restores all files. Returns the
    /// changes of the trial. The position stays the same if nothing was recorded during the trial.
    pub(crate) fn end_trial(
        &self,
        open: &mut OpenSandbox,
        trial_start: u64,
    ) -> Result<Vec<(String, Change)>, SandboxError> {
        if open.view.position > trial_start {
            // Changes were recorded during the trial, so the restore must be recorded too.
            self.capture(open, Some(BY_ROLLBACK.into()))?;
            let restore = HistoryMove {
                to: trial_start,
                by: BY_ROLLBACK,
                keeps: None,
                takes_back: None,
            };
            return Ok(self.go_to(open, restore)?.changes);
        }
        let (report, _) = self.look(open)?;
        if !report.changes.is_empty() {
            for member in &open.view.members {
                let of_member = report.changes.iter();
                let targets: BTreeMap<TreePath, Option<FileState>> = of_member
                    .filter(|(alias, _)| *alias == member.alias)
                    .map(|(_, change)| (change.path.clone(), change.before))
                    .collect();
                member.check_restore(&targets)?;
                member.restore(&targets)?;
            }
        }
        let (remaining, captures) = self.look(open)?;
        if let Some((alias, change)) = remaining.changes.first() {
            let message = format!("`{alias}/{}` could not be rolled back", change.path);
            return Err(Error::Damaged(message).into());
        }
        remember(open, captures)?;
        self.mark(open, None)?;
        Ok(report.changes)
    }

    /// Undoes the changes of a trial whose process died. The mark of a trial equals the current position
    /// of the history; an interrupted rollback has a different target position.
    pub(super) fn recover_trial(&self, open: &mut OpenSandbox) -> Result<(), SandboxError> {
        let trial_start = open.view.position;
        self.end_trial(open, trial_start).map(drop)
    }

    fn mark(&self, open: &OpenSandbox, position: Option<u64>) -> Result<(), SandboxError> {
        let (id, fence) = (open.view.sandbox.id, fencing_token(open));
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            Ok(sandboxes::set_rolling_back(unit, id, position)?)
        })
    }
}
