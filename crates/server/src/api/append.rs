//! [`Appender`]: messages that callers append at the same time are stored together, by one thread and in one unit of
//! work, so that many callers need neither as many threads nor as many commits. The key of a request is stored in the
//! unit that stores its messages: there is never one without the other.

use std::sync::Arc;

use cleveragents_domain::{MessageId, NewMessage, Sequence, SessionId};
use cleveragents_store::messages::{self, Announce, Appended};
use cleveragents_store::request_keys::{self, Begun, RequestKey};
use cleveragents_store::{Engine, Error, UnitOfWork};
use tokio::sync::{mpsc, oneshot};

use super::keys;
use super::types::StoredDocument;
use crate::problem::Problem;

/// How many requests are stored together at most.
const TOGETHER: usize = 1_024;

/// How many may wait; who comes then waits to be taken.
const WAITING: usize = 8_192;

/// The status of an append that worked.
pub(crate) const STORED: u16 = 201;

/// What is to be stored.
pub(crate) struct Append {
    pub(crate) session: SessionId,
    pub(crate) messages: Vec<NewMessage>,
    /// Whether the caller gave a list, and gets one.
    pub(crate) is_list: bool,
    pub(crate) key: Option<RequestKey>,
}

/// What came of it.
pub(crate) enum Outcome {
    /// They are stored; the answer as JSON.
    Stored(String),
    /// The session does not exist.
    NoSession,
    /// The request is not the first one with its key.
    Again(Begun),
}

struct Wanted {
    session: SessionId,
    messages: Vec<Appended>,
    is_list: bool,
    key: Option<RequestKey>,
}

struct Job {
    wanted: Wanted,
    answer: oneshot::Sender<Result<Outcome, Error>>,
}

/// Stores messages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Appender {
    jobs: mpsc::Sender<Job>,
}

impl Appender {
    /// Begins a thread that stores messages, as long as somebody may append.
    pub(crate) fn begin(engine: Arc<Engine>) -> Self {
        let (sender, jobs) = mpsc::channel(WAITING);
        std::thread::spawn(move || work(&engine, jobs));
        Self { jobs: sender }
    }

    /// Appends messages to a session, all of them or none. They are durable when this returns.
    pub(crate) async fn append(&self, append: Append) -> Result<Outcome, Problem> {
        let (answer, stored) = oneshot::channel();
        let job = Job {
            wanted: Wanted {
                session: append.session,
                messages: append.messages.into_iter().map(Appended::from).collect(),
                is_list: append.is_list,
                key: append.key,
            },
            answer,
        };
        let gone = || Problem::from(Error::Internal("the thread that stores is gone".to_owned()));
        self.jobs.send(job).await.map_err(|_| gone())?;
        Ok(stored.await.map_err(|_| gone())??)
    }
}

fn work(engine: &Engine, mut jobs: mpsc::Receiver<Job>) {
    let mut taken = Vec::with_capacity(TOGETHER);
    while jobs.blocking_recv_many(&mut taken, TOGETHER) > 0 {
        store(engine, &mut taken);
    }
}

/// Stores what is asked for in one unit; if that fails, each alone, so that one failure is one caller's only.
fn store(engine: &Engine, taken: &mut Vec<Job>) {
    let (wanted, answers): (Vec<_>, Vec<_>) =
        taken.drain(..).map(|job| (job.wanted, job.answer)).unzip();
    let wanted = Arc::new(wanted);
    let all = Arc::clone(&wanted);
    let stored = engine.write(move |unit| {
        if all.iter().any(|wanted| wanted.key.is_some()) {
            request_keys::prune(unit, keys::oldest())?;
        }
        all.iter()
            .map(|wanted| one(unit, wanted))
            .collect::<Result<Vec<_>, Error>>()
    });
    match stored {
        Ok(stored) => {
            for (answer, outcome) in answers.into_iter().zip(stored) {
                // Who asked may be gone; the message is stored all the same.
                let _told = answer.send(Ok(outcome));
            }
        }
        Err(_) => {
            for (index, answer) in answers.into_iter().enumerate() {
                let alone = Arc::clone(&wanted);
                let stored = engine.write(move |unit| match alone.get(index) {
                    Some(wanted) => one(unit, wanted),
                    None => Ok(Outcome::NoSession),
                });
                let _told = answer.send(stored);
            }
        }
    }
}

/// Stores the messages of one request, and what it is answered.
fn one(unit: &mut UnitOfWork<'_>, wanted: &Wanted) -> Result<Outcome, Error> {
    if let Some(key) = &wanted.key {
        let begun = request_keys::begin(unit, key)?;
        if begun != Begun::First {
            return Ok(Outcome::Again(begun));
        }
    }
    let appended = messages::append(unit, wanted.session, &wanted.messages, Announce::Each)?;
    let Some(sequences) = appended else {
        if let Some(key) = &wanted.key {
            request_keys::forget(unit, key)?;
        }
        return Ok(Outcome::NoSession);
    };
    let body = answer(wanted, &sequences)?;
    if let Some(key) = &wanted.key {
        request_keys::answer(unit, key, STORED, &keys::kept(&body))?;
    }
    Ok(Outcome::Stored(body))
}

fn answer(wanted: &Wanted, sequences: &[Sequence]) -> Result<String, Error> {
    let document = |(id, sequence): (MessageId, &Sequence)| StoredDocument {
        id: id.to_string(),
        sequence: sequence.0,
    };
    let ids = wanted.messages.iter().map(|one| one.message.id());
    let mut stored = ids.zip(sequences).map(document);
    let body = if wanted.is_list {
        serde_json::to_string(&stored.collect::<Vec<_>>())
    } else {
        serde_json::to_string(&stored.next())
    };
    body.map_err(|error| Error::Internal(format!("an answer cannot be written: {error}")))
}
