//! Messages of a session.
//!
//! Every database stores the content of a message and returns it byte for byte: [`NewMessage::new`] refuses content for
//! which that is not possible.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MessageId, Timestamp};

/// Default maximum size of the content, in bytes.
pub const DEFAULT_MAX_CONTENT_BYTES: usize = 1024 * 1024;

/// Maximum nesting of metadata. JSON parsers stop at 128 levels, and an export adds some.
const METADATA_DEPTH: usize = 64;

/// Number of a message in its session, from 0, without gaps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MessageRole")]
pub enum Role {
    /// The user or the calling program.
    User,
    /// A model.
    Assistant,
    /// System instructions.
    System,
    /// The result of a tool.
    Tool,
}

/// The role does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role")]
pub struct RoleError(pub String);

impl Role {
    /// All roles, in display order.
    pub const ALL: [Self; 4] = [Self::User, Self::Assistant, Self::System, Self::Tool];

    /// Stored and printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let lower = text.to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == lower)
            .ok_or_else(|| RoleError(text.to_owned()))
    }
}

/// Whether the turn of a message succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// An ordinary message, or half of a complete turn.
    Complete,
    /// The user's half of a turn whose answer failed; the reason is in the metadata.
    Failed,
}

impl MessageState {
    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Complete, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// Arbitrary facts about a message, a JSON object.
pub type Metadata = Map<String, Value>;

/// The content or metadata of a message is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The content contains only white space.
    #[error("the message is empty")]
    Empty,
    /// The content exceeds the size limit.
    #[error("the message has {actual} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Size in bytes.
        actual: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
    /// The content or metadata contains a NUL character, which PostgreSQL cannot store in text.
    #[error("the {part} contains a NUL character at byte {at}")]
    Nul {
        /// `message` or `metadata`.
        part: &'static str,
        /// Byte offset of the character.
        at: usize,
    },
    /// The metadata is nested too deeply for JSON parsers.
    #[error("the metadata is nested more than {METADATA_DEPTH} levels deep")]
    TooDeep,
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let inner_is_deeper = |inner: &Value| levels == 0 || is_deeper(inner, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(inner_is_deeper),
        Value::Object(fields) => fields.values().any(inner_is_deeper),
        _ => false,
    }
}

/// A valid message that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    id: MessageId,
    role: Role,
    content: String,
    metadata: Metadata,
    state: MessageState,
}

impl NewMessage {
    /// Creates a message, or returns why its content cannot be stored.
    pub fn new(
        role: Role,
        content: String,
        metadata: Metadata,
        limit: usize,
    ) -> Result<Self, ContentError> {
        if content.trim().is_empty() {
            return Err(ContentError::Empty);
        }
        if content.len() > limit {
            return Err(ContentError::TooLarge {
                actual: content.len(),
                limit,
            });
        }
        if let Some(at) = content.find('\0') {
            return Err(ContentError::Nul {
                part: "message",
                at,
            });
        }
        if metadata
            .values()
            .any(|value| is_deeper(value, METADATA_DEPTH))
        {
            return Err(ContentError::TooDeep);
        }
        let metadata_bytes = if metadata.is_empty() {
            0
        } else {
            serde_json::to_string(&metadata).map_or(0, |text| text.len())
        };
        if metadata_bytes > limit {
            return Err(ContentError::TooLarge {
                actual: metadata_bytes,
                limit,
            });
        }
        Ok(Self {
            id: MessageId::generate(),
            role,
            content,
            metadata,
            state: MessageState::Complete,
        })
    }

    /// Copies a message under a new id.
    pub fn copy_of(message: Message) -> Self {
        Self {
            id: MessageId::generate(),
            role: message.role,
            content: message.content,
            metadata: message.metadata,
            state: message.state,
        }
    }

    /// Sets the state of a message that already has one, for example in another database.
    #[must_use]
    pub const fn in_state(mut self, state: MessageState) -> Self {
        self.state = state;
        self
    }

    /// Marks the message as the half of a turn whose answer failed, with the reason.
    #[must_use]
    pub fn failed(mut self, reason: &str) -> Self {
        self.state = MessageState::Failed;
        self.metadata.insert(
            "turn_error".to_owned(),
            Value::String(reason.replace('\0', "\u{FFFD}")),
        );
        self
    }

    /// Id, created with the message.
    pub const fn id(&self) -> MessageId {
        self.id
    }

    /// Author of the message.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Text of the message.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Facts about the message.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether the turn of the message succeeded.
    pub const fn state(&self) -> MessageState {
        self.state
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    /// Number in the session.
    pub sequence: Sequence,
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Facts about the message.
    pub metadata: Metadata,
    /// Whether the turn of the message succeeded.
    pub state: MessageState,
    /// Time of storage.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{ContentError, Metadata, NewMessage, Role};
    use proptest::prelude::*;

    #[test]
    fn roles_are_parsed_in_any_case_and_other_words_are_refused() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>(), Ok(role));
            assert_eq!(role.as_str().to_uppercase().parse::<Role>(), Ok(role));
        }
        assert!("human".parse::<Role>().is_err());
        assert!("".parse::<Role>().is_err());
    }

    proptest! {
        #[test]
        fn a_message_is_created_only_with_storable_content(content in "\\PC{0,20}|[ \t\n]{0,5}|a\0b", limit in 1_usize..24) {
            let result = NewMessage::new(Role::User, content.clone(), Metadata::new(), limit);
            let storable = !content.trim().is_empty() && content.len() <= limit && !content.contains('\0');
            prop_assert_eq!(result.is_ok(), storable);
            if let Ok(message) = result {
                prop_assert_eq!(message.content(), content);
            }
        }
    }

    #[test]
    fn metadata_counts_against_the_limit_too() {
        let mut metadata = Metadata::new();
        metadata.insert("big".to_owned(), "x".repeat(100).into());
        let refused = NewMessage::new(Role::User, "hi".to_owned(), metadata, 50);
        assert!(matches!(
            refused,
            Err(ContentError::TooLarge { limit: 50, .. })
        ));
    }
}
