//! A remote agent as a model: it is asked over A2A, and what it answers is an answer.
//!
//! Of a conversation the agent gets what was said last; the rest it knows by the id of the conversation, which is
//! kept with its answers. Where the agent asks something, its answer is a call of the tool that asks people, so that
//! a person answers it like any question, now or later; the result of that call goes back to the same task.
//!
//! As soon as the task is known it is noted ([`StreamEvent::Noted`]). Who asks again after a crash hands the note in
//! ([`ChatRequest::noted`]), and the task is gone on with and not sent twice.

mod answer;
mod asking;
mod card;
mod line;
mod told;
mod trouble;

use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::RemoteAgent;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use self::asking::Asking;
use self::line::Line;
use self::trouble::Trouble;
use crate::error::{ErrorKind, ModelError};
use crate::generate::generate;
use crate::http::seconds;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::redact::Redactor;
use crate::request::ChatRequest;
use crate::secret::Secret;

/// What stands in the place of a provider in the names of agents.
pub const PROVIDER: &str = "a2a";

/// The largest answer.
const ANSWER_BYTES: usize = 16 << 20;

/// What is needed to call an agent.
pub(crate) struct Caller {
    pub(crate) name: ModelName,
    pub(crate) agent: RemoteAgent,
    pub(crate) token: Option<Secret>,
    /// Whether it may be on this machine or in a private network.
    pub(crate) allows_private: bool,
    pub(crate) limits: Limits,
    pub(crate) retry: RetryPolicy,
    /// Knows the token too.
    pub(crate) redactor: Redactor,
}

/// A remote agent.
pub(crate) struct AgentModel(Arc<Inner>);

struct Inner {
    caller: Caller,
    /// The way to it, once it was found.
    line: Mutex<Option<Arc<Line>>>,
}

impl AgentModel {
    pub(crate) fn new(caller: Caller) -> Self {
        Self(Arc::new(Inner {
            caller,
            line: Mutex::default(),
        }))
    }
}

impl Model for AgentModel {
    fn name(&self) -> &ModelName {
        &self.0.caller.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            tools: false,
            json_schema: false,
            ..Capabilities::default()
        }
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        let inner = Arc::clone(&self.0);
        generate(move |outlet| async move {
            let caller = &inner.caller;
            let total = caller.agent.timeout.unwrap_or(caller.limits.total);
            let deadline = Instant::now() + total;
            let mut asking = Asking::new(&inner, &outlet, &request);
            let asked = timeout_at(deadline, Box::pin(asking.ask(&request)));
            let error = match cancel.run_until_cancelled(asked).await {
                Some(Ok(Ok(()))) => return,
                Some(Ok(Err(trouble))) => trouble.into_error(caller),
                Some(Err(_)) => {
                    asking.cancel().await;
                    let why = format!("the agent had not answered after {}", seconds(total));
                    ModelError::new(ErrorKind::Timeout, &caller.name, why)
                        .with_hint("raise `timeout_seconds` in the file of the actor")
                }
                None => {
                    asking.cancel().await;
                    let why = "the call was stopped";
                    ModelError::new(ErrorKind::Cancelled, &caller.name, why)
                }
            };
            outlet.give(Err(error)).await;
        })
    }
}

impl Inner {
    async fn line(&self) -> Result<Arc<Line>, Trouble> {
        let known = |inner: &Self| {
            let line = inner.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.clone()
        };
        if let Some(line) = known(self) {
            return Ok(line);
        }
        let mut number = 0;
        let line = loop {
            match Line::open(&self.caller).await {
                Ok(line) => break Arc::new(line),
                Err(trouble) => {
                    let pause = self.caller.retry.pause(number, trouble.retry_after());
                    let Some(pause) = pause.filter(|_| trouble.was_not_taken()) else {
                        return Err(trouble);
                    };
                    sleep(pause).await;
                    number += 1;
                }
            }
        };
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&line));
        Ok(line)
    }
}
