//! [`FieldChanges`]: changes of the fields of an issue, compared with the issue before and after they are written.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::error::TrackerError;
use super::types::TrackerIssue;

/// Changes of an issue. A field without a value stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldChanges {
    pub title: Option<String>,
    /// The whole text, without a marker.
    pub body: Option<String>,
    /// Names of existing labels.
    pub add_labels: BTreeSet<String>,
    /// Labels that the issue does not have are ignored.
    pub remove_labels: BTreeSet<String>,
    /// Title of an existing milestone.
    pub milestone: Option<String>,
    pub is_closed: Option<bool>,
}

impl FieldChanges {
    pub fn closing() -> Self {
        Self {
            is_closed: Some(true),
            ..Self::default()
        }
    }

    /// The labels of an issue after the change; `None` if they stay.
    pub(super) fn labels_of(&self, issue: &TrackerIssue) -> Option<BTreeSet<String>> {
        let kept = issue.labels.difference(&self.remove_labels).cloned();
        let wanted: BTreeSet<String> = kept.chain(self.add_labels.iter().cloned()).collect();
        (wanted != issue.labels).then_some(wanted)
    }

    /// Whether the text of the issue has to change.
    pub(super) fn changes_text(&self, issue: &TrackerIssue) -> bool {
        let differs = |wanted: &Option<String>, current: &str| {
            wanted
                .as_ref()
                .is_some_and(|wanted| wanted.trim_end() != current.trim_end())
        };
        differs(&self.title, &issue.title) || differs(&self.body, &issue.body)
    }

    pub(super) fn changes_milestone(&self, issue: &TrackerIssue) -> bool {
        self.milestone.is_some() && self.milestone != issue.milestone
    }

    pub(super) fn changes_state(&self, issue: &TrackerIssue) -> bool {
        self.is_closed
            .is_some_and(|is_closed| is_closed != issue.is_closed)
    }

    /// Whether the issue has all these values.
    pub(super) fn is_met_by(&self, issue: &TrackerIssue) -> bool {
        self.labels_of(issue).is_none()
            && !self.changes_text(issue)
            && !self.changes_milestone(issue)
            && !self.changes_state(issue)
    }

    /// Fails unless the issue, as read back after a write, has these values.
    pub(super) fn check(&self, issue: &TrackerIssue) -> Result<(), TrackerError> {
        let mut missing = Vec::new();
        if self.labels_of(issue).is_some() {
            missing.push("labels");
        }
        if self.changes_text(issue) {
            missing.push("text");
        }
        if self.changes_milestone(issue) {
            missing.push("milestone");
        }
        if self.changes_state(issue) {
            missing.push("state");
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(TrackerError::NotEffective {
            id: issue.id.to_string(),
            fields: missing.join(", "),
        })
    }
}
