//! Recovery of interrupted operations by the next command.

use cleveragents_domain::{Sandbox, SandboxState, TreePath};
use cleveragents_sandbox::Error;
use cleveragents_sandbox::apply::{Journal, Recovery, journal_place};
use cleveragents_store::sandboxes;

use super::error::SandboxError;
use super::history::BY_ROLLBACK;
use super::rollback::HistoryMove;
use super::service::{OpenSandbox, SandboxService, SandboxView};

#[derive(Debug, PartialEq, Eq)]
pub enum RecoveredOperation {
    /// An incomplete sandbox was removed.
    Removed(String),
    /// An apply was completed.
    Applied(String),
    /// An apply was rolled back. The listed paths were not restored, because other processes changed
    /// them since.
    ApplyRolledBack(String, Vec<TreePath>),
    /// A rollback was completed.
    RolledBack(String),
    /// A discard was completed.
    Discarded(String),
    /// The recovery of the named sandbox failed with an error. The next command retries it.
    Failed(String, String),
}

/// Whether the sandbox is active without a rollback in progress, so that it needs no recovery.
pub(super) fn is_settled(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Active && sandbox.rolling_back_to.is_none()
}

impl SandboxService {
    /// Completes or undoes operations of dead processes. Skips sandboxes that other processes use.
    pub fn recover(&self) -> Result<Vec<RecoveredOperation>, SandboxError> {
        // Ignore failures: the next recovery retries the removal.
        let _ignored = self.sweep();
        let mut done = Vec::new();
        let all = self.engine.read(|reader| sandboxes::list(reader, false))?;
        for sandbox in all {
            if is_settled(&sandbox) {
                continue;
            }
            let view = self.view(sandbox.id)?;
            if Self::check_here(&view).is_err() {
                continue;
            }
            let lease = match self.lease(sandbox.id) {
                Ok(lease) => lease,
                Err(error) if error.is_held() => continue,
                Err(error) => return Err(error),
            };
            let mut open = OpenSandbox {
                view: self.view(sandbox.id)?,
                lease,
            };
            match self.recover_one(&mut open) {
                Ok(recovered) => done.extend(recovered),
                // Another process currently applies to the same resources.
                Err(error) if error.is_held() => {}
                Err(error @ (SandboxError::Store(_) | SandboxError::Lease(_))) => {
                    return Err(error);
                }
                // A failure of one sandbox must not block all others.
                Err(error) => {
                    done.push(RecoveredOperation::Failed(sandbox.name, error.to_string()));
                }
            }
        }
        Ok(done)
    }

    pub(super) fn recover_one(
        &self,
        open: &mut OpenSandbox,
    ) -> Result<Option<RecoveredOperation>, SandboxError> {
        let name = open.view.sandbox.name.clone();
        Ok(match open.view.sandbox.state {
            SandboxState::Creating => {
                self.throw_away(open, SandboxState::Creating)?;
                Some(RecoveredOperation::Removed(name))
            }
            SandboxState::Discarding => {
                self.throw_away(open, SandboxState::Discarding)?;
                Some(RecoveredOperation::Discarded(name))
            }
            SandboxState::Applying => Some(self.recover_apply(open)?),
            SandboxState::Active => match open.view.sandbox.rolling_back_to {
                Some(position) => {
                    let result = if position == open.view.position {
                        self.recover_trial(open)
                    } else {
                        let restore = HistoryMove {
                            to: position,
                            by: BY_ROLLBACK,
                            keeps: None,
                            takes_back: None,
                        };
                        self.go_to(open, restore).map(drop)
                    };
                    if let Err(SandboxError::Files(Error::ContentLost(_))) = &result {
                        // The rollback can never be completed. The state before it is kept in a checkpoint.
                        let id = open.view.sandbox.id;
                        self.write(open, move |unit| {
                            Ok(sandboxes::set_rolling_back(unit, id, None)?)
                        })?;
                    }
                    result?;
                    Some(RecoveredOperation::RolledBack(name))
                }
                None => None,
            },
            SandboxState::Applied | SandboxState::Discarded => None,
        })
    }

    pub(super) fn recover_apply(
        &self,
        open: &OpenSandbox,
    ) -> Result<RecoveredOperation, SandboxError> {
        // Prevents other processes from applying to the same resources.
        let _resources = self.lease_resources(open)?;
        let SandboxView { sandbox, .. } = &open.view;
        let name = sandbox.name.clone();
        let state = open.view.folders().state();
        let place = journal_place(&state);
        let outcome = match Journal::load(&place)? {
            Some(journal) => journal.recover(&place, &self.servers(&open.view))?,
            // The state folder is moved away only after the last change is in place.
            None if !state.exists() => Recovery::Finished,
            None => Recovery::RolledBack(Vec::new()),
        };
        match outcome {
            Recovery::Finished => {
                self.complete(open, None)?;
                Ok(RecoveredOperation::Applied(name))
            }
            Recovery::RolledBack(kept) => {
                self.advance(open, SandboxState::Applying, SandboxState::Active, None)?;
                Ok(RecoveredOperation::ApplyRolledBack(name, kept))
            }
        }
    }
}
