//! Keeps a sandbox up to date with the user's files.

use super::error::SandboxError;
use super::service::SandboxService;

/// Result of [`SandboxService::follow_source`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceChanges {
    /// The sandbox is up to date, or does not exist.
    None,
    /// The sandbox was outdated, had no changes and was discarded. The next sandbox starts with the current files.
    Discarded,
    /// The sandbox has changes and was kept. Contains the paths of the user's files that changed since it was created.
    Outdated(Vec<String>),
}

impl SandboxService {
    /// Compares the user's files with their state when the sandbox was created. Discards the sandbox if files differ
    /// and the sandbox has no changes.
    pub fn follow_source(&self, name: &str) -> Result<SourceChanges, SandboxError> {
        match self.find(name) {
            Ok(found) if !found.sandbox.state.is_over() => {}
            Ok(_) | Err(SandboxError::NotFound(_)) => return Ok(SourceChanges::None),
            Err(error) => return Err(error),
        }
        let mut open = self.open(name)?;
        let mut changed = Vec::new();
        for member in &open.view.members {
            let is_only = open.view.members.len() == 1;
            let paths = member.changed_at_source()?.into_iter();
            changed.extend(paths.map(|path| {
                if is_only {
                    path.to_string()
                } else {
                    format!("{}/{path}", member.alias)
                }
            }));
        }
        if changed.is_empty() {
            return Ok(SourceChanges::None);
        }
        if self.diff(&mut open)?.path_count() > 0 {
            return Ok(SourceChanges::Outdated(changed));
        }
        // This process still holds the lease, so no other process has written to the sandbox since the comparison.
        self.throw_away(&open, open.view.sandbox.state)?;
        Ok(SourceChanges::Discarded)
    }
}
