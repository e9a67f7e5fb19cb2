//! `session/create`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{SessionInfo, parse_actor, parse_name, parse_namespace, requires};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use cleveragents_domain::identity::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The namespace of the session. Optional for callers who can write to only one namespace.
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
    /// The automation profile that plans of the session start with.
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
