//! Issue trackers as sources of work items: Forgejo and Gitea, GitHub, and a folder of Markdown files.
//!
//! A [`Tracker`] reads and writes issues. Its listings are complete or an error. Each write carries an
//! [`IdempotencyKey`]; a repeated write first reads back what an earlier attempt may have written, so that it has its
//! effect once. Titles, bodies and comments of a tracker are data: nothing here interprets them.

mod account;
mod delivery;
mod error;
mod fields;
mod forge_issues;
mod forgejo;
mod front_matter;
mod github;
mod idempotency;
mod labels;
mod listing;
mod markdown;
pub mod operations;
mod outbox;
mod source;
mod sync;
mod types;

pub use account::{AccessProblem, TrackerAccess, access_problems, self_approval_problem};
pub use delivery::{DeliverySummary, deliver_outbox};
pub use error::TrackerError;
pub use fields::FieldChanges;
pub use forgejo::ForgejoTracker;
pub use github::GitHubTracker;
pub use idempotency::{IdempotencyKey, WriteAttempt};
pub use labels::{LabelMapping, MappedFields};
pub use markdown::MarkdownTracker;
pub use outbox::{mirror_comment, mirror_fields, mirror_item, mirror_status};
pub use source::Trackers;
pub use sync::{SyncError, SyncReport, sync_source};
pub use types::{
    ExternalId, NewIssue, TrackerEffect, TrackerIssue, TrackerKind, TrackerListing, WrittenComment,
    WrittenIssue,
};

use crate::forge::Remote;

/// The repository that an address names, as `OWNER/NAME`.
fn forge_repository(address: &str) -> Result<Remote, TrackerError> {
    let is_address = address.starts_with("https://") || address.starts_with("http://");
    let remote = Remote::parse(address).filter(|remote| {
        is_address && !address.contains('@') && remote.path.split('/').count() == 2
    });
    remote.ok_or_else(|| TrackerError::InvalidSource {
        reason:
            "the address of a tracker is the address of a repository without credentials, such as \
                 `https://code.example/ada/shop`"
                .to_owned(),
    })
}

/// Implements [`Tracker`] for a type that holds a [`forge_issues::ForgeIssues`].
macro_rules! forge_tracker {
    ($tracker:ty, $kind:expr) => {
        impl Tracker for $tracker {
            fn kind(&self) -> TrackerKind {
                $kind
            }

            fn access(&self) -> Result<TrackerAccess, TrackerError> {
                self.0.access()
            }

            fn list(&self) -> Result<TrackerListing, TrackerError> {
                self.0.list()
            }

            fn get(&self, id: &ExternalId) -> Result<Option<TrackerIssue>, TrackerError> {
                self.0.get(id)
            }

            fn create(
                &self,
                new: &NewIssue,
                attempt: &WriteAttempt<'_>,
            ) -> Result<WrittenIssue, TrackerError> {
                self.0.create(new, attempt)
            }

            fn comment(
                &self,
                id: &ExternalId,
                body: &str,
                attempt: &WriteAttempt<'_>,
            ) -> Result<WrittenComment, TrackerError> {
                self.0.comment(id, body, attempt)
            }

            fn set_fields(
                &self,
                id: &ExternalId,
                changes: &FieldChanges,
                attempt: &WriteAttempt<'_>,
            ) -> Result<WrittenIssue, TrackerError> {
                self.0.set_fields(id, changes, attempt)
            }
        }
    };
}
use forge_tracker;

/// An issue tracker, called with one account.
///
/// Every call has a time limit. A write starts only while its [`WriteAttempt`] has enough time left, so that two
/// processes never write at the same time.
pub trait Tracker: Send + Sync {
    fn kind(&self) -> TrackerKind;

    /// The account of the credentials, and what it may do. Reads only.
    fn access(&self) -> Result<TrackerAccess, TrackerError>;

    /// All issues, open and closed, checked against the total that the tracker reports.
    fn list(&self) -> Result<TrackerListing, TrackerError>;

    /// One issue; `None` if it does not exist.
    fn get(&self, id: &ExternalId) -> Result<Option<TrackerIssue>, TrackerError>;

    /// Creates an issue with all its labels, or finds the one that an earlier attempt created.
    fn create(
        &self,
        new: &NewIssue,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError>;

    /// Adds a comment, or finds the one that an earlier attempt added.
    fn comment(
        &self,
        id: &ExternalId,
        body: &str,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenComment, TrackerError>;

    /// Changes fields and reads them back. Writes nothing if the issue has these values.
    fn set_fields(
        &self,
        id: &ExternalId,
        changes: &FieldChanges,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError>;

    /// Closes an issue, if it is open.
    fn close(
        &self,
        id: &ExternalId,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError> {
        self.set_fields(id, &FieldChanges::closing(), attempt)
    }
}
