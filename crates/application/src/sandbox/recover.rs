//! What an interrupted command left, brought to an end by the next one.

use cleveragents_domain::{Sandbox, SandboxState, TreePath};
use cleveragents_sandbox::Error;
use cleveragents_sandbox::apply::{Journal, Recovery, journal_place};
use cleveragents_store::sandboxes;

use super::error::SandboxError;
use super::history::BY_ROLLBACK;
use super::rollback::Journey;
use super::service::{OpenSandbox, SandboxService, SandboxView};

/// What was brought to an end.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovered {
    /// A sandbox that was never complete is gone.
    Removed(String),
    /// An apply is finished.
    Applied(String),
    /// An apply is taken back. Paths that someone changed since are left as they are.
    TakenBack(String, Vec<TreePath>),
    /// A rollback reached its goal.
    RolledBack(String),
    /// A sandbox that was being thrown away is gone.
    Discarded(String),
    /// It could not be brought to an end; the next command tries again.
    Failed(String, String),
}

/// Whether nothing in it was interrupted.
pub(super) fn is_settled(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Active && sandbox.rolling_back_to.is_none()
}

impl SandboxService {
    /// Finishes or undoes what dead processes left. What others are at is left to them.
    pub fn recover(&self) -> Result<Vec<Recovered>, SandboxError> {
        // What cannot be removed now is tried again next time.
        let _left = self.sweep();
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
                Ok(one) => done.extend(one),
                // Somebody else applies to the same resources right now.
                Err(error) if error.is_held() => {}
                Err(error @ (SandboxError::Store(_) | SandboxError::Lease(_))) => {
                    return Err(error);
                }
                // One sandbox in trouble must not keep people from all the others.
                Err(error) => done.push(Recovered::Failed(sandbox.name, error.to_string())),
            }
        }
        Ok(done)
    }

    pub(super) fn recover_one(
        &self,
        open: &mut OpenSandbox,
    ) -> Result<Option<Recovered>, SandboxError> {
        let name = open.view.sandbox.name.clone();
        Ok(match open.view.sandbox.state {
            SandboxState::Creating => {
                self.throw_away(open, SandboxState::Creating)?;
                Some(Recovered::Removed(name))
            }
            SandboxState::Discarding => {
                self.throw_away(open, SandboxState::Discarding)?;
                Some(Recovered::Discarded(name))
            }
            SandboxState::Applying => Some(self.recover_apply(open)?),
            SandboxState::Active => match open.view.sandbox.rolling_back_to {
                Some(position) => {
                    let gone = if position == open.view.position {
                        self.recover_trial(open)
                    } else {
                        let journey = Journey {
                            to: position,
                            by: BY_ROLLBACK,
                            keeps: None,
                            takes_back: None,
                        };
                        self.go_to(open, journey).map(drop)
                    };
                    if let Err(SandboxError::Files(Error::ContentLost(_))) = &gone {
                        // It can never be ended; the state before it is a checkpoint.
                        let id = open.view.sandbox.id;
                        self.write(open, move |unit| {
                            Ok(sandboxes::set_rolling_back(unit, id, None)?)
                        })?;
                    }
                    gone?;
                    Some(Recovered::RolledBack(name))
                }
                None => None,
            },
            SandboxState::Applied | SandboxState::Discarded => None,
        })
    }

    pub(super) fn recover_apply(&self, open: &OpenSandbox) -> Result<Recovered, SandboxError> {
        // Nobody else may apply to the same resources meanwhile.
        let _resources = self.lease_resources(open)?;
        let SandboxView { sandbox, .. } = &open.view;
        let name = sandbox.name.clone();
        let state = open.view.folders().state();
        let place = journal_place(&state);
        let outcome = match Journal::load(&place)? {
            Some(journal) => journal.recover(&place, &self.servers(&open.view))?,
            // The folder went out of the way as a whole, after the last change was in place.
            None if !state.exists() => Recovery::Finished,
            None => Recovery::TakenBack(Vec::new()),
        };
        match outcome {
            Recovery::Finished => {
                self.complete(open, None)?;
                Ok(Recovered::Applied(name))
            }
            Recovery::TakenBack(kept) => {
                self.advance(open, SandboxState::Applying, SandboxState::Active, None)?;
                Ok(Recovered::TakenBack(name, kept))
            }
        }
    }
}
