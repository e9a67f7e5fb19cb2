//! Sessions: conversations, with a name for users and a version for programs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ActorName, Sequence, SessionId, Timestamp, TokenUsage};

const MAX_NAME_LENGTH: usize = 200;

/// Version of a mutable row: incremented by every update, and an update names the version it read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// The text is not a valid session name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionNameError {
    /// The name contains only white space.
    #[error("a session name cannot be empty")]
    Empty,
    /// The name has more than 200 characters.
    #[error("the session name has {0} characters, more than {MAX_NAME_LENGTH}")]
    TooLong(usize),
    /// The name contains a control character such as a line break.
    #[error("the session name contains a control character")]
    Control,
}

/// Name of a session: one line of free text. Several sessions may share a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(String);

impl SessionName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl FromStr for SessionName {
    type Err = SessionNameError;

    fn from_str(text: &str) -> Result<Self, SessionNameError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(SessionNameError::Empty);
        }
        if trimmed.chars().any(char::is_control) {
            return Err(SessionNameError::Control);
        }
        let length = trimmed.chars().count();
        if length > MAX_NAME_LENGTH {
            return Err(SessionNameError::TooLong(length));
        }
        Ok(Self(trimmed.to_owned()))
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: SessionId,
    /// Name chosen by the user.
    pub name: Option<SessionName>,
    /// Actor that answers in the session.
    pub actor: Option<ActorName>,
    /// Namespace; `local` by default.
    pub namespace: String,
    /// Automation profile of plans of the session.
    pub automation: String,
    /// Number of messages, which is also the number of the next one.
    pub message_count: u64,
    /// Total size of message contents in bytes.
    pub content_bytes: u64,
    /// Token usage of the models in the session.
    pub usage: TokenUsage,
    /// Session and message that this session was forked from.
    pub forked_from: Option<(SessionId, Sequence)>,
    /// Version of name, actor and settings; messages do not change it.
    pub version: Version,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change, messages included.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::SessionName;
    use proptest::prelude::*;

    #[test]
    fn names_are_one_line_of_text() {
        assert_eq!(
            "  weekly planning "
                .parse::<SessionName>()
                .expect("name")
                .as_str(),
            "weekly planning"
        );
        for text in ["", "  ", "a\nb", "a\0b"] {
            assert!(text.parse::<SessionName>().is_err(), "{text:?}");
        }
        assert!("x".repeat(201).parse::<SessionName>().is_err());
    }

    proptest! {
        #[test]
        fn a_name_round_trips_through_text(text in "\\PC{0,250}") {
            if let Ok(name) = text.parse::<SessionName>() {
                prop_assert_eq!(name.to_string().parse::<SessionName>().expect("printed"), name);
            }
        }
    }
}
