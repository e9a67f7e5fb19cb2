//! [`SessionService`]: everything that can be done with a session.

use std::sync::Arc;

use cleveragents_domain::identity::LOCAL_NAMESPACE;
use cleveragents_domain::{
    ActorName, EventKind, IdError, LinkedPlan, Message, MessageId, Metadata, NewMessage, Role,
    SearchQuery, Sequence, Session, SessionId, SessionName, TokenUsage, check_prefix,
};
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::search::{Hit, Scope};
use cleveragents_store::sessions::{Expect, NewSession, SessionFilter, SessionPage, Totals};
use cleveragents_store::{Engine, ProgressCallback, messages, search, sessions, turns};

use super::error::SessionError;

/// How many candidates an ambiguous reference is answered with.
const CANDIDATES: u64 = 20;

/// How many messages a fork copies at a time.
const FORK_STEP: u64 = 500;

/// A message that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub sequence: Sequence,
    /// Its id.
    pub id: MessageId,
}

/// A session with what is usually looked at beside it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Its last messages, in order.
    pub recent: Vec<Message>,
    /// The plans it refers to.
    pub plans: Vec<LinkedPlan>,
}

/// The user's half of a turn.
#[derive(Debug, Clone)]
pub struct Question {
    /// What was asked.
    pub content: String,
    /// Facts about it.
    pub metadata: Metadata,
}

/// The assistant's half of a turn.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What was answered.
    pub content: String,
    /// Facts about it.
    pub metadata: Metadata,
    /// What it used.
    pub usage: TokenUsage,
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub struct Failure(pub String);

/// Keeps conversations. Cheap to clone.
#[derive(Clone)]
pub struct SessionService {
    pub(super) engine: Arc<Engine>,
    max_content_bytes: usize,
}

impl SessionService {
    /// A service on a database, with the largest message it accepts.
    pub const fn new(engine: Arc<Engine>, max_content_bytes: usize) -> Self {
        Self {
            engine,
            max_content_bytes,
        }
    }

    /// Makes a session.
    pub fn create(
        &self,
        name: Option<SessionName>,
        actor: Option<ActorName>,
        automation: &str,
    ) -> Result<Session, SessionError> {
        self.create_in(LOCAL_NAMESPACE, name, actor, automation)
    }

    /// Makes a session in a namespace.
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

    /// Finds the session that a person means: a whole id, the beginning of one, or a name.
    pub fn resolve(&self, reference: &str) -> Result<SessionId, SessionError> {
        if let Ok(id) = reference.parse::<SessionId>() {
            return self.get(id).map(|session| session.id);
        }
        let found = self.engine.read(|reader| {
            let mut found = sessions::with_name(reader, reference, CANDIDATES)?;
            match check_prefix(reference) {
                Ok(prefix) => found.extend(sessions::with_prefix(reader, &prefix, CANDIDATES)?),
                Err(IdError::TooShort(_) | IdError::Malformed(_)) => {}
            }
            Ok::<_, SessionError>(found)
        })?;
        let mut candidates: Vec<(SessionId, Option<String>)> = found
            .into_iter()
            .map(|session| (session.id, session.name.map(|name| name.to_string())))
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        match candidates.as_slice() {
            [] => Err(SessionError::NotFound(reference.to_owned())),
            [(id, _)] => Ok(*id),
            _ => Err(SessionError::Ambiguous {
                reference: reference.to_owned(),
                candidates,
            }),
        }
    }

    /// The session with an id.
    pub fn get(&self, id: SessionId) -> Result<Session, SessionError> {
        self.engine
            .read(|reader| sessions::get(reader, id))?
            .ok_or_else(|| not_found(id))
    }

    /// Whether the cost of every answer in a session is known.
    pub fn is_cost_known(&self, id: SessionId) -> Result<bool, SessionError> {
        let is_unknown = self.engine.read(|reader| turns::has_unpriced(reader, id))?;
        Ok(!is_unknown)
    }

    /// The session with an id, its last messages and its plans, all of one moment.
    pub fn view(&self, id: SessionId, recent: u64) -> Result<SessionView, SessionError> {
        self.engine.read(|reader| {
            Ok(SessionView {
                session: sessions::get(reader, id)?.ok_or_else(|| not_found(id))?,
                recent: messages::last(reader, id, recent)?,
                plans: sessions::linked_plans(reader, id)?,
            })
        })
    }

    /// A page of sessions.
    pub fn list(&self, filter: &SessionFilter) -> Result<(SessionPage, Totals), SessionError> {
        Ok(self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                sessions::list(reader, filter)?,
                sessions::totals_in(reader, &filter.visible)?,
            ))
        })?)
    }

    /// Sessions that match, the newest first, from before one on.
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

    /// The shortest prefix of each id that names no other session.
    pub fn shown_ids(&self, ids: &[SessionId]) -> Result<Vec<String>, SessionError> {
        Ok(self
            .engine
            .read(|reader| sessions::shown_ids(reader, ids))?)
    }

    /// Checks a message against the limit and makes it ready to be stored.
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

    /// Appends one message. It is durable when this returns.
    pub fn append_message(
        &self,
        id: SessionId,
        role: Role,
        content: String,
        metadata: Metadata,
    ) -> Result<Stored, SessionError> {
        let message = self.message(role, content, metadata)?;
        let message_id = message.id();
        let message = [Appended::from(message)];
        let sequences = self.engine.write(move |unit| {
            messages::append(unit, id, &message, Announce::Each)?.ok_or_else(|| not_found(id))
        })?;
        first_stored(&sequences, message_id)
    }

    /// Appends messages in order with consecutive numbers, all of them or none.
    pub fn append_messages(
        &self,
        id: SessionId,
        batch: Vec<NewMessage>,
    ) -> Result<Vec<Stored>, SessionError> {
        let ids: Vec<MessageId> = batch.iter().map(NewMessage::id).collect();
        let batch: Vec<Appended> = batch.into_iter().map(Appended::from).collect();
        let sequences = self.engine.write(move |unit| {
            messages::append(unit, id, &batch, Announce::Each)?.ok_or_else(|| not_found(id))
        })?;
        Ok(sequences
            .into_iter()
            .zip(ids)
            .map(|(sequence, id)| Stored { sequence, id })
            .collect())
    }

    /// Stores a turn: question and answer together with what they used, or the question alone,
    /// marked failed with the reason. A half without a mark is never stored.
    pub fn append_turn(
        &self,
        id: SessionId,
        question: Question,
        answer: Result<Answer, Failure>,
    ) -> Result<Vec<Stored>, SessionError> {
        let asked = self.message(Role::User, question.content, question.metadata)?;
        let (batch, usage) = match answer {
            Ok(answer) => {
                let answered = self.message(Role::Assistant, answer.content, answer.metadata)?;
                (vec![asked, answered], answer.usage)
            }
            Err(Failure(reason)) => (vec![asked.failed(&reason)], TokenUsage::default()),
        };
        let ids: Vec<MessageId> = batch.iter().map(NewMessage::id).collect();
        let batch: Vec<Appended> = batch.into_iter().map(Appended::from).collect();
        let sequences = self.engine.write(move |unit| {
            let sequences =
                messages::append(unit, id, &batch, Announce::Each)?.ok_or_else(|| not_found(id))?;
            if usage != TokenUsage::default() {
                sessions::add_usage(unit, id, usage)?;
            }
            Ok::<_, SessionError>(sequences)
        })?;
        Ok(sequences
            .into_iter()
            .zip(ids)
            .map(|(sequence, id)| Stored { sequence, id })
            .collect())
    }

    /// Messages from a number on, in order.
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

    /// Gives a session another name.
    pub fn rename(
        &self,
        id: SessionId,
        name: SessionName,
        expect: Expect,
    ) -> Result<Session, SessionError> {
        self.engine.write(move |unit| {
            sessions::rename(unit, id, &name, expect)?.ok_or_else(|| not_found(id))
        })
    }

    /// Removes a session with its messages and gives it as it was.
    pub fn delete(&self, id: SessionId) -> Result<Session, SessionError> {
        self.engine
            .write(move |unit| sessions::delete(unit, id)?.ok_or_else(|| not_found(id)))
    }

    /// Removes a session with its messages if it is as the caller knows it.
    pub fn delete_expected(&self, id: SessionId, expect: Expect) -> Result<Session, SessionError> {
        self.engine.write(move |unit| {
            let session = sessions::delete(unit, id)?.ok_or_else(|| not_found(id))?;
            match expect {
                Expect::Exactly(expected) if expected != session.version => {
                    // The unit is taken back with all that was removed.
                    Err(cleveragents_store::Error::Conflict {
                        what: format!("session {id}"),
                        expected,
                        actual: session.version,
                    }
                    .into())
                }
                Expect::Any | Expect::Exactly(_) => Ok(session),
            }
        })
    }

    /// Adds to what a session used.
    pub fn record_usage(&self, id: SessionId, usage: TokenUsage) -> Result<(), SessionError> {
        let known = self
            .engine
            .write(move |unit| sessions::add_usage(unit, id, usage))?;
        if known { Ok(()) } else { Err(not_found(id)) }
    }

    /// Remembers that a session refers to a plan.
    pub fn link_plan(&self, id: SessionId, plan: LinkedPlan) -> Result<(), SessionError> {
        self.engine.write(move |unit| {
            sessions::get(unit, id)?.ok_or_else(|| not_found(id))?;
            Ok(sessions::link_plan(unit, id, &plan)?)
        })
    }

    /// Makes a new session from the messages of another up to and including number `at`, or all of
    /// them. The new session's messages have ids of their own and keep everything else.
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
                    // Someone deleted the source since we looked: half a fork is none.
                    sessions::get(unit, source)?.ok_or_else(|| not_found(source))?;
                    break;
                };
                // By number, not by count: a session saved from damage may have gaps.
                next = last.sequence.0 + 1;
                let copies: Vec<Appended> = page
                    .into_iter()
                    .take_while(|message| message.sequence.0 < end)
                    .map(|message| {
                        let said_at = Some(message.created_at);
                        Appended {
                            message: NewMessage::copy_of(message),
                            said_at,
                        }
                    })
                    .collect();
                messages::append(unit, id, &copies, Announce::Nothing)?;
                if let Some(progress) = &progress {
                    progress(next.min(end), end);
                }
            }
            sessions::get(unit, id)?.ok_or_else(|| not_found(id))
        })
    }

    /// Messages that match, best first. Brings the search index up to date first.
    pub fn search(
        &self,
        query: &str,
        scope: &Scope,
        limit: u64,
        progress: Option<&ProgressCallback>,
    ) -> Result<Vec<Hit>, SessionError> {
        let query = SearchQuery::parse(query)?;
        let (indexed, newest) = self.engine.read(search::lag)?;
        let behind = newest.saturating_sub(indexed);
        let mut left = behind;
        while left > 0 {
            left = self.engine.write(search::index_more)?;
            if let Some(progress) = progress {
                progress(behind.saturating_sub(left), behind);
            }
        }
        Ok(self
            .engine
            .read(|reader| search::find(reader, &query, scope, limit))?)
    }
}

fn first_stored(sequences: &[Sequence], id: MessageId) -> Result<Stored, SessionError> {
    let sequence = sequences.first().copied().ok_or_else(|| {
        cleveragents_store::Error::Internal("a stored message has no number".to_owned())
    })?;
    Ok(Stored { sequence, id })
}

pub(super) fn not_found(id: SessionId) -> SessionError {
    SessionError::NotFound(id.to_string())
}
