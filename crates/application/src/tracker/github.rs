//! [`GitHubTracker`]: the issues of a repository at GitHub or GitHub Enterprise Server.

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
use crate::forge::{RestApi, github_api};

/// The issues of a repository at GitHub. Pull requests are no issues here.
pub struct GitHubTracker(ForgeIssues);

impl GitHubTracker {
    /// The tracker at the address of a repository, such as `https://github.com/ada/shop`. `variable` looks up
    /// `GITHUB_API_URL`.
    pub fn new(
        address: &str,
        token: Secret,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TrackerError> {
        let remote = forge_repository(address)?;
        let base = github_api(&remote.host, variable);
        Ok(Self(ForgeIssues {
            api: RestApi::github(&base, token),
            flavor: ForgeFlavor::GitHub,
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

super::forge_tracker!(GitHubTracker, TrackerKind::GitHub);
