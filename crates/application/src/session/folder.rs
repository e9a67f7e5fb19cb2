//! The conversations of a folder.

use std::path::Path;

use cleveragents_domain::{Role, Sequence, Session, SessionId};
use cleveragents_store::{messages, turns};

use super::error::SessionError;
use super::service::SessionService;
use crate::operation::OperationError;
use crate::sandbox::{SESSION_SANDBOX, SandboxService, session_of_sandbox};

/// The sessions with a sandbox of a folder, most recently used first. Discarded and applied sandboxes count too.
pub(crate) fn sessions_of_folder(
    sandboxes: &SandboxService,
    sessions: &SessionService,
    folder: &Path,
) -> Result<Vec<Session>, OperationError> {
    let mut found: Vec<Session> = Vec::new();
    for name in sandboxes.names_at(folder, SESSION_SANDBOX)? {
        let Some(id) = session_of_sandbox(&name) else {
            continue;
        };
        if found.iter().any(|session| session.id == id) {
            continue;
        }
        match sessions.get(id) {
            Ok(session) => found.push(session),
            Err(SessionError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
    Ok(found)
}

/// Number of first messages that are searched for a question.
const SEARCHED_MESSAGES: u64 = 10;

/// Entry of a session in a list of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOverview {
    /// The first question; `None` if the session starts with messages of other roles.
    pub first_question: Option<String>,
    pub turns: usize,
}

impl SessionService {
    /// The beginning of a session, and its number of turns.
    pub fn overview(&self, id: SessionId) -> Result<SessionOverview, SessionError> {
        self.engine.read(|reader| {
            let first = messages::page(reader, id, Sequence(0), SEARCHED_MESSAGES)?;
            let mut questions = first
                .into_iter()
                .filter(|message| message.role == Role::User);
            Ok(SessionOverview {
                first_question: questions.next().map(|message| message.content),
                turns: turns::of_session(reader, id)?.len(),
            })
        })
    }
}
