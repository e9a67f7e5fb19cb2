//! Trying again: one attempt after the other until one succeeds, within all limits.
//!
//! Once something of an answer was handed out, a failure is final here: the caller decides
//! whether to ask again, because what was shown cannot be taken back.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StreamEvent};
use crate::generate::{Outlet, generate};
use crate::http::seconds;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;

/// One way to get an answer, tried once.
pub(crate) trait Backend: Send + Sync {
    fn name(&self) -> &ModelName;
    fn capabilities(&self) -> Capabilities;
    fn price(&self) -> Option<&Price>;

    /// A single attempt. The completion it ends with carries only a cost that the provider told.
    fn attempt(&self, request: Arc<ChatRequest>) -> EventStream;
}

/// A model that is tried again when it fails before it said anything.
pub(crate) struct Persistent {
    backend: Arc<dyn Backend>,
    limits: Limits,
    policy: RetryPolicy,
}

impl Persistent {
    pub(crate) fn new(backend: Arc<dyn Backend>, limits: Limits, policy: RetryPolicy) -> Self {
        Self {
            backend,
            limits,
            policy,
        }
    }
}

impl Model for Persistent {
    fn name(&self) -> &ModelName {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn price(&self) -> Option<Price> {
        self.backend.price().copied()
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        let backend = Arc::clone(&self.backend);
        let (limits, policy) = (self.limits, self.policy);
        generate(move |outlet| async move {
            let deadline = Instant::now() + limits.total;
            let attempts = attempts(&*backend, Arc::new(request), policy, deadline, &outlet);
            let outcome = cancel
                .run_until_cancelled(timeout_at(deadline, Box::pin(attempts)))
                .await;
            let (kind, message) = match outcome {
                Some(Ok(())) => return,
                Some(Err(_)) => (
                    ErrorKind::Timeout,
                    format!("the answer was not whole within {}", seconds(limits.total)),
                ),
                None => (ErrorKind::Cancelled, "the call was stopped".to_owned()),
            };
            let error = ModelError::new(kind, backend.name(), message);
            outlet.give(Err(error)).await;
        })
    }
}

async fn attempts(
    backend: &dyn Backend,
    request: Arc<ChatRequest>,
    policy: RetryPolicy,
    deadline: Instant,
    outlet: &Outlet<Result<StreamEvent, ModelError>>,
) {
    let mut number = 0;
    loop {
        let mut was_given = false;
        let mut events = backend.attempt(Arc::clone(&request));
        let error = loop {
            match events.next().await {
                Some(Ok(StreamEvent::Finished(completion))) => {
                    let completion = settled(*completion, backend, number + 1);
                    let event = StreamEvent::Finished(Box::new(completion));
                    return outlet.give(Ok(event)).await;
                }
                Some(Ok(event)) => {
                    was_given = true;
                    outlet.give(Ok(event)).await;
                }
                Some(Err(error)) => break error,
                None => {
                    let message = "the answer ended before it was whole";
                    break ModelError::new(ErrorKind::Interrupted, backend.name(), message);
                }
            }
        };
        // The connection must not stay open during the pause.
        drop(events);
        let pause = if was_given || !error.is_retryable() {
            None
        } else {
            policy
                .pause(number, error.retry_after())
                .filter(|pause| Instant::now() + *pause < deadline)
        };
        let Some(pause) = pause else {
            return outlet.give(Err(error.with_attempts(number + 1))).await;
        };
        sleep(pause).await;
        number += 1;
    }
}

/// Adds what only the end of all attempts knows.
fn settled(mut completion: Completion, backend: &dyn Backend, attempts: u32) -> Completion {
    completion.attempts = attempts;
    if completion.cost_micro_usd.is_none() {
        let price = backend.price();
        let price = price.filter(|price| completion.usage.is_told() || price.is_free());
        completion.cost_micro_usd = price.map(|price| price.cost(&completion.usage));
    }
    completion
}
