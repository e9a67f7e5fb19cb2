//! [`Appender`]: messages that callers append at the same time are stored together, by one thread and in one unit of
//! work, so that many callers need neither as many threads nor as many commits.

use std::sync::Arc;

use cleveragents_domain::{NewMessage, Sequence, SessionId};
use cleveragents_engine::SessionError;
use cleveragents_store::messages::{self, Announce, Appended};
use cleveragents_store::{Engine, Error};
use tokio::sync::{mpsc, oneshot};

use crate::problem::Problem;

/// How many messages are stored together at most.
const TOGETHER: usize = 1_024;

/// How many may wait; who comes then waits to be taken.
const WAITING: usize = 8_192;

struct Job {
    session: SessionId,
    messages: Vec<Appended>,
    answer: oneshot::Sender<Result<Option<Vec<Sequence>>, Error>>,
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

    /// Appends messages to a session. They are durable when this returns.
    pub(crate) async fn append(
        &self,
        session: SessionId,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Sequence>, Problem> {
        let (answer, stored) = oneshot::channel();
        let job = Job {
            session,
            messages: messages.into_iter().map(Appended::from).collect(),
            answer,
        };
        let gone = || Problem::from(Error::Internal("the thread that stores is gone".to_owned()));
        self.jobs.send(job).await.map_err(|_| gone())?;
        let sequences = stored.await.map_err(|_| gone())??;
        sequences.ok_or_else(|| Problem::of(&SessionError::NotFound(session.to_string())))
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
    let (wanted, answers): (Vec<_>, Vec<_>) = taken
        .drain(..)
        .map(|job| ((job.session, job.messages), job.answer))
        .unzip();
    let wanted = Arc::new(wanted);
    let all = Arc::clone(&wanted);
    let stored = engine.write(move |unit| {
        all.iter()
            .map(|(session, batch)| messages::append(unit, *session, batch, Announce::Each))
            .collect::<Result<Vec<_>, Error>>()
    });
    match stored {
        Ok(stored) => {
            for (answer, sequences) in answers.into_iter().zip(stored) {
                // Who asked may be gone; the message is stored all the same.
                let _told = answer.send(Ok(sequences));
            }
        }
        Err(_) => {
            for (index, answer) in answers.into_iter().enumerate() {
                let one = Arc::clone(&wanted);
                let stored = engine.write(move |unit| match one.get(index) {
                    Some((session, batch)) => {
                        messages::append(unit, *session, batch, Announce::Each)
                    }
                    None => Ok(None),
                });
                let _told = answer.send(stored);
            }
        }
    }
}
