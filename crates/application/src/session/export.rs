//! Exports a session as one JSON document with a checksum, or as Markdown.
//!
//! The JSON document ends with a checksum of all other bytes of the file, so that an import detects
//! every alteration. The document is streamed within one read transaction, so that it is consistent and
//! needs little memory for long sessions.

use std::io::Write;

use cleveragents_domain::{
    ContentHash, LinkedPlan, Message, MessageState, Metadata, Role, Sequence, Session, SessionId,
    Timestamp, TokenUsage,
};
use cleveragents_store::{ProgressCallback, Reader, messages, sessions, turns};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::SessionError;
use super::markdown;
use super::service::{SessionService, not_found};

/// The version of the export format.
pub const EXPORT_SCHEMA: &str = "1.0";

/// The text before the 64 digits of the checksum, at the end of the file.
pub(super) const CHECKSUM_OPENING: &str = ",\n  \"checksum\": \"sha256:";
/// The text after the digits of the checksum.
pub(super) const CHECKSUM_CLOSING: &str = "\"\n}\n";

/// Number of messages that are read at a time.
const PAGE: u64 = 500;

/// A session in the export format, without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportHeader {
    pub(super) schema_version: String,
    pub(super) session_id: SessionId,
    pub(super) name: Option<String>,
    pub(super) actor_name: Option<String>,
    pub(super) namespace: String,
    pub(super) automation: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) token_usage: TokenUsage,
    pub(super) forked_from: Option<ExportedOrigin>,
    pub(super) linked_plans: Vec<LinkedPlan>,
    pub(super) message_count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedOrigin {
    pub(super) session_id: SessionId,
    pub(super) sequence: Sequence,
}

/// A message in the export format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedMessage {
    pub(super) sequence: Sequence,
    pub(super) message_id: cleveragents_domain::MessageId,
    pub(super) role: Role,
    pub(super) state: MessageState,
    pub(super) timestamp: Timestamp,
    pub(super) content: String,
    pub(super) metadata: Metadata,
}

/// Counts and checksum of an export.
#[derive(Debug, Clone, Serialize)]
pub struct ExportSummary {
    /// The exported session.
    pub session_id: SessionId,
    /// The number of messages.
    pub messages: u64,
    /// The number of plans that the session refers to.
    pub plan_references: u64,
    /// The total number of metadata keys in all messages.
    pub metadata_keys: u64,
    /// Number of written bytes.
    pub size_bytes: u64,
    /// The checksum of a JSON export; `None` for Markdown.
    pub checksum: Option<ContentHash>,
}

/// Counts and hashes the written bytes.
struct HashingWriter<'w> {
    inner: &'w mut dyn Write,
    hasher: Sha256,
    bytes: u64,
}

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

impl SessionService {
    /// Writes a session as an importable JSON document.
    pub fn export_json(
        &self,
        id: SessionId,
        out: &mut dyn Write,
        progress: Option<&ProgressCallback>,
    ) -> Result<ExportSummary, SessionError> {
        self.engine.read(|reader| {
            let session = sessions::get(reader, id)?.ok_or_else(|| not_found(id))?;
            let plans = sessions::linked_plans(reader, id)?;
            let mut out = HashingWriter {
                inner: out,
                hasher: Sha256::new(),
                bytes: 0,
            };
            let header = serde_json::to_string_pretty(&header(&session, plans.clone()))
                .map_err(|error| SessionError::Write(error.into()))?;
            let opening = header.strip_suffix("\n}").unwrap_or(&header);
            write!(out, "{opening},\n  \"messages\": [").map_err(SessionError::Write)?;
            let mut metadata_keys = 0;
            let mut separator = "\n    ";
            for_each_message(reader, &session, progress, |message| {
                metadata_keys += message.metadata.len() as u64;
                let line =
                    serde_json::to_string(&exported(message)).map_err(std::io::Error::from)?;
                write!(out, "{separator}{line}")?;
                separator = ",\n    ";
                Ok(())
            })?;
            write!(out, "\n  ]{CHECKSUM_OPENING}").map_err(SessionError::Write)?;
            let mut hasher = out.hasher.clone();
            hasher.update(CHECKSUM_CLOSING);
            let digits = hex::encode(hasher.finalize());
            write!(out, "{digits}{CHECKSUM_CLOSING}")
                .and_then(|()| out.flush())
                .map_err(SessionError::Write)?;
            Ok(ExportSummary {
                session_id: id,
                messages: session.message_count,
                plan_references: plans.len() as u64,
                metadata_keys,
                size_bytes: out.bytes,
                checksum: format!("sha256:{digits}").parse().ok(),
            })
        })
    }

    /// Writes a session as Markdown for readers. It cannot be imported.
    pub fn export_markdown(
        &self,
        id: SessionId,
        out: &mut dyn Write,
        progress: Option<&ProgressCallback>,
    ) -> Result<ExportSummary, SessionError> {
        self.engine.read(|reader| {
            let session = sessions::get(reader, id)?.ok_or_else(|| not_found(id))?;
            let plans = sessions::linked_plans(reader, id)?;
            let is_unpriced = turns::has_unpriced(reader, id)?;
            let mut out = HashingWriter {
                inner: out,
                hasher: Sha256::new(),
                bytes: 0,
            };
            out.write_all(markdown::heading(&session).as_bytes())
                .map_err(SessionError::Write)?;
            let mut metadata_keys = 0;
            for_each_message(reader, &session, progress, |message| {
                metadata_keys += message.metadata.len() as u64;
                out.write_all(markdown::message(&message).as_bytes())
            })?;
            out.write_all(markdown::ending(&session, &plans, !is_unpriced).as_bytes())
                .and_then(|()| out.flush())
                .map_err(SessionError::Write)?;
            Ok(ExportSummary {
                session_id: id,
                messages: session.message_count,
                plan_references: plans.len() as u64,
                metadata_keys,
                size_bytes: out.bytes,
                checksum: None,
            })
        })
    }
}

fn for_each_message(
    reader: &mut dyn Reader,
    session: &Session,
    progress: Option<&ProgressCallback>,
    mut each: impl FnMut(Message) -> std::io::Result<()>,
) -> Result<(), SessionError> {
    let mut next = 0;
    while next < session.message_count {
        let page = messages::page(reader, session.id, Sequence(next), PAGE)?;
        let Some(last) = page.last() else {
            break;
        };
        next = last.sequence.0 + 1;
        for message in page {
            each(message).map_err(SessionError::Write)?;
        }
        if let Some(progress) = progress {
            progress(next, session.message_count);
        }
    }
    Ok(())
}

fn header(session: &Session, plans: Vec<LinkedPlan>) -> ExportHeader {
    ExportHeader {
        schema_version: EXPORT_SCHEMA.to_owned(),
        session_id: session.id,
        name: session.name.as_ref().map(ToString::to_string),
        actor_name: session.actor.as_ref().map(ToString::to_string),
        namespace: session.namespace.clone(),
        automation: session.automation.clone(),
        created_at: session.created_at,
        updated_at: session.updated_at,
        token_usage: session.usage,
        forked_from: session
            .forked_from
            .map(|(session_id, sequence)| ExportedOrigin {
                session_id,
                sequence,
            }),
        linked_plans: plans,
        message_count: session.message_count,
    }
}

fn exported(message: Message) -> ExportedMessage {
    ExportedMessage {
        sequence: message.sequence,
        message_id: message.id,
        role: message.role,
        state: message.state,
        timestamp: message.created_at,
        content: message.content,
        metadata: message.metadata,
    }
}
