//! `session/append` and `session/messages`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{parse_id, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::session::error::SessionError;
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    Message, MessageId, MessageState, Metadata, Role, Sequence, SessionId, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Appends one message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendMessage {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    #[serde(default = "user")]
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool"]))]
    pub role: String,
    pub text: String,
    /// Metadata of the message: a JSON object, or a string that contains one.
    #[serde(default)]
    pub metadata: MetadataParameter,
}

fn user() -> String {
    Role::User.as_str().to_owned()
}

/// Metadata of a new message.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MetadataParameter {
    Object(Metadata),
    /// A JSON object as text.
    Text(String),
    #[default]
    Missing,
}

impl MetadataParameter {
    fn parse(self) -> Result<Metadata, SessionError> {
        match self {
            Self::Object(metadata) => Ok(metadata),
            Self::Text(text) => serde_json::from_str(&text)
                .map_err(|error| SessionError::Metadata(error.to_string())),
            Self::Missing => Ok(Metadata::new()),
        }
    }
}

/// The response of `session/append`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppendedMessage {
    pub session_id: SessionId,
    pub sequence: Sequence,
    pub message_id: MessageId,
    pub role: Role,
}

impl Operation for AppendMessage {
    const NAME: &'static str = "session/append";
    const SUMMARY: &'static str = "Append a message to a session";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = AppendedMessage;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<AppendedMessage, OperationError> {
        let role: Role = self.role.parse().map_err(SessionError::from)?;
        let metadata = self.metadata.parse()?;
        let id = parse_id(&self.reference)?;
        let stored = context
            .sessions()
            .append_message(id, role, self.text, metadata)?;
        Ok(AppendedMessage {
            session_id: id,
            sequence: stored.sequence,
            message_id: stored.id,
            role,
        })
    }
}

/// Lists the messages of a session in order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMessages {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// Only messages after this sequence number.
    #[serde(default)]
    pub after: Option<u64>,
    /// Maximum number of results; all when not given.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// The response of `session/messages`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MessageList {
    pub session_id: SessionId,
    pub messages: Vec<ListedMessage>,
    pub total: u64,
    /// The value of `after` for the next page; `null` on the last page.
    pub next_after: Option<Sequence>,
}

/// A listed message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedMessage {
    pub sequence: Sequence,
    pub message_id: MessageId,
    pub role: Role,
    pub content: String,
    pub timestamp: Timestamp,
    pub metadata: Metadata,
    pub state: MessageState,
}

impl From<Message> for ListedMessage {
    fn from(message: Message) -> Self {
        Self {
            sequence: message.sequence,
            message_id: message.id,
            role: message.role,
            content: message.content,
            timestamp: message.created_at,
            metadata: message.metadata,
            state: message.state,
        }
    }
}

impl Operation for ListMessages {
    const NAME: &'static str = "session/messages";
    const SUMMARY: &'static str = "List the messages of a session in order";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = MessageList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<MessageList, OperationError> {
        let sessions = context.sessions();
        let id = parse_id(&self.reference)?;
        let from = Sequence(self.after.map_or(0, |after| after.saturating_add(1)));
        let limit = self.limit.unwrap_or(i64::MAX.unsigned_abs());
        let total = sessions.get(id)?.message_count;
        let messages = sessions.messages(id, from, limit)?;
        let last = messages.last().map(|message| message.sequence);
        Ok(MessageList {
            session_id: id,
            messages: messages.into_iter().map(ListedMessage::from).collect(),
            total,
            next_after: last.filter(|last| last.0 + 1 < total),
        })
    }
}
