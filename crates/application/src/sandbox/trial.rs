//! Trials: work in a sandbox that leaves no trace in its files, whatever becomes of it.
//!
//! A trial marks the sandbox as on its way back to where its history stands. A process that dies in
//! the middle leaves that mark, and whoever opens the sandbox next takes back what it changed.

use std::collections::BTreeMap;

use cleveragents_domain::{FileState, TreePath};
use cleveragents_sandbox::{Change, Error};
use cleveragents_store::{leases, sandboxes};

use super::error::SandboxError;
use super::history::{BY_ROLLBACK, fence, remember};
use super::rollback::Journey;
use super::service::{OpenSandbox, SandboxService};

impl SandboxService {
    /// Begins a trial and says where the history stands.
    pub(crate) fn begin_trial(&self, open: &mut OpenSandbox) -> Result<u64, SandboxError> {
        for member in &open.view.members {
            member.protect()?;
        }
        self.capture(open, None)?;
        self.mark(open, Some(open.view.position))?;
        Ok(open.view.position)
    }

    /// Ends a trial that began at a position of the history: every file is again as it was then. Says
    /// what the trial had changed. When it recorded nothing the position is the same as before.
    pub(crate) fn end_trial(
        &self,
        open: &mut OpenSandbox,
        began: u64,
    ) -> Result<Vec<(String, Change)>, SandboxError> {
        if open.view.position > began {
            // Something was recorded meanwhile, so going back is recorded too.
            self.capture(open, Some(BY_ROLLBACK.into()))?;
            let journey = Journey {
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
            let place = format!("`{alias}/{}` could not be taken back", change.path);
            return Err(Error::Damaged(place).into());
        }
        remember(open, captures)?;
        self.mark(open, None)?;
        Ok(found.changes)
    }

    /// Takes back what a trial left whose process died. Whether it was one is told by the mark: a
    /// rollback has a way to go, a trial has not.
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
