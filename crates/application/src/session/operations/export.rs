//! `session/export`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{parse_id, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::session::error::SessionError;
use crate::session::export::{EXPORT_SCHEMA, ExportSummary};
use crate::session::service::SessionService;
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Code, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of an export in a response, in bytes, because client and server hold the export in memory.
const MAX_EXPORT_BYTES: usize = 64 << 20;

/// The format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// A document that can be imported.
    #[default]
    Json,
    /// A document for readers, which cannot be imported.
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
    /// The exported document, at most 64 MiB.
    pub document: String,
    #[serde(flatten)]
    pub report: ExportReport,
}

/// The content of an export.
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
    /// The file that the document was written to; missing when the document is in the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    pub messages: u64,
    /// Size of the document in bytes.
    pub size: u64,
    pub format: ExportFormat,
}

/// The content of an exported document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportContents {
    pub messages: u64,
    pub plan_references: u64,
    /// Total number of metadata keys in all messages.
    pub metadata_keys: u64,
    pub schema_version: String,
}

/// The checksum of an exported document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExportIntegrity {
    /// SHA-256 of a JSON export; `null` for Markdown.
    pub checksum: Option<String>,
    pub encrypted: bool,
}

impl ExportReport {
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

/// A buffer that refuses more than [`MAX_EXPORT_BYTES`].
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
