//! `session/list`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{parse_actor, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{SessionId, SessionName, Timestamp};
use cleveragents_store::sessions::{Direction, ListedSession, SessionFilter, SortKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order of listed sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionOrder {
    /// Most recently changed first.
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
    /// Include the `short_id` of each session.
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
    /// The shortest unique prefix of the id; only with `short_ids`.
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

/// Totals of all sessions that the caller may read, and of the listed sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionListSummary {
    pub total: u64,
    /// The number of sessions that match the filter, on all pages.
    pub matching: u64,
    /// Name or id of the most recently changed listed session.
    pub most_recent: Option<String>,
    /// Name or id of the oldest listed session.
    pub oldest: Option<String>,
    pub total_messages: u64,
    /// Total size of message texts in bytes.
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
