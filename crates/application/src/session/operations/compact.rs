//! `session/compact`: replaces a conversation by a summary in later requests to the model.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{MicroUsd, SessionId};
use cleveragents_models::CancellationToken;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TellSession, parse_id, requires};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::runtime::{Conversation, ConversationCompaction};
use crate::turn::CompactionReport;
use crate::usage::CostReport;

/// Summarizes the conversation of a session. Later requests to the model contain the summary instead
/// of the messages, which stay in the session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactSession {
    /// Id, prefix of at least 6 characters, or name.
    pub session: String,
    /// Topic that the summary must keep in detail.
    #[serde(default)]
    pub focus: Option<String>,
    /// The model that writes the summary. Defaults to the actor of the session, then to the default model.
    #[serde(default)]
    pub actor: Option<String>,
    /// Maximum cost of the session, in US dollars.
    #[serde(default)]
    pub max_cost: Option<String>,
}

/// The response of `session/compact`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CompactedSession {
    pub session: SessionId,
    /// The model that wrote the summary; `null` if there was nothing to summarize.
    pub model: Option<String>,
    /// The number of messages that the summary replaces; 0 if no message follows the last summary.
    pub messages: u64,
    /// Estimated number of tokens of these messages.
    pub tokens_before: u64,
    /// Estimated number of tokens of the summary.
    pub tokens_after: u64,
    #[serde(flatten)]
    pub cost: CostReport,
}

impl CompactedSession {
    /// The response for a compaction; `None` if there was nothing to summarize.
    pub fn new(session: SessionId, compacted: Option<CompactionReport>) -> Self {
        let Some(compacted) = compacted else {
            return Self {
                session,
                model: None,
                messages: 0,
                tokens_before: 0,
                tokens_after: 0,
                cost: CostReport::new(MicroUsd(0), true),
            };
        };
        Self {
            session,
            model: Some(compacted.model),
            messages: compacted.messages as u64,
            tokens_before: compacted.tokens_before,
            tokens_after: compacted.tokens_after,
            cost: CostReport::new(compacted.cost_micro_usd, compacted.is_cost_known),
        }
    }
}

impl Operation for CompactSession {
    const NAME: &'static str = "session/compact";
    const SUMMARY: &'static str = "Replace a conversation by a summary in requests to the model";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = CompactedSession;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.session(&mut self.session)?;
        match &mut self.actor {
            Some(actor) => resolver.read_name(actor, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<CompactedSession, OperationError> {
        let session = context.sessions().get(parse_id(&self.session)?)?;
        let options = TellSession {
            actor: self.actor,
            max_cost: self.max_cost,
            ..TellSession::default()
        };
        let runtime = context.runtime(&options.safety(), None)?;
        let conversation = Conversation::new(runtime, options.conversation()?)?;
        let stop = CancellationToken::new();
        let model_stop = stop.clone();
        context.cancel().when_cancelled(move || model_stop.cancel());
        let compacted = conversation.compact(&ConversationCompaction {
            session: &session,
            focus: self.focus.as_deref(),
            observer: &*context.front_end().observer,
            cancel: context.cancel(),
            stop: &stop,
        })?;
        Ok(CompactedSession::new(session.id, compacted))
    }
}
