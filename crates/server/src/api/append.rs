//! [`Appender`]: one thread stores the messages of all clients that append at the same time in one unit of work, so
//! that many clients need neither many threads nor many commits.

use cleveragents_application::{
    AppendOutcome, AppendRequest, AppendResponder, BatchAppender, Services, StoreError,
};
use cleveragents_domain::{NewMessage, Sequence};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::idempotency;
use super::types::StoredDocument;
use crate::problem::Problem;

/// Maximum number of requests per unit of work.
const MAX_BATCH: usize = 1_024;

/// Maximum number of queued requests; further requests wait to be queued.
const MAX_QUEUED: usize = 8_192;

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
    /// Starts the thread that stores messages. The thread ends when the last clone of the appender is dropped.
    pub(crate) fn start(services: &Services) -> Self {
        let (sender, jobs) = mpsc::channel(MAX_QUEUED);
        let runtime = Handle::current();
        let appender = services.appender(AppendResponder {
            body,
            stored_response: |body| (STORED, idempotency::stored_response(body)),
        });
        std::thread::spawn(move || store_batches(&appender, jobs, &runtime));
        Self { jobs: sender }
    }

    /// Appends messages to a session, all of them or none. They are durable when this returns.
    pub(crate) async fn append(&self, request: AppendRequest) -> Result<AppendOutcome, Problem> {
        let (outcome, stored) = oneshot::channel();
        let thread_stopped = || {
            let message = "the thread that stores messages has stopped".to_owned();
            Problem::from(StoreError::Internal(message))
        };
        let job = Job { request, outcome };
        self.jobs.send(job).await.map_err(|_| thread_stopped())?;
        Ok(stored.await.map_err(|_| thread_stopped())??)
    }
}

/// Stores requests in batches: each batch holds the requests that arrived while the previous batch was stored. The
/// thread never waits for the runtime, which wakes all clients of a batch at once.
fn store_batches(appender: &BatchAppender, mut jobs: mpsc::Receiver<Job>, runtime: &Handle) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while jobs.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        let (requests, senders): (Vec<_>, Vec<_>) = batch
            .drain(..)
            .map(|job| (job.request, job.outcome))
            .unzip();
        let stored = appender.append_all(requests);
        runtime.spawn(async move {
            for (sender, outcome) in senders.into_iter().zip(stored) {
                // The client may have disconnected; the message is stored anyway.
                let _sent = sender.send(outcome);
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
