//! Sandboxes of conversations: the changes that wait in them, and the removal of unchanged ones.

use cleveragents_domain::{SandboxId, SandboxState, SessionId, Timestamp};
use cleveragents_sandbox::folder_bytes;
use cleveragents_store::{sandboxes, sessions};

use super::error::SandboxError;
use super::recover::is_settled;
use super::service::{OpenSandbox, SandboxService};

/// Prefix of the names of session sandboxes.
pub(crate) const SESSION_SANDBOX: &str = "session-";

/// Hours without a turn after which a cleanup removes an unchanged sandbox of a conversation.
pub const IDLE_SANDBOX_HOURS: u32 = 24;

/// Changes in the sandbox of a conversation that are not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChanges {
    /// Name of the sandbox.
    pub sandbox: String,
    /// Changed paths; in a sandbox with several parts, each starts with the name of its part.
    pub files: Vec<String>,
}

/// An unchanged sandbox of a conversation without a turn for [`IDLE_SANDBOX_HOURS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleSandbox {
    pub name: String,
    /// Size of its folder, including the copies of resources.
    pub bytes: u64,
    id: SandboxId,
}

/// The name of the sandbox of a session.
pub(crate) fn session_sandbox(session: SessionId) -> String {
    format!("{SESSION_SANDBOX}{session}").to_ascii_lowercase()
}

/// The session of a sandbox with this name.
pub(crate) fn session_of_sandbox(name: &str) -> Option<SessionId> {
    let id = name.strip_prefix(SESSION_SANDBOX)?;
    id.to_ascii_uppercase().parse().ok()
}

impl SandboxService {
    /// The changes of a conversation that are not applied; `None` without changes. While another process uses the
    /// sandbox, only recorded changes are returned.
    pub fn pending_changes(
        &self,
        session: SessionId,
    ) -> Result<Option<PendingChanges>, SandboxError> {
        let name = session_sandbox(session);
        let Some(view) = self.active(&name)? else {
            return Ok(None);
        };
        match self.open(&name) {
            Ok(mut open) => self.changes_of(&mut open),
            Err(error) if error.is_held() => {
                let parts = self.recorded(&view, 0)?;
                Ok(pending(&name, parts.paths()))
            }
            // Applied or discarded since the lookup.
            Err(SandboxError::NotReady { .. } | SandboxError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Discards the sandbox of a conversation if it is unchanged; otherwise returns its changes. Leaves a sandbox that
    /// another process uses as it is.
    pub fn close_unchanged(
        &self,
        session: SessionId,
    ) -> Result<Option<PendingChanges>, SandboxError> {
        let name = session_sandbox(session);
        if self.active(&name)?.is_none() {
            return Ok(None);
        }
        let mut open = match self.open(&name) {
            Ok(open) => open,
            Err(SandboxError::NotReady { .. } | SandboxError::NotFound(_)) => return Ok(None),
            Err(error) if error.is_held() => return Ok(None),
            Err(error) => return Err(error),
        };
        let changes = self.changes_of(&mut open)?;
        // The changes of a rollback can be restored by a redo.
        if changes.is_none() && self.redoable(&open)?.is_none() {
            self.throw_away(&open, SandboxState::Active)?;
        }
        Ok(changes)
    }

    /// The sandboxes that [`Self::remove_idle`] would remove.
    pub fn idle(&self, now: Timestamp) -> Result<Vec<IdleSandbox>, SandboxError> {
        let mut idle = Vec::new();
        for view in self.list(false)? {
            if !self.is_idle(&view.sandbox, now)? || Self::check_here(&view).is_err() {
                continue;
            }
            let open = match self.open(&view.sandbox.name) {
                Ok(open) => open,
                Err(error) if error.is_held() => continue,
                // A damaged sandbox may contain changes.
                Err(SandboxError::Files(_) | SandboxError::NotReady { .. }) => continue,
                Err(error) => return Err(error),
            };
            if self.is_unchanged(&open)? {
                idle.push(IdleSandbox {
                    bytes: folder_bytes(&view.folders().whole),
                    name: view.sandbox.name,
                    id: view.sandbox.id,
                });
            }
        }
        Ok(idle)
    }

    /// Removes the unchanged sandboxes of conversations without a turn for [`IDLE_SANDBOX_HOURS`], and their entries
    /// in the user's repositories. Returns the removed sandboxes.
    pub fn remove_idle(&self, now: Timestamp) -> Result<Vec<IdleSandbox>, SandboxError> {
        let mut removed = Vec::new();
        for idle in self.idle(now)? {
            let open = match self.open(&idle.id.to_string()) {
                Ok(open) => open,
                Err(error) if error.is_held() => continue,
                Err(SandboxError::NotReady { .. } | SandboxError::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            // A turn may have changed it since the list was made.
            if self.is_unchanged(&open)? {
                self.throw_away(&open, SandboxState::Active)?;
                removed.push(idle);
            }
        }
        Ok(removed)
    }

    /// Whether a sandbox belongs to a conversation without a turn for [`IDLE_SANDBOX_HOURS`].
    fn is_idle(
        &self,
        sandbox: &cleveragents_domain::Sandbox,
        now: Timestamp,
    ) -> Result<bool, SandboxError> {
        let Some(session) = session_of_sandbox(&sandbox.name).filter(|_| is_settled(sandbox))
        else {
            return Ok(false);
        };
        let session = self.engine.read(|reader| sessions::get(reader, session))?;
        let last_use = session.map_or(sandbox.updated_at, |session| {
            session.updated_at.max(sandbox.updated_at)
        });
        Ok(last_use.plus_seconds(i64::from(IDLE_SANDBOX_HOURS) * 3_600) < now)
    }

    /// Whether nothing in the sandbox would be lost with it. Records nothing.
    fn is_unchanged(&self, open: &OpenSandbox) -> Result<bool, SandboxError> {
        Ok(self.net(open, 0)?.path_count() == 0
            && self.redoable(open)?.is_none()
            && self.look(open)?.0.changes.is_empty())
    }

    fn changes_of(&self, open: &mut OpenSandbox) -> Result<Option<PendingChanges>, SandboxError> {
        let paths = self.diff(open)?.paths();
        Ok(pending(&open.view.sandbox.name, paths))
    }

    /// The view of a sandbox that is neither applied nor discarded.
    fn active(&self, name: &str) -> Result<Option<super::SandboxView>, SandboxError> {
        let found = self
            .engine
            .read(|reader| sandboxes::by_name(reader, name))?;
        match found {
            Some(sandbox) if !sandbox.state.is_over() => self.view(sandbox.id).map(Some),
            _ => Ok(None),
        }
    }
}

fn pending(sandbox: &str, files: Vec<String>) -> Option<PendingChanges> {
    (!files.is_empty()).then(|| PendingChanges {
        sandbox: sandbox.to_owned(),
        files,
    })
}
