//! The issues of trackers, as all kinds of trackers return them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::TrackerError;

/// Maximum length of an external id.
const MAX_ID_LENGTH: usize = 200;

/// The kind of a tracker.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TrackerKind {
    /// Forgejo or Gitea.
    Forgejo,
    #[serde(rename = "github")]
    GitHub,
    /// A folder of Markdown files.
    Markdown,
}

impl TrackerKind {
    pub const ALL: [Self; 3] = [Self::Forgejo, Self::GitHub, Self::Markdown];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forgejo => "forgejo",
            Self::GitHub => "github",
            Self::Markdown => "markdown",
        }
    }
}

impl fmt::Display for TrackerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for TrackerKind {
    type Err = TrackerError;

    fn from_str(text: &str) -> Result<Self, TrackerError> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text)
            .ok_or_else(|| TrackerError::InvalidSource {
                reason: format!("`{text}` is no kind of tracker: use forgejo, github or markdown"),
            })
    }
}

/// The id of an issue at its tracker: its number, or the name of its file without `.md`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExternalId(String);

impl ExternalId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of an issue at a forge.
    pub(super) fn number(&self) -> Result<u64, TrackerError> {
        let number = self.0.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| TrackerError::InvalidId(self.0.clone()))
    }
}

impl From<u64> for ExternalId {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl FromStr for ExternalId {
    type Err = TrackerError;

    /// Accepts names that are one part of a path and of a URL, and not hidden.
    fn from_str(text: &str) -> Result<Self, TrackerError> {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let is_valid = !text.is_empty()
            && text.len() <= MAX_ID_LENGTH
            && !text.starts_with(['.', '-'])
            && text.chars().all(is_plain);
        if is_valid {
            return Ok(Self(text.to_owned()));
        }
        Err(TrackerError::InvalidId(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for ExternalId {
    type Error = TrackerError;

    fn try_from(text: String) -> Result<Self, TrackerError> {
        text.parse()
    }
}

impl From<ExternalId> for String {
    fn from(id: ExternalId) -> Self {
        id.0
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// An issue as the tracker has it. Texts are those of other users and are never interpreted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackerIssue {
    pub id: ExternalId,
    pub title: String,
    pub body: String,
    pub is_closed: bool,
    /// Names of its labels.
    pub labels: BTreeSet<String>,
    /// Title of its milestone.
    pub milestone: Option<String>,
    /// Name of the account that created it.
    pub author: Option<String>,
    /// Changes when the issue changes: the time of the last update, or the hash of the file.
    pub revision: String,
    /// Page of the issue, or path of the file.
    pub address: Option<String>,
    /// The idempotency key of the write that created it, if its text ends with one.
    pub write_key: Option<String>,
}

/// A complete listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackerListing {
    /// Sorted by id, without repetitions.
    pub issues: Vec<TrackerIssue>,
    /// The total that the tracker reported; the number of issues is equal to it.
    pub total: u64,
}

/// An issue to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewIssue {
    pub title: String,
    pub body: String,
    /// Names of existing labels.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// Title of an existing milestone.
    #[serde(default)]
    pub milestone: Option<String>,
}

/// Effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrackerEffect {
    /// This attempt wrote it.
    Written,
    /// An earlier attempt with the same key wrote it.
    FoundEarlier,
    /// The tracker has these values already.
    Unchanged,
}

/// The issue after a write, as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenIssue {
    pub issue: TrackerIssue,
    pub effect: TrackerEffect,
    /// The reason why a new issue lacks some of its fields. The issue exists and stays.
    pub shortfall: Option<TrackerError>,
}

/// A comment after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenComment {
    /// Id of the comment at the tracker.
    pub id: String,
    pub effect: TrackerEffect,
}
