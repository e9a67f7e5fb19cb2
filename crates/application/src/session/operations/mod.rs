//! The operations on sessions.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod compact;
mod create;
mod export;
mod import;
mod list;
mod manage;
mod messages;
mod search;
mod show;
mod tell;
mod unfinished;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    ActorName, Code, Name, Sequence, Session, SessionId, SessionName, Timestamp, Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::SessionError;
use crate::operation::{OperationEntry, OperationError, Requirement};

pub use compact::{CompactSession, CompactedSession};
pub use create::{CreateSession, CreatedSession, SessionSettings};
pub use export::{
    ExportContents, ExportFormat, ExportIntegrity, ExportReport, ExportSession, ExportedFile,
    ExportedSession,
};
pub use import::{ImportOrigin, ImportReport, ImportSession, ImportValidation, ImportedSession};
pub use list::{ListSessions, ListedSessionInfo, SessionList, SessionListSummary, SessionOrder};
pub use manage::{
    DeleteSession, DeletedSession, DeletionSummary, ForkSession, ForkedSession, RenameSession,
    RenamedSession,
};
pub use messages::{
    AppendMessage, AppendedMessage, ListMessages, ListedMessage, MessageList, MetadataParameter,
};
pub use search::{MessageMatch, SearchMessages, SearchResults, SearchWords};
pub use show::{RecentMessage, SessionDetails, SessionSummary, SessionUsage, ShowSession};
pub use tell::{
    InterruptedTurn, LocalTurnOptions, TellSession, TurnMode, TurnResult, TurnSession,
    TurnToolCall, TurnUsage,
};
pub use unfinished::{FindUnfinished, UnfinishedConversation, UnfinishedPlan, UnfinishedWork};

/// The operations on sessions.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<CreateSession>(),
    OperationEntry::new::<ListSessions>(),
    OperationEntry::new::<ShowSession>(),
    OperationEntry::new::<AppendMessage>(),
    OperationEntry::new::<ListMessages>(),
    OperationEntry::new::<RenameSession>(),
    OperationEntry::new::<DeleteSession>(),
    OperationEntry::new::<ForkSession>(),
    OperationEntry::new::<SearchMessages>(),
    OperationEntry::new::<ExportSession>(),
    OperationEntry::new::<ImportSession>(),
    OperationEntry::new::<TellSession>(),
    OperationEntry::new::<CompactSession>(),
];

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Sessions, permission)
}

fn parse_id(reference: &str) -> Result<SessionId, OperationError> {
    let id = reference.parse();
    id.map_err(|_| SessionError::NotFound(reference.to_owned()).into())
}

fn parse_name(text: &str) -> Result<SessionName, OperationError> {
    Ok(text.parse::<SessionName>().map_err(SessionError::from)?)
}

fn parse_namespace(text: &str) -> Result<String, OperationError> {
    let name = format!("{text}/session").parse::<Name>();
    let name = name.map_err(|error| OperationError::new(Code::InvalidName, error.to_string()))?;
    Ok(name.namespace().to_owned())
}

fn parse_actor(text: &str) -> Result<ActorName, OperationError> {
    Ok(text.parse::<ActorName>().map_err(SessionError::from)?)
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    pub id: SessionId,
    pub name: Option<String>,
    pub actor: Option<String>,
    pub namespace: String,
    /// The number of messages, which is also the sequence number of the next message.
    pub messages: u64,
    /// The version of name, actor and settings. New messages do not change the version.
    pub version: Version,
    pub created: Timestamp,
    /// The time of the last change, including new messages.
    pub updated: Timestamp,
}

impl From<&Session> for SessionInfo {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id,
            name: session.name.as_ref().map(ToString::to_string),
            actor: session.actor.as_ref().map(ToString::to_string),
            namespace: session.namespace.clone(),
            messages: session.message_count,
            version: session.version,
            created: session.created_at,
            updated: session.updated_at,
        }
    }
}

/// The origin of a forked session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkOrigin {
    pub session_id: SessionId,
    /// The number of the last copied message; `null` when the original had no messages.
    pub sequence: Option<Sequence>,
}
