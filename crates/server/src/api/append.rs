//! [`Appender`]: messages that callers append at the same time are stored together, by one thread and in one unit of
//! work, so that many callers need neither as many threads nor as many commits. The key of a request is stored in the
//! unit that stores its messages: there is never one without the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::{NewMessage, Sequence, SessionId};
use cleveragents_store::messages::{self, Announce, Appended};
use cleveragents_store::request_keys::{self, Begun, RequestKey};
use cleveragents_store::{Engine, Error, UnitOfWork};
use tokio::runtime::Handle;
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
        let runtime = Handle::current();
        std::thread::spawn(move || work(&engine, jobs, &runtime));
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
        let gone = || Problem::from(Error::Internal("what stores messages is gone".to_owned()));
        self.jobs.send(job).await.map_err(|_| gone())?;
        Ok(stored.await.map_err(|_| gone())??)
    }
}

/// Takes what was asked for while the last messages were stored, and stores it. It never waits for the runtime; who
/// asked is woken there, all of them at once.
fn work(engine: &Engine, mut jobs: mpsc::Receiver<Job>, runtime: &Handle) {
    let mut taken = Vec::with_capacity(TOGETHER);
    while jobs.blocking_recv_many(&mut taken, TOGETHER) > 0 {
        let (wanted, answers): (Vec<_>, Vec<_>) =
            taken.drain(..).map(|job| (job.wanted, job.answer)).unzip();
        let stored = store(engine, wanted);
        runtime.spawn(async move {
            for (answer, outcome) in answers.into_iter().zip(stored) {
                // Who asked may be gone; the message is stored all the same.
                let _told = answer.send(outcome);
            }
        });
    }
}

/// Stores what is asked for in one unit; if that fails, each alone, so that one failure is one caller's only.
fn store(engine: &Engine, wanted: Vec<Wanted>) -> Vec<Result<Outcome, Error>> {
    let wanted = Arc::new(wanted);
    let all = Arc::clone(&wanted);
    let stored = engine.write(move |unit| {
        if all.iter().any(|wanted| wanted.key.is_some()) {
            request_keys::prune(unit, keys::oldest())?;
        }
        together(unit, &all)
    });
    match stored {
        Ok(stored) => stored.into_iter().map(Ok).collect(),
        Err(_) => (0..wanted.len())
            .map(|index| {
                let alone = Arc::clone(&wanted);
                let stored = engine.write(move |unit| {
                    together(unit, alone.get(index..=index).unwrap_or_default())
                })?;
                let gone = || Error::Internal("what was stored has no answer".to_owned());
                stored.into_iter().next().ok_or_else(gone)
            })
            .collect(),
    }
}

/// Stores the messages of requests, and what each is answered. What goes to one session takes its numbers at once.
fn together(unit: &mut UnitOfWork<'_>, all: &[Wanted]) -> Result<Vec<Outcome>, Error> {
    let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(all.len());
    let mut sessions: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
    for (index, wanted) in all.iter().enumerate() {
        outcomes.push(if let Some(key) = &wanted.key {
            // One after the other: the same key may come twice, and the second is answered as the first.
            Some(once(unit, wanted, key)?)
        } else {
            sessions.entry(wanted.session).or_default().push(index);
            None
        });
    }
    for (session, indexes) in sessions {
        let of_session = || indexes.iter().filter_map(|index| all.get(*index));
        let messages = of_session().flat_map(|wanted| &wanted.messages);
        let numbers = messages::append(unit, session, messages, Announce::Each)?;
        let mut numbers = numbers.map(Vec::into_iter);
        for (index, wanted) in indexes.iter().zip(of_session()) {
            let outcome = match &mut numbers {
                Some(numbers) => Outcome::Stored(answer(wanted, numbers)?),
                None => Outcome::NoSession,
            };
            if let Some(place) = outcomes.get_mut(*index) {
                *place = Some(outcome);
            }
        }
    }
    let missing = || Error::Internal("a request has no outcome".to_owned());
    outcomes
        .into_iter()
        .map(|outcome| outcome.ok_or_else(missing))
        .collect()
}

/// Stores the messages of a request with a key, and its answer.
fn once(unit: &mut UnitOfWork<'_>, wanted: &Wanted, key: &RequestKey) -> Result<Outcome, Error> {
    let begun = request_keys::begin(unit, key)?;
    if begun != Begun::First {
        return Ok(Outcome::Again(begun));
    }
    let appended = messages::append(unit, wanted.session, &wanted.messages, Announce::Each)?;
    let Some(sequences) = appended else {
        // It was not carried out, and may come again.
        request_keys::forget(unit, key)?;
        return Ok(Outcome::NoSession);
    };
    let body = answer(wanted, &mut sequences.into_iter())?;
    request_keys::answer(unit, key, STORED, &keys::kept(&body))?;
    Ok(Outcome::Stored(body))
}

/// What a request is answered, with the next numbers.
fn answer(wanted: &Wanted, numbers: &mut impl Iterator<Item = Sequence>) -> Result<String, Error> {
    let document = |(one, sequence): (&Appended, Sequence)| StoredDocument {
        id: one.message.id().to_string(),
        sequence: sequence.0,
    };
    // The messages come first: where they end, no number is taken.
    let mut stored = wanted.messages.iter().zip(numbers).map(document);
    let body = if wanted.is_list {
        serde_json::to_string(&stored.collect::<Vec<_>>())
    } else {
        serde_json::to_string(&stored.next())
    };
    body.map_err(|error| Error::Internal(format!("an answer cannot be written: {error}")))
}
