//! [`BatchAppender`]: stores messages for many sessions in one unit of work. The idempotency key of a
//! request and its response are stored in the same unit as its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::{NewMessage, Sequence, SessionId};
use cleveragents_store::messages::{self, AppendEvents, AppendedMessage};
use cleveragents_store::request_keys::{self, KeyClaim, RequestKey};
use cleveragents_store::{Engine, Error, UnitOfWork};

use crate::server::prune_request_keys;

/// Messages to append to a session atomically.
pub struct AppendRequest {
    session: SessionId,
    messages: Vec<AppendedMessage>,
    /// Whether the client sent a list and expects a list.
    is_list: bool,
    key: Option<RequestKey>,
}

impl AppendRequest {
    /// Creates a request. `is_list` is set when the client sent a list and expects a list. A request with
    /// an idempotency key is executed at most once.
    pub fn new(
        session: SessionId,
        messages: Vec<NewMessage>,
        is_list: bool,
        key: Option<RequestKey>,
    ) -> Self {
        Self {
            session,
            messages: messages.into_iter().map(AppendedMessage::from).collect(),
            is_list,
            key,
        }
    }

    /// Whether the client sent a list and expects a list.
    pub const fn is_list(&self) -> bool {
        self.is_list
    }

    pub fn messages(&self) -> impl Iterator<Item = &NewMessage> {
        self.messages.iter().map(|appended| &appended.message)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The messages are stored. Contains the body of the response.
    Stored(String),
    /// The session does not exist.
    NoSession,
    /// An earlier request has the same key.
    Repeated(KeyClaim),
}

/// Builds the response to an append. For requests with a key, the response is stored with the key.
#[derive(Clone, Copy)]
pub struct AppendResponder {
    /// Builds the body. The iterator returns the sequence numbers of the messages in order. The function
    /// must take exactly one number for each message of the request.
    pub body: fn(&AppendRequest, &mut dyn Iterator<Item = Sequence>) -> Result<String, Error>,
    /// Converts a body to the HTTP status and the text that are stored with the key and answer repeated requests.
    pub stored_response: fn(&str) -> (u16, String),
}

/// Appends messages of many requests at once.
pub struct BatchAppender {
    engine: Arc<Engine>,
    responder: AppendResponder,
}

impl BatchAppender {
    /// Creates an appender on a database.
    pub const fn new(engine: Arc<Engine>, responder: AppendResponder) -> Self {
        Self { engine, responder }
    }

    /// Stores all requests in one unit of work. If this fails, stores each request in its own unit, so
    /// that a failure affects only one client. The outcomes are in the order of the requests. Stored
    /// messages are durable when this returns.
    pub fn append_all(&self, requests: Vec<AppendRequest>) -> Vec<Result<AppendOutcome, Error>> {
        let requests = Arc::new(requests);
        let (all, responder) = (Arc::clone(&requests), self.responder);
        let stored = self.engine.write(move |unit| {
            if all.iter().any(|request| request.key.is_some()) {
                prune_request_keys(unit)?;
            }
            append(unit, &all, responder)
        });
        match stored {
            Ok(stored) => stored.into_iter().map(Ok).collect(),
            Err(_) => (0..requests.len())
                .map(|index| {
                    let all = Arc::clone(&requests);
                    let stored = self.engine.write(move |unit| {
                        let single = all.get(index..=index).unwrap_or_default();
                        append(unit, single, responder)
                    })?;
                    let missing = || Error::Internal("an append has no outcome".to_owned());
                    stored.into_iter().next().ok_or_else(missing)
                })
                .collect(),
        }
    }
}

/// Stores the messages of requests. One statement assigns the numbers of all messages of a session.
fn append(
    unit: &mut UnitOfWork<'_>,
    requests: &[AppendRequest],
    responder: AppendResponder,
) -> Result<Vec<AppendOutcome>, Error> {
    let mut outcomes: Vec<Option<AppendOutcome>> = Vec::with_capacity(requests.len());
    let mut sessions: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        outcomes.push(if let Some(key) = &request.key {
            // Stored one by one: the same key may occur twice, and the second request gets the response
            // of the first.
            Some(append_once(unit, request, key, responder)?)
        } else {
            sessions.entry(request.session).or_default().push(index);
            None
        });
    }
    for (session, indexes) in sessions {
        let of_session = || indexes.iter().filter_map(|index| requests.get(*index));
        let messages = of_session().flat_map(|request| &request.messages);
        let numbers = messages::append(unit, session, messages, AppendEvents::Each)?;
        let mut numbers = numbers.map(Vec::into_iter);
        for (index, request) in indexes.iter().zip(of_session()) {
            let outcome = match &mut numbers {
                Some(numbers) => AppendOutcome::Stored((responder.body)(request, numbers)?),
                None => AppendOutcome::NoSession,
            };
            if let Some(slot) = outcomes.get_mut(*index) {
                *slot = Some(outcome);
            }
        }
    }
    let missing = || Error::Internal("an append has no outcome".to_owned());
    outcomes
        .into_iter()
        .map(|outcome| outcome.ok_or_else(missing))
        .collect()
}

/// Stores the messages of a request with a key, and its response.
fn append_once(
    unit: &mut UnitOfWork<'_>,
    request: &AppendRequest,
    key: &RequestKey,
    responder: AppendResponder,
) -> Result<AppendOutcome, Error> {
    let claim = request_keys::claim(unit, key)?;
    if claim != KeyClaim::First {
        return Ok(AppendOutcome::Repeated(claim));
    }
    let appended = messages::append(unit, request.session, &request.messages, AppendEvents::Each)?;
    let Some(numbers) = appended else {
        // The request had no effect, so a client may repeat it with the same key.
        request_keys::forget(unit, key)?;
        return Ok(AppendOutcome::NoSession);
    };
    let body = (responder.body)(request, &mut numbers.into_iter())?;
    let (status, stored_body) = (responder.stored_response)(&body);
    request_keys::answer(unit, key, status, &stored_body)?;
    Ok(AppendOutcome::Stored(body))
}
