//! [`SessionError`]: errors of operations on sessions.

use cleveragents_domain::{
    Code, ContentError, Diagnose, Hint, IdError, NameError, Placeholder, RoleError,
    SearchQueryError, SessionId, SessionNameError, check_prefix, hint, suggest,
};
use serde_json::{Value, json};

use crate::reference::ambiguity_details;

/// A failure of the session service.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No session has this id, prefix or name.
    #[error("session `{0}` does not exist")]
    NotFound(String),
    /// Several sessions have this prefix or name.
    #[error("`{reference}` matches {} sessions", .candidates.len())]
    Ambiguous {
        /// The given id, prefix or name.
        reference: String,
        /// The matching sessions, with their names.
        candidates: Vec<(SessionId, Option<String>)>,
    },
    /// The message cannot be stored.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The role does not exist.
    #[error(transparent)]
    Role(#[from] RoleError),
    /// The metadata is not a JSON object.
    #[error("the metadata is not a JSON object: {0}")]
    Metadata(String),
    /// The name is not valid for a session.
    #[error(transparent)]
    Name(#[from] SessionNameError),
    /// The name of the actor is not valid.
    #[error(transparent)]
    Actor(#[from] NameError),
    /// The session has no message with this number.
    #[error("session {session} has no message {sequence}; it holds {count}")]
    MessageNotFound {
        session: SessionId,
        /// The requested sequence number.
        sequence: u64,
        /// The number of messages in the session.
        count: u64,
    },
    /// The search has no words.
    #[error(transparent)]
    Search(#[from] SearchQueryError),
    /// The export was altered.
    #[error("the export does not match its checksum: it was altered after it was written")]
    ImportAltered {
        /// The checksum in the file.
        expected: String,
        /// The checksum of the content.
        actual: String,
    },
    /// The export was written by a newer version.
    #[error("the export has schema version {found}, this program reads {known}")]
    ImportNewer {
        /// The version of the file.
        found: String,
        /// The newest supported version.
        known: &'static str,
    },
    /// The file is not an export, or is incomplete.
    #[error("the file is not a session export: {0}")]
    ImportMalformed(String),
    /// The export could not be written.
    #[error("the export could not be written: {0}")]
    Write(#[source] std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for SessionError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::SessionNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousSession,
            Self::Content(ContentError::Empty) => Code::EmptyContent,
            Self::Content(ContentError::TooLarge { .. }) => Code::ContentTooLarge,
            Self::Content(ContentError::Nul { .. }) => Code::UnstorableContent,
            Self::Role(_) => Code::InvalidRole,
            Self::Metadata(_) | Self::Content(ContentError::TooDeep) => Code::InvalidMetadata,
            Self::Name(_) => Code::InvalidSessionName,
            Self::Actor(_) => Code::InvalidName,
            Self::MessageNotFound { .. } => Code::MessageNotFound,
            Self::Search(_) => Code::InvalidSearchQuery,
            Self::ImportAltered { .. } => Code::ImportAltered,
            Self::ImportNewer { .. } => Code::ImportNewer,
            Self::ImportMalformed(_) => Code::ImportMalformed,
            Self::Write(_) => Code::FileAccess,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::NotFound(reference)
                if matches!(check_prefix(reference), Err(IdError::TooShort(_))) =>
            {
                return Some(hint!(
                    "give the first 6 or more characters of an id, or a full name; {} lists both",
                    suggest::session_list()
                ));
            }
            Self::NotFound(_) => {
                return Some(hint!(
                    "run {} to list the sessions",
                    suggest::session_list()
                ));
            }
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| match name {
                    Some(name) => format!("\n{id} {name}"),
                    None => format!("\n{id}"),
                });
                return Some(hint!(
                    "give more characters of the id; it matches these sessions:{}",
                    lines.collect::<String>()
                ));
            }
            Self::Content(ContentError::Empty) => {
                "give the text as an argument, or `-` to read it from standard input"
            }
            Self::Content(ContentError::TooLarge { .. }) => {
                return Some(hint!(
                    "split the message, or raise the limit with {}",
                    suggest::config_set("session.max-message-bytes", Placeholder("N"))
                ));
            }
            Self::Content(ContentError::TooDeep) => "nest the metadata less deeply",
            Self::Content(ContentError::Nul { .. }) => {
                "remove the NUL characters; text cannot contain them"
            }
            Self::Role(_) => "the roles are user, assistant, system and tool",
            Self::Metadata(_) => {
                return Some(hint!(
                    "write it as JSON, for example {}",
                    suggest::session_append_with_metadata("{\"source\":\"cli\"}").only_arguments()
                ));
            }
            Self::Name(_) => "a name is one line of at most 200 characters",
            Self::Actor(_) => "an actor is written like local/orchestrator or openai/gpt-5",
            Self::MessageNotFound { .. } => {
                return Some(hint!(
                    "run {} to list the message numbers",
                    suggest::session_messages(Placeholder("ID"))
                ));
            }
            Self::Search(_) => {
                return Some(hint!(
                    "give at least one word, for example {}",
                    suggest::session_search("engine cache")
                ));
            }
            Self::ImportAltered { .. } => {
                return Some(hint!(
                    "export the session again; if you changed the file on purpose, import it with {}",
                    suggest::session_import_unverified().only_arguments()
                ));
            }
            Self::ImportNewer { .. } => "import it with the newer program that wrote it",
            Self::ImportMalformed(_) => {
                return Some(hint!(
                    "give a file that {} wrote",
                    suggest::session_export()
                ));
            }
            Self::Write(_) => "check that the folder exists and the disk has space",
            Self::Store(error) => return error.hint(),
        };
        Some(text.into())
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(reference) => json!({"reference": reference}),
            Self::Ambiguous {
                reference,
                candidates,
            } => ambiguity_details(reference, candidates),
            Self::Content(ContentError::TooLarge { actual, limit }) => {
                json!({"bytes": actual, "limit": limit})
            }
            Self::Role(RoleError(role)) => json!({"role": role}),
            Self::MessageNotFound {
                session,
                sequence,
                count,
            } => {
                json!({"session_id": session, "sequence": sequence, "messages": count})
            }
            Self::ImportAltered { expected, actual } => {
                json!({"expected": expected, "actual": actual})
            }
            Self::ImportNewer { found, known } => json!({"found": found, "known": known}),
            Self::Store(error) => error.details(),
            _ => Value::Null,
        }
    }
}
