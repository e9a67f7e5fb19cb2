//! [`Appender`]: one thread stores the messages of all clients that append at the same time in one unit of work, so
//! that many clients need neither many threads nor many commits.

use cleveragents_application::{
    AppendOutcome, AppendRequest, AppendResponder, BatchAppender, Services, StoreError,
};
use cleveragents_domain::{NewMessage, Sequence};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::keys;
use super::types::StoredDocument;
use crate::problem::Problem;

/// Maximum number of requests per unit of work.
const BATCH: usize = 1_024;

/// Maximum number of queued requests; further requests wait to be queued.
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
            kept: |body| (STORED, keys::stored_response(body)),
        });
        std::thread::spawn(move || store_batches(&appender, jobs, &runtime));
        Self { jobs: sender }
    }

    /// Appends messages to a session, all of them or none. They are durable when this returns.
    pub(crate) async fn append(&self, request: AppendRequest) -> Result<AppendOutcome, Problem> {
        let (outcome, stored) = oneshot::channel();
        let gone = || {
            let message = "the thread that stores messages has stopped".to_owned();
            Problem::from(StoreError::Internal(message))
        };
        let job = Job { request, outcome };
        self.jobs.send(job).await.map_err(|_| gone())?;
        Ok(stored.await.map_err(|_| gone())??)
    }
}

/// Stores requests in batches: each batch holds the requests that arrived while the last one was stored. The thread
/// never waits for the runtime; all clients of a batch are woken there at once.
fn store_batches(appender: &BatchAppender, mut jobs: mpsc::Receiver<Job>, runtime: &Handle) {
    let mut taken = Vec::with_capacity(BATCH);
    while jobs.blocking_recv_many(&mut taken, BATCH) > 0 {
        let (requests, waiting): (Vec<_>, Vec<_>) = taken
            .drain(..)
            .map(|job| (job.request, job.outcome))
            .unzip();
        let stored = appender.append_all(requests);
        runtime.spawn(async move {
            for (waiting, outcome) in waiting.into_iter().zip(stored) {
                // The client may have disconnected; the message is stored anyway.
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
    // Messages are numbered in order; `zip` stops after the last one.
    let mut stored = request.messages().zip(numbers).map(document);
    let body = if request.is_list() {
        serde_json::to_string(&stored.collect::<Vec<_>>())
    } else {
        serde_json::to_string(&stored.next())
    };
    body.map_err(|error| StoreError::Internal(format!("a response cannot be written: {error}")))
}
