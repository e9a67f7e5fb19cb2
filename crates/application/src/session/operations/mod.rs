//! The operations on sessions.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod create;
mod export;
mod import;
mod list;
mod manage;
mod messages;
mod search;
mod show;
mod tell;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    ActorName, Code, Name, Sequence, Session, SessionId, SessionName, Timestamp, Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::SessionError;
use crate::operation::{OperationEntry, OperationError, Requirement};

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
    let whole = format!("{text}/session").parse::<Name>();
    let whole = whole.map_err(|error| OperationError::new(Code::InvalidName, error.to_string()))?;
    Ok(whole.namespace().to_owned())
}

fn parse_actor(text: &str) -> Result<ActorName, OperationError> {
    Ok(text.parse::<ActorName>().map_err(SessionError::from)?)
}

/// A session as operations return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    pub id: SessionId,
    pub name: Option<String>,
    pub actor: Option<String>,
    pub namespace: String,
    /// The number of messages, which is also the number of the next one.
    pub messages: u64,
    /// The version of name, actor and settings; messages do not change it.
    pub version: Version,
    pub created: Timestamp,
    /// The time of the last change, messages included.
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
    /// The last message that was copied; `null` when the original had none.
    pub sequence: Option<Sequence>,
}
