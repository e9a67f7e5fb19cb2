//! A remote agent used as a model: it is called over A2A, and its answer is returned like a model's answer.
//!
//! The agent receives only the last message of a conversation. It remembers the earlier messages under the context id,
//! which is stored with its answers. When the agent asks for input, its answer becomes a call of the ask-user tool, so
//! that the user answers it like any other question, now or later. The result of that call is sent to the same task.
//!
//! The task id is reported as soon as it is known ([`StreamEvent::Noted`]). A caller that repeats a request after a
//! crash passes the reported data ([`ChatRequest::noted`]), and the task is resumed instead of sent twice.

mod answer;
mod call;
mod card;
mod connection;
mod error;

use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::RemoteAgent;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use self::call::AgentCall;
use self::connection::Connection;
use self::error::CallError;
use crate::async_stream::generate;
use crate::error::{ErrorKind, ModelError};
use crate::http::seconds;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::redact::Redactor;
use crate::request::ChatRequest;
use crate::secret::Secret;

/// Provider part of the names of remote agents.
pub const PROVIDER: &str = "a2a";

/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Address, credentials and settings for calling an agent.
pub(crate) struct Caller {
    pub(crate) name: ModelName,
    pub(crate) agent: RemoteAgent,
    pub(crate) token: Option<Secret>,
    /// Whether the agent may be on this machine or in a private network.
    pub(crate) allows_private: bool,
    pub(crate) limits: Limits,
    pub(crate) retry: RetryPolicy,
    /// Redacts the token of the agent too.
    pub(crate) redactor: Redactor,
}

/// A remote agent.
pub(crate) struct AgentModel(Arc<AgentState>);

struct AgentState {
    caller: Caller,
    /// `None` until the agent card is read.
    connection: Mutex<Option<Arc<Connection>>>,
}

impl AgentModel {
    pub(crate) fn new(caller: Caller) -> Self {
        Self(Arc::new(AgentState {
            caller,
            connection: Mutex::default(),
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
            let mut call = AgentCall::new(&inner, &outlet, &request);
            let run = timeout_at(deadline, Box::pin(call.run(&request)));
            let error = match cancel.run_until_cancelled(run).await {
                Some(Ok(Ok(()))) => return,
                Some(Ok(Err(error))) => error.into_model_error(caller),
                Some(Err(_)) => {
                    call.cancel().await;
                    let why = format!("the agent did not answer within {}", seconds(total));
                    ModelError::new(ErrorKind::Timeout, &caller.name, why)
                        .with_hint("raise `timeout_seconds` in the file of the actor")
                }
                None => {
                    call.cancel().await;
                    let why = "the call was stopped";
                    ModelError::new(ErrorKind::Cancelled, &caller.name, why)
                }
            };
            outlet.give(Err(error)).await;
        })
    }
}

impl AgentState {
    /// Returns the connection if it is open.
    fn opened(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the connection, opening it if needed.
    async fn connect(&self) -> Result<Arc<Connection>, CallError> {
        if let Some(connection) = self.opened() {
            return Ok(connection);
        }
        let mut number = 0;
        let connection = loop {
            match Connection::open(&self.caller).await {
                Ok(connection) => break Arc::new(connection),
                Err(error) => {
                    let pause = self.caller.retry.pause(number, error.retry_after());
                    let Some(pause) = pause.filter(|_| error.had_no_effect()) else {
                        return Err(error);
                    };
                    sleep(pause).await;
                    number += 1;
                }
            }
        };
        let mut opened = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *opened = Some(Arc::clone(&connection));
        Ok(connection)
    }
}
