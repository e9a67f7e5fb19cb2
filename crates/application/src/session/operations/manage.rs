//! `session/rename`, `session/delete` and `session/fork`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{ForkOrigin, SessionInfo, parse_id, parse_name, requires};
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Sequence, SessionId, SessionName, Version};
use cleveragents_store::sessions::ExpectedVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Renames a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The new name, one line of text.
    pub name: String,
    /// Rename only if the session still has this version.
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
        let expect = version.map_or(ExpectedVersion::Any, ExpectedVersion::Exactly);
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
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `session/delete`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedSession {
    pub deletion_summary: DeletionSummary,
}

/// The deleted session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletionSummary {
    pub session: Option<String>,
    pub id: SessionId,
    pub messages_removed: u64,
    /// Size of the deleted message texts in bytes.
    pub storage_freed: u64,
    /// The number of plans that referred to the session. The plans are not deleted.
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
        let sessions = context.rehearsing(self.dry_run).sessions();
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

/// Creates a new session from the first messages of another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSession {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The number of the last message to copy; by default all messages are copied.
    #[serde(default)]
    pub at: Option<u64>,
    /// The name of the new session; by default the name of the original.
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
    const SUMMARY: &'static str = "Create a session from the first messages of another";
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
