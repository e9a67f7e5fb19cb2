//! [`SessionService`]: stores, reads and searches sessions.

use std::ops::Range;
use std::sync::Arc;

use cleveragents_domain::identity::LOCAL_NAMESPACE;
use cleveragents_domain::{
    ActorName, EventKind, LinkedPlan, Message, MessageId, Metadata, NewMessage, Role, SearchQuery,
    Sequence, Session, SessionId, SessionName, TokenUsage,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::search::{Hit, Scope};
use cleveragents_store::sessions::{
    ExpectedVersion, NewSession, SessionFilter, SessionPage, Totals,
};
use cleveragents_store::{
    Engine, ProgressCallback, context_summaries, messages, search, sessions, turns,
};

use super::error::SessionError;
use crate::reference::{CANDIDATES, find_referenced};

/// Number of messages that a fork reads and copies at a time.
const FORK_STEP: u64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredMessage {
    /// Sequence number in the session.
    pub sequence: Sequence,
    pub id: MessageId,
}

/// A session with its last messages and its plans.
#[derive(Debug, Clone)]
pub struct SessionView {
    pub session: Session,
    /// The last messages, in order.
    pub recent: Vec<Message>,
    /// The plans that the session refers to.
    pub plans: Vec<LinkedPlan>,
}

/// The question of a turn.
#[derive(Debug, Clone)]
pub struct Question {
    /// The text of the question.
    pub content: String,
    pub metadata: Metadata,
}

/// The answer of a turn.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The text of the answer.
    pub content: String,
    pub metadata: Metadata,
    pub usage: TokenUsage,
}

/// The reason why a turn has no answer.
#[derive(Debug, Clone)]
pub struct Failure(pub String);

/// Stores, reads and searches sessions. Cheap to clone.
#[derive(Clone)]
pub struct SessionService {
    pub(super) engine: Arc<Engine>,
    max_content_bytes: usize,
}

/// The error for a reference that matches no session or several sessions.
fn ambiguous(reference: &str, found: Vec<Session>) -> SessionError {
    let reference = reference.to_owned();
    let mut candidates: Vec<(SessionId, Option<String>)> = found
        .into_iter()
        .map(|session| (session.id, session.name.map(|name| name.to_string())))
        .collect();
    if candidates.is_empty() {
        return SessionError::NotFound(reference);
    }
    candidates.sort_unstable();
    SessionError::Ambiguous {
        reference,
        candidates,
    }
}

impl SessionService {
    /// Creates a service on a database. `max_content_bytes` is the maximum size of a message.
    pub const fn new(engine: Arc<Engine>, max_content_bytes: usize) -> Self {
        Self {
            engine,
            max_content_bytes,
        }
    }

    pub fn create(
        &self,
        name: Option<SessionName>,
        actor: Option<ActorName>,
        automation: &str,
    ) -> Result<Session, SessionError> {
        self.create_in(LOCAL_NAMESPACE, name, actor, automation)
    }

    /// Creates a session in a namespace.
    pub fn create_in(
        &self,
        namespace: &str,
        name: Option<SessionName>,
        actor: Option<ActorName>,
        automation: &str,
    ) -> Result<Session, SessionError> {
        let id = SessionId::generate();
        let new = NewSession {
            owner: None,
            name,
            actor,
            namespace: namespace.to_owned(),
            automation: automation.to_owned(),
            usage: TokenUsage::default(),
            forked_from: None,
            created_at: None,
        };
        self.engine.write(move |unit| {
            sessions::insert(unit, id, &new, EventKind::SessionCreated)?;
            sessions::get(unit, id)?.ok_or_else(|| SessionError::NotFound(id.to_string()))
        })
    }

    /// Looks up a session by its id, a prefix of the id, or its name.
    pub fn resolve(&self, reference: &str) -> Result<SessionId, SessionError> {
        let session = self.engine.read(|reader| {
            find_referenced(
                reader,
                reference,
                |reader| Ok(sessions::with_name(reader, reference, CANDIDATES)?),
                |reader, prefix, limit| Ok(sessions::with_prefix(reader, prefix, limit)?),
                |candidates| ambiguous(reference, candidates),
            )
        })?;
        Ok(session.id)
    }

    pub fn get(&self, id: SessionId) -> Result<Session, SessionError> {
        self.engine
            .read(|reader| sessions::get(reader, id))?
            .ok_or_else(|| not_found(id))
    }

    /// Whether the costs of all answers in a session are known.
    pub fn is_cost_known(&self, id: SessionId) -> Result<bool, SessionError> {
        let is_unknown = self.engine.read(|reader| turns::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// A session by its id, with its last `recent` messages and its plans, read in one transaction.
    pub fn view(&self, id: SessionId, recent: u64) -> Result<SessionView, SessionError> {
        self.engine.read(|reader| {
            Ok(SessionView {
                session: sessions::get(reader, id)?.ok_or_else(|| not_found(id))?,
                recent: messages::last(reader, id, recent)?,
                plans: sessions::linked_plans(reader, id)?,
            })
        })
    }

    /// A page of matching sessions, and the totals of all visible sessions.
    pub fn list(&self, filter: &SessionFilter) -> Result<(SessionPage, Totals), SessionError> {
        Ok(self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                sessions::list(reader, filter)?,
                sessions::totals_in(reader, &filter.visible)?,
            ))
        })?)
    }

    /// Matching sessions before a position, newest first.
    pub fn page(
        &self,
        filter: &SessionFilter,
        before: Option<SessionId>,
        limit: u64,
    ) -> Result<Vec<Session>, SessionError> {
        Ok(self
            .engine
            .read(|reader| sessions::page(reader, filter, before, limit))?)
    }

    /// The shortest prefix of each id that no other session has.
    pub fn shown_ids(&self, ids: &[SessionId]) -> Result<Vec<String>, SessionError> {
        Ok(self
            .engine
            .read(|reader| sessions::shown_ids(reader, ids))?)
    }

    /// Validates a new message, including its size.
    pub fn message(
        &self,
        role: Role,
        content: String,
        metadata: Metadata,
    ) -> Result<NewMessage, SessionError> {
        Ok(NewMessage::new(
            role,
            content,
            metadata,
            self.max_content_bytes,
        )?)
    }

    /// Appends one message. The message is durable when this returns.
    pub fn append_message(
        &self,
        id: SessionId,
        role: Role,
        content: String,
        metadata: Metadata,
    ) -> Result<StoredMessage, SessionError> {
        let message = self.message(role, content, metadata)?;
        let message_id = message.id();
        let message = [AppendedMessage::from(message)];
        let sequences = self.engine.write(move |unit| {
            messages::append(unit, id, &message, AppendEvents::Each)?.ok_or_else(|| not_found(id))
        })?;
        first_stored(&sequences, message_id)
    }

    /// Undoes a range of messages of a conversation: later requests to the model do not contain them. Returns `false`
    /// and changes nothing if a summary of the conversation covers some of them.
    pub fn undo_messages(&self, id: SessionId, range: &Range<u64>) -> Result<bool, SessionError> {
        let range = range.clone();
        self.engine.write(move |unit| {
            let summary = context_summaries::newest(unit, id)?;
            if summary.is_some_and(|summary| summary.sequence > range.start) {
                return Ok(false);
            }
            messages::set_undone(unit, id, range.clone(), true)?;
            Ok(true)
        })
    }

    /// Restores the messages that [`Self::undo_messages`] undid.
    pub fn redo_messages(&self, id: SessionId, range: &Range<u64>) -> Result<(), SessionError> {
        let range = range.clone();
        self.engine
            .write(move |unit| Ok(messages::set_undone(unit, id, range.clone(), false)?))
    }

    /// Appends messages atomically, in order and with consecutive numbers.
    pub fn append_messages(
        &self,
        id: SessionId,
        batch: Vec<NewMessage>,
    ) -> Result<Vec<StoredMessage>, SessionError> {
        let ids: Vec<MessageId> = batch.iter().map(NewMessage::id).collect();
        let batch: Vec<AppendedMessage> = batch.into_iter().map(AppendedMessage::from).collect();
        let sequences = self.engine.write(move |unit| {
            messages::append(unit, id, &batch, AppendEvents::Each)?.ok_or_else(|| not_found(id))
        })?;
        Ok(sequences
            .into_iter()
            .zip(ids)
            .map(|(sequence, id)| StoredMessage { sequence, id })
            .collect())
    }

    /// Stores a turn: the question and the answer with its usage, or only the question, marked as failed
    /// with the reason.
    pub fn append_turn(
        &self,
        id: SessionId,
        question: Question,
        answer: Result<Answer, Failure>,
    ) -> Result<Vec<StoredMessage>, SessionError> {
        let question = self.message(Role::User, question.content, question.metadata)?;
        let (batch, usage) = match answer {
            Ok(answer) => {
                let answer_message =
                    self.message(Role::Assistant, answer.content, answer.metadata)?;
                (vec![question, answer_message], answer.usage)
            }
            Err(Failure(reason)) => (vec![question.failed(&reason)], TokenUsage::default()),
        };
        let ids: Vec<MessageId> = batch.iter().map(NewMessage::id).collect();
        let batch: Vec<AppendedMessage> = batch.into_iter().map(AppendedMessage::from).collect();
        let sequences = self.engine.write(move |unit| {
            let sequences = messages::append(unit, id, &batch, AppendEvents::Each)?
                .ok_or_else(|| not_found(id))?;
            if usage != TokenUsage::default() {
                sessions::add_usage(unit, id, usage)?;
            }
            Ok::<_, SessionError>(sequences)
        })?;
        Ok(sequences
            .into_iter()
            .zip(ids)
            .map(|(sequence, id)| StoredMessage { sequence, id })
            .collect())
    }

    /// Messages in order, starting at a sequence number.
    pub fn messages(
        &self,
        id: SessionId,
        from: Sequence,
        limit: u64,
    ) -> Result<Vec<Message>, SessionError> {
        self.engine.read(|reader| {
            sessions::get(reader, id)?.ok_or_else(|| not_found(id))?;
            Ok(messages::page(reader, id, from, limit)?)
        })
    }

    pub fn rename(
        &self,
        id: SessionId,
        name: SessionName,
        expect: ExpectedVersion,
    ) -> Result<Session, SessionError> {
        self.engine.write(move |unit| {
            sessions::rename(unit, id, &name, expect)?.ok_or_else(|| not_found(id))
        })
    }

    /// Deletes a session with its messages. Returns the deleted session.
    pub fn delete(&self, id: SessionId) -> Result<Session, SessionError> {
        self.engine
            .write(move |unit| sessions::delete(unit, id)?.ok_or_else(|| not_found(id)))
    }

    /// Deletes a session with its messages if it still has the expected version.
    pub fn delete_expected(
        &self,
        id: SessionId,
        expect: ExpectedVersion,
    ) -> Result<Session, SessionError> {
        self.engine.write(move |unit| {
            let session = sessions::delete(unit, id)?.ok_or_else(|| not_found(id))?;
            match expect {
                ExpectedVersion::Exactly(expected) if expected != session.version => {
                    // The unit of work is rolled back, so nothing was deleted.
                    Err(cleveragents_store::Error::Conflict {
                        what: format!("session {id}"),
                        expected,
                        actual: session.version,
                    }
                    .into())
                }
                ExpectedVersion::Any | ExpectedVersion::Exactly(_) => Ok(session),
            }
        })
    }

    /// Adds to the usage of a session.
    pub fn record_usage(&self, id: SessionId, usage: TokenUsage) -> Result<(), SessionError> {
        let exists = self
            .engine
            .write(move |unit| sessions::add_usage(unit, id, usage))?;
        if exists { Ok(()) } else { Err(not_found(id)) }
    }

    /// Records that a session refers to a plan.
    pub fn link_plan(&self, id: SessionId, plan: LinkedPlan) -> Result<(), SessionError> {
        self.engine.write(move |unit| {
            sessions::get(unit, id)?.ok_or_else(|| not_found(id))?;
            Ok(sessions::link_plan(unit, id, &plan)?)
        })
    }

    /// Creates a session from the messages of another session, up to and including number `at`, or from
    /// all messages. The copies have new ids; everything else is unchanged.
    pub fn fork(
        &self,
        source: SessionId,
        at: Option<Sequence>,
        name: Option<SessionName>,
        progress: Option<ProgressCallback>,
    ) -> Result<Session, SessionError> {
        let id = SessionId::generate();
        self.engine.write(move |unit| {
            let original = sessions::get(unit, source)?.ok_or_else(|| not_found(source))?;
            let count = original.message_count;
            let end = match at {
                Some(Sequence(at)) if at >= count => {
                    return Err(SessionError::MessageNotFound {
                        session: source,
                        sequence: at,
                        count,
                    });
                }
                Some(Sequence(at)) => at + 1,
                None => count,
            };
            let new = NewSession {
                owner: None,
                name: name.clone().or_else(|| original.name.clone()),
                actor: original.actor,
                namespace: original.namespace,
                automation: original.automation,
                usage: TokenUsage::default(),
                forked_from: end.checked_sub(1).map(|last| (source, Sequence(last))),
                created_at: None,
            };
            sessions::insert(unit, id, &new, EventKind::SessionForked)?;
            let mut next = 0;
            while next < end {
                let page = messages::page(unit, source, Sequence(next), FORK_STEP)?;
                let Some(last) = page.last() else {
                    // If another process deleted the source, the error rolls the incomplete fork
                    // back.
                    sessions::get(unit, source)?.ok_or_else(|| not_found(source))?;
                    break;
                };
                // Continue after the last number, because a session that was repaired may have gaps.
                next = last.sequence.0 + 1;
                let copies: Vec<AppendedMessage> = page
                    .into_iter()
                    .take_while(|message| message.sequence.0 < end)
                    .map(|message| {
                        let message_at = Some(message.created_at);
                        AppendedMessage {
                            message: NewMessage::copy_of(message),
                            message_at,
                        }
                    })
                    .collect();
                messages::append(unit, id, &copies, AppendEvents::Nothing)?;
                if let Some(progress) = &progress {
                    progress(next.min(end), end);
                }
            }
            sessions::get(unit, id)?.ok_or_else(|| not_found(id))
        })
    }

    /// Updates the search index, then returns matching messages, best first.
    pub fn search(
        &self,
        query: &str,
        scope: &Scope,
        limit: u64,
        progress: Option<&ProgressCallback>,
    ) -> Result<Vec<Hit>, SessionError> {
        let query = SearchQuery::parse(query)?;
        let (indexed, newest) = self.engine.read(search::lag)?;
        let backlog = newest.saturating_sub(indexed);
        let mut remaining = backlog;
        while remaining > 0 {
            remaining = self.engine.write(search::index_more)?;
            if let Some(progress) = progress {
                progress(backlog.saturating_sub(remaining), backlog);
            }
        }
        Ok(self
            .engine
            .read(|reader| search::find(reader, &query, scope, limit))?)
    }
}

fn first_stored(sequences: &[Sequence], id: MessageId) -> Result<StoredMessage, SessionError> {
    let sequence = sequences.first().copied().ok_or_else(|| {
        cleveragents_store::Error::Internal("a stored message has no number".to_owned())
    })?;
    Ok(StoredMessage { sequence, id })
}

pub(super) fn not_found(id: SessionId) -> SessionError {
    SessionError::NotFound(id.to_string())
}
