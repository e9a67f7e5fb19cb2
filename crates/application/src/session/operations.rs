//! The operations on sessions.

#![expect(missing_docs, reason = "comments say what names of fields do not")]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    ActorName, Code, LinkedPlan, Message, MessageId, MessageState, Metadata, Name, Role, Sequence,
    Session, SessionId, SessionName, Timestamp, Version,
};
use cleveragents_store::search::{MATCH_MARKS, Scope as SearchScope};
use cleveragents_store::sessions::{Direction, Expect, ListedSession, SessionFilter, SortKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::SessionError;
use super::export::{EXPORT_SCHEMA, ExportSummary};
use super::import::ImportCheck;
use super::service::SessionService;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    require_confirmation,
};
use crate::usage::CostReport;

/// The largest export in a response, in bytes: client and server hold it in memory.
const MAX_EXPORT_BYTES: usize = 64 << 20;

/// The operations on sessions.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::of::<CreateSession>(),
    OperationEntry::of::<ListSessions>(),
    OperationEntry::of::<ShowSession>(),
    OperationEntry::of::<AppendMessage>(),
    OperationEntry::of::<ListMessages>(),
    OperationEntry::of::<RenameSession>(),
    OperationEntry::of::<DeleteSession>(),
    OperationEntry::of::<ForkSession>(),
    OperationEntry::of::<SearchMessages>(),
    OperationEntry::of::<ExportSession>(),
    OperationEntry::of::<ImportSession>(),
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

/// Where a forked session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkOrigin {
    pub session_id: SessionId,
    /// The last message that was copied; `null` when the original had none.
    pub sequence: Option<Sequence>,
}

/// Starts a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// One line of text.
    #[serde(default)]
    pub name: Option<String>,
    /// The actor that answers, such as `local/orchestrator` or `openai/gpt-5`.
    #[serde(default)]
    pub actor: Option<String>,
    /// The namespace of the session. May be left out by callers who can write to only one.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// The response of `session/create`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedSession {
    pub session: SessionInfo,
    pub settings: SessionSettings,
}

/// The settings of a new session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionSettings {
    /// The automation profile that its plans start with.
    pub automation: String,
    pub max_message_bytes: u64,
}

impl Operation for CreateSession {
    const NAME: &'static str = "session/create";
    const SUMMARY: &'static str = "Start a session";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = CreatedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.new_in(&mut self.namespace)?;
        match &mut self.actor {
            Some(actor) => resolver.read_name(actor, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<CreatedSession, OperationError> {
        let name = self.name.as_deref().map(parse_name).transpose()?;
        let actor = self.actor.as_deref().map(parse_actor).transpose()?;
        let settings = context.settings();
        let automation = &settings.automation_profile;
        let sessions = context.sessions();
        let session = match self.namespace.as_deref() {
            None => sessions.create(name, actor, automation)?,
            Some(namespace) => {
                sessions.create_in(&parse_namespace(namespace)?, name, actor, automation)?
            }
        };
        Ok(CreatedSession {
            session: SessionInfo::from(&session),
            settings: SessionSettings {
                automation: session.automation,
                max_message_bytes: settings.max_message_bytes as u64,
            },
        })
    }
}

fn parse_actor(text: &str) -> Result<ActorName, OperationError> {
    Ok(text.parse::<ActorName>().map_err(SessionError::from)?)
}

/// The order of listed sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionOrder {
    /// Last changed first.
    #[default]
    Updated,
    /// Newest first.
    Created,
    Name,
    /// Most messages first.
    Messages,
}

impl From<SessionOrder> for SortKey {
    fn from(order: SessionOrder) -> Self {
        match order {
            SessionOrder::Updated => Self::Updated,
            SessionOrder::Created => Self::Created,
            SessionOrder::Name => Self::Name,
            SessionOrder::Messages => Self::Messages,
        }
    }
}

/// Lists sessions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSessions {
    /// Only sessions whose name contains this text.
    #[serde(default)]
    pub name: Option<String>,
    /// Only sessions with this actor.
    #[serde(default)]
    pub actor: Option<String>,
    /// Only sessions in this namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Only sessions changed at or after this time (RFC 3339).
    #[serde(default)]
    pub since: Option<Timestamp>,
    #[serde(default)]
    pub sort: SessionOrder,
    /// Reverse the order.
    #[serde(default)]
    pub reverse: bool,
    /// Maximum number of results; all when not given.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Number of results to skip.
    #[serde(default)]
    pub offset: u64,
    /// Whether each session has its `short_id`.
    #[serde(default)]
    pub short_ids: bool,
}

/// The response of `session/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<ListedSessionInfo>,
    pub summary: SessionListSummary,
}

/// A listed session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedSessionInfo {
    pub id: SessionId,
    /// The shortest prefix of the id that names no other session; only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    pub name: Option<String>,
    pub actor: Option<String>,
    pub messages: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
}

impl From<ListedSession> for ListedSessionInfo {
    fn from(session: ListedSession) -> Self {
        Self {
            id: session.id,
            short_id: None,
            name: session.name.map(SessionName::into_string),
            actor: session.actor.map(|actor| actor.to_string()),
            messages: session.message_count,
            created: session.created_at,
            updated: session.updated_at,
        }
    }
}

/// Totals of all sessions that the caller may read, and of the listed ones.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionListSummary {
    pub total: u64,
    /// The number of sessions that match the filter, on all pages.
    pub matching: u64,
    /// Name or id of the listed session that changed last.
    pub most_recent: Option<String>,
    /// Name or id of the listed session that was created first.
    pub oldest: Option<String>,
    pub total_messages: u64,
    /// Bytes of message text.
    pub storage: u64,
}

impl Operation for ListSessions {
    const NAME: &'static str = "session/list";
    const SUMMARY: &'static str = "List sessions";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = SessionList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<SessionList, OperationError> {
        let actor = self.actor.as_deref().map(parse_actor).transpose()?;
        let filter = SessionFilter {
            actor,
            namespace: self.namespace,
            visible: context.visible(Scope::Sessions),
            name_contains: self.name,
            updated_since: self.since,
            sort: self.sort.into(),
            direction: if self.reverse {
                Direction::Reversed
            } else {
                Direction::Natural
            },
            offset: self.offset,
            limit: self.limit,
        };
        let service = context.sessions();
        let (page, totals) = service.list(&filter)?;
        let mut sessions: Vec<ListedSessionInfo> =
            page.sessions.into_iter().map(Into::into).collect();
        if self.short_ids {
            let ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
            for (session, short) in sessions.iter_mut().zip(service.shown_ids(&ids)?) {
                session.short_id = Some(short);
            }
        }
        let label = |session: &ListedSessionInfo| {
            let name = session.name.clone();
            name.unwrap_or_else(|| session.id.to_string())
        };
        let summary = SessionListSummary {
            total: totals.sessions,
            matching: page.matching,
            most_recent: sessions
                .iter()
                .max_by_key(|listed| listed.updated)
                .map(label),
            oldest: sessions
                .iter()
                .min_by_key(|listed| listed.created)
                .map(label),
            total_messages: totals.messages,
            storage: totals.content_bytes,
        };
        Ok(SessionList { sessions, summary })
    }
}

/// Shows a session and its last messages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The number of last messages to return.
    #[serde(default = "ten")]
    pub recent: u64,
}

const fn ten() -> u64 {
    10
}

/// The response of `session/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionDetails {
    pub session_summary: SessionSummary,
    pub recent_messages: Vec<RecentMessage>,
    pub linked_plans: Vec<LinkedPlan>,
    pub token_usage: SessionUsage,
}

/// A session with its settings and origin.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    pub id: SessionId,
    pub name: Option<String>,
    pub actor: Option<String>,
    pub namespace: String,
    pub messages: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub automation: String,
    pub version: Version,
    pub forked_from: Option<ForkOrigin>,
}

/// One of the last messages of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecentMessage {
    pub sequence: Sequence,
    pub role: Role,
    pub text: String,
    pub timestamp: Timestamp,
    pub state: MessageState,
}

/// What the models of a session used.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(flatten)]
    pub cost: CostReport,
}

impl Operation for ShowSession {
    const NAME: &'static str = "session/show";
    const SUMMARY: &'static str = "Show a session and its last messages";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = SessionDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<SessionDetails, OperationError> {
        let sessions = context.sessions();
        let view = sessions.view(parse_id(&self.reference)?, self.recent)?;
        let session = view.session;
        let is_cost_known = sessions.is_cost_known(session.id)?;
        let usage = session.usage;
        Ok(SessionDetails {
            session_summary: SessionSummary {
                id: session.id,
                name: session.name.map(SessionName::into_string),
                actor: session.actor.map(|actor| actor.to_string()),
                namespace: session.namespace,
                messages: session.message_count,
                created: session.created_at,
                updated: session.updated_at,
                automation: session.automation,
                version: session.version,
                forked_from: session
                    .forked_from
                    .map(|(session_id, sequence)| ForkOrigin {
                        session_id,
                        sequence: Some(sequence),
                    }),
            },
            recent_messages: view.recent.into_iter().map(RecentMessage::from).collect(),
            linked_plans: view.plans,
            token_usage: SessionUsage {
                input_tokens: usage.input_tokens.0,
                output_tokens: usage.output_tokens.0,
                cost: CostReport::new(usage.cost_micro_usd, is_cost_known),
            },
        })
    }
}

impl From<Message> for RecentMessage {
    fn from(message: Message) -> Self {
        Self {
            sequence: message.sequence,
            role: message.role,
            text: message.content,
            timestamp: message.created_at,
            state: message.state,
        }
    }
}

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
    /// Facts about the message: a JSON object, or a string that holds one.
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
    /// Only messages after this number.
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

/// Renames a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The new name, one line of text.
    pub name: String,
    /// Only if the session is still at this version.
    #[serde(default)]
    pub if_version: Option<u64>,
}

/// The response of `session/rename`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RenamedSession {
    pub session: SessionInfo,
}

impl Operation for RenameSession {
    const NAME: &'static str = "session/rename";
    const SUMMARY: &'static str = "Rename a session";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = RenamedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<RenamedSession, OperationError> {
        let name = parse_name(&self.name)?;
        let version = self.if_version.map(Version);
        let expect = version.map_or(Expect::Any, Expect::Exactly);
        let sessions = context.sessions();
        let session = sessions.rename(parse_id(&self.reference)?, name, expect)?;
        Ok(RenamedSession {
            session: SessionInfo::from(&session),
        })
    }
}

/// Deletes a session and its messages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// Confirms the deletion; without it nothing is deleted.
    #[serde(default)]
    pub yes: bool,
}

/// The response of `session/delete`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedSession {
    pub deletion_summary: DeletionSummary,
}

/// What was deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletionSummary {
    pub session: Option<String>,
    pub id: SessionId,
    pub messages_removed: u64,
    /// Bytes of message text.
    pub storage_freed: u64,
    /// The number of plans that referred to the session; they remain.
    pub plans_orphaned: u64,
}

impl Operation for DeleteSession {
    const NAME: &'static str = "session/delete";
    const SUMMARY: &'static str = "Delete a session and its messages";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = DeletedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<DeletedSession, OperationError> {
        require_confirmation(self.yes)?;
        let sessions = context.sessions();
        let id = parse_id(&self.reference)?;
        let plans = sessions.view(id, 0)?.plans.len() as u64;
        let session = sessions.delete(id)?;
        Ok(DeletedSession {
            deletion_summary: DeletionSummary {
                session: session.name.map(SessionName::into_string),
                id: session.id,
                messages_removed: session.message_count,
                storage_freed: session.content_bytes,
                plans_orphaned: plans,
            },
        })
    }
}

/// Makes a new session from the beginning of another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The last message to copy; all of them when not given.
    #[serde(default)]
    pub at: Option<u64>,
    /// The name of the new session; that of the original when not given.
    #[serde(default)]
    pub name: Option<String>,
}

/// The response of `session/fork`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ForkedSession {
    pub session: SessionInfo,
    pub forked_from: ForkOrigin,
}

impl Operation for ForkSession {
    const NAME: &'static str = "session/fork";
    const SUMMARY: &'static str = "Make a new session from the beginning of another";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = ForkedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<ForkedSession, OperationError> {
        let name = self.name.as_deref().map(parse_name).transpose()?;
        let source = parse_id(&self.reference)?;
        let at = self.at.map(Sequence);
        let progress = context.progress("Copying messages");
        let session = context.sessions().fork(source, at, name, progress)?;
        Ok(ForkedSession {
            session: SessionInfo::from(&session),
            forked_from: ForkOrigin {
                session_id: source,
                sequence: session.forked_from.map(|(_, sequence)| sequence),
            },
        })
    }
}

/// Searches all messages. All words must occur; quotes make a phrase, a star at the end matches a prefix.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMessages {
    pub query: SearchWords,
    /// Only in this session.
    #[serde(default)]
    pub session: Option<String>,
    /// Only messages of this role.
    #[serde(default)]
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool", null]))]
    pub role: Option<String>,
    /// Maximum number of results.
    #[serde(default = "twenty")]
    pub limit: u64,
    /// Whether each match has its `short_session_id`.
    #[serde(default)]
    pub short_ids: bool,
}

const fn twenty() -> u64 {
    20
}

/// The words of a search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SearchWords {
    Text(String),
    /// Joined by spaces.
    List(Vec<String>),
}

/// The response of `session/search`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SearchResults {
    pub query: String,
    pub matches: Vec<MessageMatch>,
}

/// A message that matches a search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MessageMatch {
    pub session_id: SessionId,
    /// The shortest prefix of the session's id that names no other session; only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_session_id: Option<String>,
    pub session_name: Option<String>,
    pub message_id: MessageId,
    pub sequence: Sequence,
    pub role: Role,
    pub excerpt: String,
    /// Start and end of each match in `excerpt`, in bytes.
    #[serde(default)]
    pub highlights: Vec<(u64, u64)>,
    /// Higher is better.
    pub score: f64,
    pub timestamp: Timestamp,
}

impl Operation for SearchMessages {
    const NAME: &'static str = "session/search";
    const SUMMARY: &'static str = "Search all messages";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = SearchResults;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.session {
            Some(session) => resolver.session(session),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<SearchResults, OperationError> {
        let role = self.role.as_deref().map(str::parse::<Role>).transpose();
        let role = role.map_err(SessionError::from)?;
        let session = self.session.as_deref().map(parse_id).transpose()?;
        let query = match self.query {
            SearchWords::Text(text) => text,
            SearchWords::List(words) => words.join(" "),
        };
        let sessions = context.sessions();
        let progress = context.progress("Indexing messages");
        let scope = SearchScope {
            session,
            role,
            visible: context.visible(Scope::Sessions),
        };
        let hits = sessions.search(&query, &scope, self.limit, progress.as_ref())?;
        let mut matches: Vec<MessageMatch> = hits
            .into_iter()
            .map(|hit| {
                let (excerpt, highlights) = plain_excerpt(&hit.excerpt);
                MessageMatch {
                    session_id: hit.session,
                    short_session_id: None,
                    session_name: hit.session_name.map(SessionName::into_string),
                    message_id: hit.message,
                    sequence: hit.sequence,
                    role: hit.role,
                    excerpt,
                    highlights,
                    score: hit.score,
                    timestamp: hit.created_at,
                }
            })
            .collect();
        if self.short_ids {
            let ids: Vec<_> = matches.iter().map(|hit| hit.session_id).collect();
            for (hit, short) in matches.iter_mut().zip(sessions.shown_ids(&ids)?) {
                hit.short_session_id = Some(short);
            }
        }
        Ok(SearchResults { query, matches })
    }
}

/// An excerpt without the marks of the search index, and the byte ranges that they enclosed.
fn plain_excerpt(marked: &str) -> (String, Vec<(u64, u64)>) {
    let mut plain = String::with_capacity(marked.len());
    let mut highlights = Vec::new();
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once(MATCH_MARKS.0) {
        plain.push_str(before);
        let (inside, after) = after.split_once(MATCH_MARKS.1).unwrap_or((after, ""));
        let start = plain.len() as u64;
        plain.push_str(inside);
        highlights.push((start, plain.len() as u64));
        rest = after;
    }
    plain.push_str(rest);
    (plain, highlights)
}

/// The form of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// Can be imported again.
    #[default]
    Json,
    /// For reading.
    #[serde(alias = "md")]
    Markdown,
}

impl ExportFormat {
    /// The name in requests and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "markdown",
        }
    }
}

/// Exports a session as one document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    #[serde(default)]
    pub document: ExportFormat,
}

/// The response of `session/export`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportedSession {
    /// The document itself, at most 64 MiB.
    pub document: String,
    #[serde(flatten)]
    pub report: ExportReport,
}

/// What an export contains.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportReport {
    pub session_export: ExportedFile,
    pub contents: ExportContents,
    pub integrity: ExportIntegrity,
}

/// The exported document as a file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportedFile {
    pub session: SessionId,
    /// The file that the document was written to; missing when it was returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    pub messages: u64,
    /// Bytes of the document.
    pub size: u64,
    pub format: ExportFormat,
}

/// What an exported document holds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportContents {
    pub messages: u64,
    pub plan_references: u64,
    /// Metadata keys of all messages together.
    pub metadata_keys: u64,
    pub schema_version: String,
}

/// How an exported document can be verified.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportIntegrity {
    /// SHA-256 of a JSON export; markdown has none.
    pub checksum: Option<String>,
    pub encrypted: bool,
}

impl ExportReport {
    /// The report of an export.
    pub fn new(summary: &ExportSummary, format: ExportFormat) -> Self {
        Self {
            session_export: ExportedFile {
                session: summary.session_id,
                output: None,
                messages: summary.messages,
                size: summary.size_bytes,
                format,
            },
            contents: ExportContents {
                messages: summary.messages,
                plan_references: summary.plan_references,
                metadata_keys: summary.metadata_keys,
                schema_version: EXPORT_SCHEMA.to_owned(),
            },
            integrity: ExportIntegrity {
                checksum: summary.checksum.as_ref().map(ToString::to_string),
                encrypted: false,
            },
        }
    }
}

impl Operation for ExportSession {
    const NAME: &'static str = "session/export";
    const SUMMARY: &'static str = "Export a session as one document";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ExportedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<ExportedSession, OperationError> {
        let mut bytes = BoundedBuffer(Vec::new());
        let sessions = context.sessions();
        let id = parse_id(&self.reference)?;
        let progress = context.progress("Exporting");
        let summary = sessions
            .export(id, self.document, &mut bytes, progress.as_ref())
            .map_err(|error| match error {
                SessionError::Write(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                    let limit = MAX_EXPORT_BYTES >> 20;
                    let message = format!("the export exceeds the limit of {limit} MiB");
                    OperationError::new(Code::LocalOnly, message)
                        .with_hint("export it on the machine of the server, with --local")
                }
                error => error.into(),
            })?;
        let document = String::from_utf8(bytes.0)
            .map_err(|error| OperationError::internal("the export is not text").caused_by(error))?;
        Ok(ExportedSession {
            document,
            report: ExportReport::new(&summary, self.document),
        })
    }
}

impl SessionService {
    /// Writes a session as a document.
    pub fn export(
        &self,
        id: SessionId,
        format: ExportFormat,
        out: &mut dyn std::io::Write,
        progress: Option<&cleveragents_store::ProgressCallback>,
    ) -> Result<ExportSummary, SessionError> {
        match format {
            ExportFormat::Json => self.export_json(id, out, progress),
            ExportFormat::Markdown => self.export_markdown(id, out, progress),
        }
    }
}

/// Bytes, up to [`MAX_EXPORT_BYTES`].
struct BoundedBuffer(Vec<u8>);

impl std::io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_EXPORT_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes a new session from an exported document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportSession {
    /// The document.
    pub text: String,
    /// Accept a document that was changed on purpose and no longer matches its checksum.
    #[serde(default)]
    pub unverified: bool,
    /// The namespace of the new session; the one in the document when not given.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// The response of `session/import`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportedSession {
    pub session_import: ImportReport,
    pub validation: ImportValidation,
    pub merge: ImportOrigin,
}

/// The imported session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportReport {
    /// The file that was read; set by the program that read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    pub session_id: SessionId,
    pub messages: u64,
    pub schema: String,
}

/// What was verified.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportValidation {
    /// `verified` or `not checked`.
    pub checksum: String,
    pub schema: String,
}

/// Where the document came from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportOrigin {
    /// The session that was exported.
    pub existing: SessionId,
    pub strategy: String,
}

impl Operation for ImportSession {
    const NAME: &'static str = "session/import";
    const SUMMARY: &'static str = "Make a new session from an exported document";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = ImportedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.new_in(&mut self.namespace)?;
        resolver.exported_session(&self.text)
    }

    fn run(self, context: &OperationContext) -> Result<ImportedSession, OperationError> {
        let check = if self.unverified {
            ImportCheck::Unverified
        } else {
            ImportCheck::Verified
        };
        let namespace = self.namespace.as_deref().map(parse_namespace).transpose()?;
        let imported = context.sessions().import(
            self.text.as_bytes(),
            check,
            namespace.as_deref(),
            context.progress("Importing"),
        )?;
        let checksum = match check {
            ImportCheck::Verified => "verified",
            ImportCheck::Unverified => "not checked",
        };
        Ok(ImportedSession {
            session_import: ImportReport {
                input: None,
                session_id: imported.session.id,
                messages: imported.session.message_count,
                schema: imported.schema,
            },
            validation: ImportValidation {
                checksum: checksum.to_owned(),
                schema: "compatible".to_owned(),
            },
            merge: ImportOrigin {
                existing: imported.original,
                strategy: "create new".to_owned(),
            },
        })
    }
}
