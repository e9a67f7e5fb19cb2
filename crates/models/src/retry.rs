//! Retries: repeats failed attempts until one succeeds, within all limits.
//!
//! An attempt that was interrupted after part of its answer was streamed is also retried: callers act on an answer (run
//! its tool calls, store it) only when it is complete. [`StreamEvent::Retrying`] announces each retry, so that a caller
//! that shows streamed text can show that the answer restarts.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::async_stream::{Outlet, generate};
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, Retry, StopReason, StreamEvent};
use crate::http::seconds;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;

/// A source of answers that makes single attempts.
pub(crate) trait Backend: Send + Sync {
    fn name(&self) -> &ModelName;
    fn capabilities(&self) -> Capabilities;
    fn price(&self) -> Option<&Price>;

    /// Makes a single attempt. The completion contains a cost only if the provider reported it.
    fn attempt(&self, request: Arc<ChatRequest>) -> EventStream;
}

/// A model that retries failed attempts.
pub(crate) struct RetryingModel {
    backend: Arc<dyn Backend>,
    limits: Limits,
    policy: RetryPolicy,
}

impl RetryingModel {
    pub(crate) fn new(backend: Arc<dyn Backend>, limits: Limits, policy: RetryPolicy) -> Self {
        Self {
            backend,
            limits,
            policy,
        }
    }
}

impl Model for RetryingModel {
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
                    format!(
                        "the answer was not complete within {}",
                        seconds(limits.total)
                    ),
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
        let mut events = backend.attempt(Arc::clone(&request));
        let error = loop {
            match events.next().await {
                Some(Ok(StreamEvent::Finished(completion))) => {
                    if let Some(error) = empty_answer_error(&completion, backend) {
                        break error;
                    }
                    let completion = with_attempts_and_cost(*completion, backend, number + 1);
                    let event = StreamEvent::Finished(Box::new(completion));
                    return outlet.give(Ok(event)).await;
                }
                Some(Ok(event)) => outlet.give(Ok(event)).await,
                Some(Err(error)) => break error,
                None => {
                    let message = "the answer ended before it was complete";
                    break ModelError::new(ErrorKind::Interrupted, backend.name(), message);
                }
            }
        };
        // The connection must not stay open during the pause.
        drop(events);
        let pause = if error.is_retryable() {
            policy
                .pause(number, error.retry_after())
                .filter(|pause| Instant::now() + *pause < deadline)
        } else {
            None
        };
        let Some(pause) = pause else {
            return outlet.give(Err(error.with_attempts(number + 1))).await;
        };
        number += 1;
        tracing::warn!(
            provider = backend.name().provider(),
            model = backend.name().model(),
            attempt = number,
            pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            reason = error.message(),
            "model call retried"
        );
        let retry = Retry {
            failed: backend.name().clone(),
            next: backend.name().clone(),
            reason: error.message().to_owned(),
            attempts: number,
            pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        };
        outlet
            .give(Ok(StreamEvent::Retrying(Box::new(retry))))
            .await;
        sleep(pause).await;
    }
}

/// Returns an error if the answer has neither text nor calls.
fn empty_answer_error(completion: &Completion, backend: &dyn Backend) -> Option<ModelError> {
    let message = &completion.message;
    if !message.text.trim().is_empty() || !message.calls.is_empty() {
        return None;
    }
    let (kind, why) = match completion.stop {
        StopReason::ContentFilter => (
            ErrorKind::ContentFiltered,
            "the provider withheld the whole answer",
        ),
        StopReason::MaxTokens => (
            ErrorKind::NoRoomForAnswer,
            "the limit of output tokens was reached before the answer started",
        ),
        _ => (
            ErrorKind::EmptyAnswer,
            "the answer is empty: it has neither text nor tool calls",
        ),
    };
    Some(ModelError::new(kind, backend.name(), why))
}

/// Adds the number of attempts and the computed cost to the completion.
fn with_attempts_and_cost(
    mut completion: Completion,
    backend: &dyn Backend,
    attempts: u32,
) -> Completion {
    completion.attempts = attempts;
    if completion.cost_micro_usd.is_none() {
        let price = backend.price();
        let price = price.filter(|price| completion.usage.is_reported() || price.is_free());
        completion.cost_micro_usd = price.map(|price| price.cost(&completion.usage));
    }
    completion
}
