//! Synchronous requests to a server: [`Server::ask`], and the [`RequestCaller`] that makes them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_tools::ports::WorkspaceFolders;
use rmcp::service::ServiceError;

use crate::callers::{CALLER, CallerEvent};
use crate::connection::ServerConnection;
use crate::definition::Transport;
use crate::error::McpError;
use crate::server::Server;

/// Poll interval at which a waiting caller checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Reason why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AskError {
    /// The caller cancelled the request.
    Cancelled,
    /// The time limit expired.
    TimedOut,
    /// The server failed.
    Failed(McpError),
}

impl From<McpError> for AskError {
    fn from(error: McpError) -> Self {
        Self::Failed(error)
    }
}

/// Operations that [`Server::ask`] needs from its caller.
pub(crate) trait RequestCaller {
    /// Remaining time for the answer.
    fn time_left(&self) -> Duration;
    /// Returns whether the caller cancelled the request.
    fn is_cancelled(&self) -> bool;
    /// Directories of the caller's sandbox.
    fn folders(&self) -> WorkspaceFolders;
    /// Handles a log message of the server.
    fn note(&mut self, text: &str);
    /// Asks the user a question of the server, and returns the answer.
    fn elicit(&mut self, question: &rmcp::model::ElicitRequestParams) -> rmcp::model::ElicitResult;
}

/// Cause of a failed request.
pub(crate) enum RequestError {
    /// The request was not sent.
    NotSent(McpError),
    /// The server or the connection failed.
    Exchange(ServiceError),
}

impl From<ServiceError> for RequestError {
    fn from(error: ServiceError) -> Self {
        Self::Exchange(error)
    }
}

impl Server {
    /// Sends a request and waits for its result. While it waits, this thread also answers questions of
    /// the server. `request` receives the connection and sends the request.
    pub(crate) fn ask<T, F, R>(
        self: &Arc<Self>,
        caller: &mut dyn RequestCaller,
        request: F,
    ) -> Result<T, AskError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Self>, Arc<ServerConnection>) -> R + Send + 'static,
        R: Future<Output = Result<T, RequestError>> + Send,
    {
        let folders = caller.folders();
        let roots = folders.roots.clone();
        // Register before connecting: a server may ask for the roots while it starts.
        let mut registration = self.callers.add(roots.clone());
        let (in_flight, attempt) = self.enter(folders)?;
        let Some(engine) = self.shared.engine.upgrade() else {
            return Err(self.closed().into());
        };
        let slot = Arc::new(Mutex::new(None));
        let result_slot = Arc::clone(&slot);
        let sender = registration.sender.clone();
        let this = Arc::clone(self);
        let exchange = async move {
            let result = match this.link(attempt).await {
                Err(error) => Err(error),
                Ok(link) => {
                    if this.definition.transport() != Transport::Stdio {
                        this.callers.notify_roots(&link, &roots).await;
                    }
                    match request(Arc::clone(&this), Arc::clone(&link)).await {
                        Ok(value) => Ok(value),
                        Err(RequestError::NotSent(error)) => Err(error),
                        Err(RequestError::Exchange(error)) => Err(link.failed(error).await),
                    }
                }
            };
            *result_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            drop(in_flight);
            // The caller may have stopped waiting.
            let _unless_gone = sender.send(CallerEvent::Done);
        };
        let task = self.shared.tracker.spawn_on(
            CALLER.scope(registration.number, exchange),
            &self.shared.runtime,
        );
        loop {
            // Check this before waiting: a finished task has already queued all its events.
            let is_finished = task.is_finished();
            match engine.wait(registration.next(caller.time_left().min(POLL_INTERVAL))) {
                Some(CallerEvent::Note(text)) => caller.note(&self.secrets().hide(&text)),
                Some(CallerEvent::Elicit(question, reply)) => {
                    // The server may have closed the connection.
                    let _unless_gone = reply.send(caller.elicit(&question));
                }
                Some(CallerEvent::Done) => break,
                None if is_finished => break,
                None => {}
            }
            let reason = if caller.is_cancelled() {
                AskError::Cancelled
            } else if caller.time_left().is_zero() {
                AskError::TimedOut
            } else {
                continue;
            };
            // Dropping a request notifies the server of the cancellation.
            task.abort();
            return Err(reason);
        }
        let result = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match result {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                self.remember_challenge(&error);
                Err(error.into())
            }
            None => Err(self.closed().into()),
        }
    }
}
