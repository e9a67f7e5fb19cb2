//! [`ForgejoTracker`]: the issues of a repository at Forgejo or Gitea.

use std::time::Duration;

use cleveragents_models::Secret;

use super::account::TrackerAccess;
use super::error::TrackerError;
use super::fields::FieldChanges;
use super::forge_issues::{ForgeFlavor, ForgeIssues};
use super::idempotency::WriteAttempt;
use super::types::{
    ExternalId, NewIssue, TrackerIssue, TrackerKind, TrackerListing, WrittenComment, WrittenIssue,
};
use super::{Tracker, forge_repository};
use crate::forge::{RestApi, forgejo_api};

/// The issues of a repository at Forgejo or Gitea.
pub struct ForgejoTracker(ForgeIssues);

impl ForgejoTracker {
    /// The tracker at the address of a repository, such as `https://code.example/ada/shop`.
    pub fn new(address: &str, token: Secret) -> Result<Self, TrackerError> {
        let remote = forge_repository(address)?;
        let base = forgejo_api(&remote.host, remote.is_plain_http);
        Ok(Self(ForgeIssues {
            api: RestApi::forgejo(&base, token),
            flavor: ForgeFlavor::Forgejo,
            repository: remote.path,
        }))
    }

    /// Sets the time limit of one request.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.0.api = self.0.api.with_timeout(timeout);
        self
    }
}

super::forge_tracker!(ForgejoTracker, TrackerKind::Forgejo);
