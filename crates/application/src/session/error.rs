//! Why something with a session did not work.

use cleveragents_domain::{
    Code, ContentError, Diagnose, IdError, NameError, RoleError, SearchQueryError, SessionId,
    SessionNameError, check_prefix,
};
use serde_json::{Value, json};

/// A failure of the session service.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No session has this id, prefix or name.
    #[error("session `{0}` does not exist")]
    NotFound(String),
    /// Several sessions have this prefix or name.
    #[error("`{reference}` matches {} sessions", .candidates.len())]
    Ambiguous {
        /// What was given.
        reference: String,
        /// The sessions it could mean, with their names.
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
    /// The name cannot be given to a session.
    #[error(transparent)]
    Name(#[from] SessionNameError),
    /// The actor's name is not well formed.
    #[error(transparent)]
    Actor(#[from] NameError),
    /// The session has no message with this number.
    #[error("session {session} has no message {sequence}; it holds {count}")]
    MessageNotFound {
        /// The session.
        session: SessionId,
        /// The number asked for.
        sequence: u64,
        /// How many messages it holds.
        count: u64,
    },
    /// There is nothing to search for.
    #[error(transparent)]
    Search(#[from] SearchQueryError),
    /// A byte of the export was changed.
    #[error("the export does not match its checksum: it was altered after it was written")]
    ImportAltered {
        /// The checksum in the file.
        expected: String,
        /// The checksum of what the file holds.
        actual: String,
    },
    /// The export was made by a newer program.
    #[error("the export has schema version {found}, this program reads {known}")]
    ImportNewer {
        /// The version found.
        found: String,
        /// The version known.
        known: &'static str,
    },
    /// The file is not an export, or not a whole one.
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

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound(reference)
                if matches!(check_prefix(reference), Err(IdError::TooShort(_))) =>
            {
                "give the first 6 or more characters of an id, or a whole name; `agents session list` shows both"
            }
            Self::NotFound(_) => "run `agents session list` to see the sessions there are",
            Self::Ambiguous { candidates, .. } => {
                let lines = candidates.iter().map(|(id, name)| match name {
                    Some(name) => format!("\n{id} {name}"),
                    None => format!("\n{id}"),
                });
                return Some(format!(
                    "give more characters of the id; the sessions it could mean are:{}",
                    lines.collect::<String>()
                ));
            }
            Self::Content(ContentError::Empty) => {
                "give the text as an argument, or `-` to read it from standard input"
            }
            Self::Content(ContentError::TooLarge { .. }) => {
                "split the message, or raise the limit with `agents config set session.max-message-bytes N`"
            }
            Self::Content(ContentError::TooDeep) => {
                "keep the metadata flat: a few levels are enough"
            }
            Self::Content(ContentError::Nul { .. }) => {
                "remove the NUL characters; text cannot hold them"
            }
            Self::Role(_) => "the roles are user, assistant, system and tool",
            Self::Metadata(_) => "write it as JSON, for example --metadata '{\"source\":\"cli\"}'",
            Self::Name(_) => "a name is one line of at most 200 characters",
            Self::Actor(_) => "an actor is written like local/orchestrator or openai/gpt-5",
            Self::MessageNotFound { .. } => {
                "run `agents session messages ID` to see the numbers there are"
            }
            Self::Search(_) => {
                "give at least one word, for example `agents session search \"engine cache\"`"
            }
            Self::ImportAltered { .. } => {
                "export the session again; if you changed the file on purpose, import it with --unverified"
            }
            Self::ImportNewer { .. } => "import it with the newer program that wrote it",
            Self::ImportMalformed(_) => "give a file that `agents session export` wrote",
            Self::Write(_) => "check that the place exists and has room",
            Self::Store(error) => return error.hint(),
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(reference) => json!({"reference": reference}),
            Self::Ambiguous {
                reference,
                candidates,
            } => {
                let candidates: Vec<Value> = candidates
                    .iter()
                    .map(|(id, name)| json!({"id": id, "name": name}))
                    .collect();
                json!({"reference": reference, "candidates": candidates})
            }
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
