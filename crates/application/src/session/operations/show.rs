//! `session/show`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{ForkOrigin, parse_id, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::usage::CostReport;
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    LinkedPlan, Message, MessageState, Role, Sequence, SessionId, SessionName, Timestamp, Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shows a session and its last messages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The number of last messages to return.
    #[serde(default = "default_recent")]
    pub recent: u64,
}

const fn default_recent() -> u64 {
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

/// The model usage of a session.
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
