//! Typed fields of work items.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::stored_enum::stored_enum;

stored_enum! {
    /// Kind of a work item.
    WorkItemKind {
        /// A defect.
        Bug = "bug",
        /// New behavior.
        Feature = "feature",
        /// Work without a change of behavior, such as the search for defects in a module.
        Task = "task",
        /// A missing test.
        Test = "test",
        /// A change of the structure of the code.
        Refactor = "refactor",
        /// A change of the documentation.
        Documentation = "documentation",
        /// A group of items.
        Epic = "epic",
        /// An analysis of an item for which all attempts failed.
        PostMortem = "post_mortem",
    }
}

stored_enum! {
    /// Priority of a work item, most urgent first.
    Priority {
        /// The base branch fails its gates; everything else waits.
        CiBlocker = "ci_blocker",
        /// Data loss, a security defect or a broken main function.
        Critical = "critical",
        /// Important for the next milestone.
        High = "high",
        /// Ordinary work.
        Medium = "medium",
        /// Work that can wait.
        Low = "low",
        /// Work without a date.
        Backlog = "backlog",
    }
}

impl Priority {
    /// Position in the order of work, from 0.
    pub const fn rank(self) -> u64 {
        match self {
            Self::CiBlocker => 0,
            Self::Critical => 1,
            Self::High => 2,
            Self::Medium => 3,
            Self::Low => 4,
            Self::Backlog => 5,
        }
    }
}

stored_enum! {
    /// Importance of an item for its milestone.
    Moscow {
        Must = "must",
        Should = "should",
        Could = "could",
        /// Not in this milestone.
        WontHave = "wont_have",
    }
}

stored_enum! {
    /// Severity of a finding, worst first.
    Severity {
        /// Data loss, a security hole, a crash in ordinary use.
        Critical = "critical",
        /// Wrong results or a failure in ordinary use.
        High = "high",
        /// A failure in rare cases.
        Medium = "medium",
        /// No effect on behavior.
        Low = "low",
    }
}

impl Severity {
    /// Whether this severity is `limit` or worse.
    pub fn is_at_least(self, limit: Self) -> bool {
        self <= limit
    }
}

/// Estimated effort: one of 1, 2, 3, 5, 8, 13, 21, 34, 55, 88.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct StoryPoints(u32);

/// The number of story points is not on the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} story points are not on the scale: 1, 2, 3, 5, 8, 13, 21, 34, 55, 88")]
pub struct StoryPointsError(pub u32);

impl StoryPoints {
    /// The allowed estimates.
    pub const SCALE: [u32; 10] = [1, 2, 3, 5, 8, 13, 21, 34, 55, 88];

    /// Checks that the scale contains the number.
    pub fn new(points: u32) -> Result<Self, StoryPointsError> {
        if Self::SCALE.contains(&points) {
            return Ok(Self(points));
        }
        Err(StoryPointsError(points))
    }

    /// The number of points.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for StoryPoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u32::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for StoryPoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// An invalid text of a work item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkItemTextError {
    #[error("the title is empty")]
    EmptyTitle,
    #[error("the {field} has {length} characters, more than the maximum of {maximum}")]
    TooLong {
        field: &'static str,
        length: usize,
        maximum: usize,
    },
    #[error("the {0} contains a NUL character, which cannot be stored")]
    Unstorable(&'static str),
    #[error("`{0}` is not a label: one line of 1 to {maximum} characters without a comma", maximum = MAX_LABEL_LENGTH)]
    Label(String),
}

/// Maximum number of characters of a title.
pub const MAX_TITLE_LENGTH: usize = 300;
/// Maximum number of characters of a description.
pub const MAX_BODY_LENGTH: usize = 100_000;
/// Maximum number of characters of a label.
pub const MAX_LABEL_LENGTH: usize = 80;

fn check_length(field: &'static str, text: &str, maximum: usize) -> Result<(), WorkItemTextError> {
    let length = text.chars().count();
    if length > maximum {
        return Err(WorkItemTextError::TooLong {
            field,
            length,
            maximum,
        });
    }
    if text.contains('\0') {
        return Err(WorkItemTextError::Unstorable(field));
    }
    Ok(())
}

/// Checks a title and reduces its white space to single spaces.
pub fn checked_title(text: &str) -> Result<String, WorkItemTextError> {
    let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() {
        return Err(WorkItemTextError::EmptyTitle);
    }
    check_length("title", &title, MAX_TITLE_LENGTH)?;
    Ok(title)
}

/// Checks a description.
pub fn checked_body(text: &str) -> Result<String, WorkItemTextError> {
    check_length("description", text, MAX_BODY_LENGTH)?;
    Ok(text.trim_end().to_owned())
}

/// Checks labels.
pub fn checked_labels<'a>(
    labels: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, WorkItemTextError> {
    labels
        .into_iter()
        .map(|label| {
            let label = label.trim();
            let is_valid = !label.is_empty()
                && label.chars().count() <= MAX_LABEL_LENGTH
                && !label.contains([',', '\n', '\r', '\0']);
            if is_valid {
                Ok(label.to_owned())
            } else {
                Err(WorkItemTextError::Label(label.to_owned()))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        Priority, Severity, StoryPoints, WorkItemTextError, checked_body, checked_labels,
        checked_title,
    };

    #[test]
    fn points_are_on_the_scale() {
        assert_eq!(StoryPoints::new(13).map(StoryPoints::get), Ok(13));
        for wrong in [0, 4, 89] {
            assert!(StoryPoints::new(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<StoryPoints>("4").is_err());
        assert_eq!(
            serde_json::from_str::<StoryPoints>("88")
                .map(StoryPoints::get)
                .ok(),
            Some(88)
        );
    }

    #[test]
    fn priorities_and_severities_are_ordered_by_urgency() {
        let ranks: Vec<u64> = Priority::ALL
            .iter()
            .map(|priority| priority.rank())
            .collect();
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5]);
        assert!(Severity::Critical.is_at_least(Severity::High));
        assert!(Severity::High.is_at_least(Severity::High));
        assert!(!Severity::Medium.is_at_least(Severity::High));
    }

    #[test]
    fn texts_are_checked() {
        assert_eq!(checked_title("  a \n b ").as_deref(), Ok("a b"));
        assert_eq!(checked_title(" \n"), Err(WorkItemTextError::EmptyTitle));
        assert!(checked_title(&"x".repeat(301)).is_err());
        assert!(checked_body("a\0b").is_err());
        assert!(checked_labels(["a", "b,c"]).is_err());
        assert_eq!(
            checked_labels([" a ", "a"]).map(|labels| labels.len()),
            Ok(1)
        );
    }
}
