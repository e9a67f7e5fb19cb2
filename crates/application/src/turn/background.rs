//! [`BackgroundEnd`]: no background command outlives the turn that started it.

use cleveragents_domain::SessionId;
use cleveragents_tools::builtin::background_owner;

use crate::tool::SandboxWorkspace;

/// Ends the background commands of a turn when it is dropped.
pub(super) struct BackgroundEnd<'a> {
    pub(super) workspace: Option<&'a SandboxWorkspace>,
    pub(super) session: SessionId,
}

impl Drop for BackgroundEnd<'_> {
    fn drop(&mut self) {
        let Some(workspace) = self.workspace else {
            return;
        };
        match workspace.end_background(&background_owner(Some(self.session))) {
            Ok(running) if running.is_empty() => {}
            Ok(running) => tracing::info!(?running, "background commands ended with their turn"),
            // The next use of the sandbox records the changes.
            Err(error) => tracing::warn!(%error, "changes of background commands not recorded"),
        }
    }
}
