//! Imports: creates a new session from an export, after verification of the checksum.

use cleveragents_domain::{
    ActorName, ContentHash, EventKind, NewMessage, Session, SessionId, SessionName,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{ProgressCallback, messages, sessions};
use serde::Deserialize;
use serde_json::Value;

use super::error::SessionError;
use super::export::{
    CHECKSUM_CLOSING, CHECKSUM_OPENING, EXPORT_SCHEMA, ExportHeader, ExportedMessage,
};
use super::service::{SessionService, not_found};

/// Number of messages that are appended at a time.
const STEP: usize = 1_000;

/// Whether the checksum of a file is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportCheck {
    /// The file must match its checksum.
    Verified,
    /// The checksum is ignored, because the file was changed on purpose.
    Unverified,
}

/// The result of an import.
#[derive(Debug, Clone)]
pub struct ImportSummary {
    /// The new session.
    pub session: Session,
    /// The session that was exported.
    pub original: SessionId,
    /// The schema version of the file.
    pub schema: String,
}

#[derive(Deserialize)]
struct Probe {
    schema_version: Value,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Schema(u64, u64);

impl Schema {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

/// A parsed export. Unknown fields are refused, because they would be lost.
struct Document {
    header: ExportHeader,
    messages: Vec<ExportedMessage>,
}

impl SessionService {
    /// Creates a new session from an export, atomically.
    pub fn import(
        &self,
        file: &[u8],
        check: ImportCheck,
        namespace: Option<&str>,
        progress: Option<ProgressCallback>,
    ) -> Result<ImportSummary, SessionError> {
        let schema = check_schema(file)?;
        if check == ImportCheck::Verified {
            verify_checksum(file)?;
        }
        let document = parse(file)?;
        let header = document.header;
        let (mut new, batch) = (new_session(&header)?, numbered(document.messages)?);
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut new.namespace);
        }
        let id = SessionId::generate();
        let (plans, updated_at) = (header.linked_plans.clone(), header.updated_at);
        let session = self.engine.write(move |unit| {
            sessions::insert(unit, id, &new, EventKind::SessionImported)?;
            let mut done = 0;
            for part in batch.chunks(STEP) {
                messages::append(unit, id, part, AppendEvents::Nothing)?
                    .ok_or_else(|| not_found(id))?;
                done += part.len();
                if let Some(progress) = &progress {
                    progress(done as u64, batch.len() as u64);
                }
            }
            for plan in &plans {
                sessions::link_plan(unit, id, plan)?;
            }
            sessions::restore_updated_at(unit, id, updated_at)?;
            sessions::get(unit, id)?.ok_or_else(|| not_found(id))
        })?;
        Ok(ImportSummary {
            session,
            original: header.session_id,
            schema,
        })
    }
}

fn new_session(header: &ExportHeader) -> Result<NewSession, SessionError> {
    Ok(NewSession {
        owner: None,
        name: header
            .name
            .as_deref()
            .map(str::parse::<SessionName>)
            .transpose()?,
        actor: header
            .actor_name
            .as_deref()
            .map(str::parse::<ActorName>)
            .transpose()?,
        namespace: header.namespace.clone(),
        automation: header.automation.clone(),
        usage: header.token_usage,
        forked_from: header
            .forked_from
            .as_ref()
            .map(|origin| (origin.session_id, origin.sequence)),
        created_at: Some(header.created_at),
    })
}

fn numbered(messages: Vec<ExportedMessage>) -> Result<Vec<AppendedMessage>, SessionError> {
    let mut batch = Vec::with_capacity(messages.len());
    for (expected, message) in (0..).zip(messages) {
        if message.sequence.0 != expected {
            return Err(SessionError::ImportMalformed(format!(
                "message {expected} is missing, message {} follows",
                message.sequence
            )));
        }
        // The size limit applies to new messages, not to messages that were stored under another
        // limit.
        let checked = NewMessage::new(message.role, message.content, message.metadata, usize::MAX)?;
        batch.push(AppendedMessage {
            message: checked.in_state(message.state),
            message_at: Some(message.timestamp),
        });
    }
    Ok(batch)
}

fn check_schema(file: &[u8]) -> Result<String, SessionError> {
    let malformed = |reason: String| SessionError::ImportMalformed(reason);
    let probe: Probe =
        serde_json::from_slice(file).map_err(|error| malformed(error.to_string()))?;
    let found = match probe.schema_version {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let version = Schema::parse(&found)
        .ok_or_else(|| malformed(format!("`{found}` is not a schema version")))?;
    match Schema::parse(EXPORT_SCHEMA) {
        Some(known) if version > known => Err(SessionError::ImportNewer {
            found,
            known: EXPORT_SCHEMA,
        }),
        Some(known) if version < known => {
            Err(malformed(format!("schema version {found} does not exist")))
        }
        _ => Ok(found),
    }
}

/// Verifies the checksum at the end of the file.
fn verify_checksum(file: &[u8]) -> Result<(), SessionError> {
    const DIGITS: usize = 64;
    let missing_checksum =
        || SessionError::ImportMalformed("it does not end with its checksum".to_owned());
    let body = file
        .strip_suffix(CHECKSUM_CLOSING.as_bytes())
        .ok_or_else(missing_checksum)?;
    let (body, digits) = body
        .split_at_checked(body.len().saturating_sub(DIGITS))
        .ok_or_else(missing_checksum)?;
    if !body.ends_with(CHECKSUM_OPENING.as_bytes()) {
        return Err(missing_checksum());
    }
    let expected = format!("sha256:{}", String::from_utf8_lossy(digits));
    let actual = ContentHash::of_parts([body, CHECKSUM_CLOSING.as_bytes()]).to_string();
    if expected != actual {
        return Err(SessionError::ImportAltered { expected, actual });
    }
    Ok(())
}

fn parse(file: &[u8]) -> Result<Document, SessionError> {
    let malformed = |error: serde_json::Error| SessionError::ImportMalformed(error.to_string());
    let mut fields: serde_json::Map<String, Value> =
        serde_json::from_slice(file).map_err(malformed)?;
    fields.remove("checksum");
    let messages = fields
        .remove("messages")
        .ok_or_else(|| SessionError::ImportMalformed("it has no messages".to_owned()))?;
    let messages: Vec<ExportedMessage> = serde_json::from_value(messages).map_err(malformed)?;
    let header: ExportHeader = serde_json::from_value(Value::Object(fields)).map_err(malformed)?;
    if header.message_count != messages.len() as u64 {
        return Err(SessionError::ImportMalformed(format!(
            "it should contain {} messages but contains {}",
            header.message_count,
            messages.len()
        )));
    }
    Ok(Document { header, messages })
}
