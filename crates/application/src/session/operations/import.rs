//! `session/import`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{parse_namespace, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::session::import::ImportCheck;
use cleveragents_domain::SessionId;
use cleveragents_domain::identity::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Creates a new session from an exported document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportSession {
    /// The exported document.
    pub text: String,
    /// Accept a document that was changed on purpose and no longer matches its checksum.
    #[serde(default)]
    pub unverified: bool,
    /// The namespace of the new session; by default the namespace in the document.
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
    /// The file that was imported; set by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    pub session_id: SessionId,
    pub messages: u64,
    pub schema: String,
}

/// The result of the verification.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportValidation {
    /// `verified` or `not checked`.
    pub checksum: String,
    pub schema: String,
}

/// The origin of the document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportOrigin {
    /// The exported session.
    pub existing: SessionId,
    pub strategy: String,
}

impl Operation for ImportSession {
    const NAME: &'static str = "session/import";
    const SUMMARY: &'static str = "Create a session from an exported document";
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
