//! A chain of models: when one fails, the next is called, even after part of an answer was streamed.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::async_stream::{Outlet, generate};
use crate::error::{ErrorKind, ModelError};
use crate::event::{Retry, StreamEvent};
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;

/// An element of the chain: a model, or the reason why it cannot be opened.
type ChainLink = (ModelName, Result<Arc<dyn Model>, ModelError>);

/// Several models as one. The chain has the name of its first model; each answer names the model that produced it.
pub(crate) struct Fallback {
    name: ModelName,
    links: Arc<[ChainLink]>,
}

impl Fallback {
    /// Creates a chain. Fails if the first model cannot be opened for a reason that no fallback can solve, such as an
    /// unknown provider, or if no model can be opened.
    pub(crate) fn new(first: ChainLink, rest: Vec<ChainLink>) -> Result<Self, ModelError> {
        let name = first.0.clone();
        if let Err(error) = &first.1
            && !error.kind().calls_for_fallback()
        {
            return Err(error.clone());
        }
        let links: Vec<ChainLink> = std::iter::once(first).chain(rest).collect();
        let mut errors = links.iter().filter_map(|(_, opened)| opened.as_ref().err());
        if let Some(error) = errors.next()
            && errors.count() + 1 == links.len()
        {
            return Err(error.clone());
        }
        Ok(Self {
            name,
            links: links.into(),
        })
    }
}

impl Model for Fallback {
    fn name(&self) -> &ModelName {
        &self.name
    }

    /// Capabilities of the first model that can be opened, with the tool limit that every model of the chain accepts.
    fn capabilities(&self) -> Capabilities {
        let mut opened = self
            .links
            .iter()
            .filter_map(|(_, opened)| opened.as_ref().ok())
            .map(|model| model.capabilities());
        let Some(mut first) = opened.next() else {
            return Capabilities::default();
        };
        for other in opened {
            first.max_tools = match (first.max_tools, other.max_tools) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            };
        }
        first
    }

    /// The highest price of the chain, because the model that will answer is not known in advance.
    fn price(&self) -> Option<Price> {
        let opened = self
            .links
            .iter()
            .filter_map(|(_, opened)| opened.as_ref().ok());
        opened
            .filter_map(|model| model.price())
            .reduce(Price::highest)
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        let links = Arc::clone(&self.links);
        let name = self.name.clone();
        generate(move |outlet| async move {
            let mut failures = Vec::new();
            for (_, opened) in links.iter() {
                let outcome = match opened {
                    Err(error) => Err(AttemptEnd::Next(error.clone())),
                    Ok(model) => try_link(&**model, &request, &cancel, &failures, &outlet).await,
                };
                match outcome {
                    Ok(()) => return,
                    Err(AttemptEnd::Final(error)) => return outlet.give(Err(error)).await,
                    Err(AttemptEnd::Next(error)) => failures.push(error),
                }
            }
            outlet.give(Err(all_failed(&name, failures))).await;
        })
    }
}

enum AttemptEnd {
    Final(ModelError),
    Next(ModelError),
}

async fn try_link(
    model: &dyn Model,
    request: &ChatRequest,
    cancel: &CancellationToken,
    failures: &[ModelError],
    outlet: &Outlet<Result<StreamEvent, ModelError>>,
) -> Result<(), AttemptEnd> {
    let name = model.name();
    let lacking = model.capabilities().lacking(request);
    // The requested model is always called, even if it lacks a capability according to the catalogue: the catalogue may
    // be wrong, and the user did not agree to send the conversation to another provider for this reason.
    if !lacking.is_empty() && !failures.is_empty() {
        let message = format!("the model lacks {}", lacking.join(" and "));
        return Err(AttemptEnd::Next(ModelError::new(
            ErrorKind::NotCapable,
            name,
            message,
        )));
    }
    if let Some(failure) = failures.last() {
        tracing::warn!(
            provider = name.provider(),
            model = name.model(),
            reason = failure.message(),
            "fallback model called"
        );
        let retry = Retry {
            failed: failure.model_name().unwrap_or_else(|| name.clone()),
            next: name.clone(),
            reason: failure.message().to_owned(),
            attempts: attempts(failures),
            pause_ms: 0,
        };
        outlet
            .give(Ok(StreamEvent::Retrying(Box::new(retry))))
            .await;
    }
    let mut events = model.stream(request.clone(), cancel.clone());
    while let Some(event) = events.next().await {
        match event {
            Ok(StreamEvent::Finished(mut completion)) => {
                completion.attempts += attempts(failures);
                outlet.give(Ok(StreamEvent::Finished(completion))).await;
                return Ok(());
            }
            Ok(StreamEvent::Retrying(mut retry)) => {
                retry.attempts += attempts(failures);
                outlet.give(Ok(StreamEvent::Retrying(retry))).await;
            }
            Ok(event) => outlet.give(Ok(event)).await,
            Err(error) if error.kind().calls_for_fallback() => return Err(AttemptEnd::Next(error)),
            Err(error) => return Err(AttemptEnd::Final(error)),
        }
    }
    let message = "the answer ended before it was complete";
    Err(AttemptEnd::Next(ModelError::new(
        ErrorKind::Interrupted,
        name,
        message,
    )))
}

fn attempts(failures: &[ModelError]) -> u32 {
    failures.iter().map(ModelError::attempts).sum()
}

/// Combines the failures: returns the first failure, with the others appended to its message.
fn all_failed(name: &ModelName, failures: Vec<ModelError>) -> ModelError {
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else {
        return ModelError::new(ErrorKind::NotCapable, name, "the chain contains no model");
    };
    failures.fold(first, |error, other| {
        error.with_note(&format!("; then {other}"))
    })
}
