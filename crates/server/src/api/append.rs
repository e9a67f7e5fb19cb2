//! [`Appender`]: messages that clients append at the same time are stored together, by one thread and in one unit of
//! work, so that many clients need neither as many threads nor as many commits.

use cleveragents_application::{
    AppendOutcome, AppendRequest, AppendResponder, BatchAppender, Services, StoreError,
};
use cleveragents_domain::{NewMessage, Sequence};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::keys;
use super::types::StoredDocument;
use crate::problem::Problem;

/// Maximum number of requests that are stored together.
const BATCH: usize = 1_024;

/// Maximum number of requests that wait to be stored; more wait to be accepted.
const QUEUE: usize = 8_192;

/// The status of an append that succeeded.
pub(crate) const STORED: u16 = 201;

struct Job {
    request: AppendRequest,
    outcome: oneshot::Sender<Result<AppendOutcome, StoreError>>,
}

/// Stores messages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Appender {
    jobs: mpsc::Sender<Job>,
}

impl Appender {
    /// Starts the thread that stores messages. It ends when the last clone of the appender is dropped.
    pub(crate) fn start(services: &Services) -> Self {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let runtime = Handle::current();
        let appender = services.appender(AppendResponder {
            body,
            kept: |body| (STORED, keys::kept(body)),
        });
        std::thread::spawn(move || work(&appender, jobs, &runtime));
        Self { jobs: sender }
    }

    /// Appends messages to a session, all of them or none. They are durable when this returns.
    pub(crate) async fn append(&self, request: AppendRequest) -> Result<AppendOutcome, Problem> {
        let (outcome, stored) = oneshot::channel();
        let gone = || {
            let message = "the thread that stores messages is gone".to_owned();
            Problem::from(StoreError::Internal(message))
        };
        let job = Job { request, outcome };
        self.jobs.send(job).await.map_err(|_| gone())?;
        Ok(stored.await.map_err(|_| gone())??)
    }
}

/// Stores the requests that came while the last ones were stored. It never waits for the runtime; the clients are woken
/// there, all of them at once.
fn work(appender: &BatchAppender, mut jobs: mpsc::Receiver<Job>, runtime: &Handle) {
    let mut taken = Vec::with_capacity(BATCH);
    while jobs.blocking_recv_many(&mut taken, BATCH) > 0 {
        let (requests, waiting): (Vec<_>, Vec<_>) = taken
            .drain(..)
            .map(|job| (job.request, job.outcome))
            .unzip();
        let stored = appender.append_all(requests);
        runtime.spawn(async move {
            for (waiting, outcome) in waiting.into_iter().zip(stored) {
                // The client may be gone; the message is stored all the same.
                let _sent = waiting.send(outcome);
            }
        });
    }
}

/// The body of the response: the ids and numbers of the messages.
fn body(
    request: &AppendRequest,
    numbers: &mut dyn Iterator<Item = Sequence>,
) -> Result<String, StoreError> {
    let document = |(message, sequence): (&NewMessage, Sequence)| StoredDocument {
        id: message.id().to_string(),
        sequence: sequence.0,
    };
    // The messages come first: where they end, no number is taken.
    let mut stored = request.messages().zip(numbers).map(document);
    let body = if request.is_list() {
        serde_json::to_string(&stored.collect::<Vec<_>>())
    } else {
        serde_json::to_string(&stored.next())
    };
    body.map_err(|error| StoreError::Internal(format!("a response cannot be written: {error}")))
}
