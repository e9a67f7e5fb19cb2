//! Asking a server something from a thread that waits: [`Server::ask`] and who may ask.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_tools::ports::WorkspaceFolders;
use rmcp::service::ServiceError;

use crate::callers::{CALLER, Event};
use crate::definition::Transport;
use crate::error::McpError;
use crate::link::Link;
use crate::server::Server;

/// How often a waiting caller looks whether it is cancelled.
const GLANCE: Duration = Duration::from_millis(10);

/// Why a request was given up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum GivenUp {
    /// The caller does not want it any more.
    Cancelled,
    /// The time is over.
    TimedOut,
    /// The server could not do it.
    Failed(McpError),
}

impl From<McpError> for GivenUp {
    fn from(error: McpError) -> Self {
        Self::Failed(error)
    }
}

/// A caller of a server, as [`Server::ask`] needs it.
pub(crate) trait Asker {
    /// How long the answer may take from now on.
    fn time_left(&self) -> Duration;
    /// Whether the answer is not wanted any more.
    fn is_cancelled(&self) -> bool;
    /// The folders of the sandbox.
    fn folders(&self) -> WorkspaceFolders;
    /// Takes in a message for the log.
    fn note(&mut self, text: &str);
    /// Answers a question for a person.
    fn elicit(&mut self, question: &rmcp::model::ElicitRequestParams) -> rmcp::model::ElicitResult;
}

/// Why a request was not answered.
pub(crate) enum Refused {
    /// We did not even ask.
    Here(McpError),
    /// The server or the connection failed.
    There(ServiceError),
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        Self::There(error)
    }
}

impl Server {
    /// Asks the server something and waits for the answer on this thread, which answers the
    /// questions that come meanwhile. `request` is made on the connection.
    pub(crate) fn ask<T, F, R>(
        self: &Arc<Self>,
        asker: &mut dyn Asker,
        request: F,
    ) -> Result<T, GivenUp>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Self>, Arc<Link>) -> R + Send + 'static,
        R: Future<Output = Result<T, Refused>> + Send,
    {
        let folders = asker.folders();
        let roots = folders.roots.clone();
        // Before the connection: a server may ask for the roots while it begins.
        let mut waiting = self.callers.add(roots.clone());
        let (in_flight, attempt) = self.enter(folders)?;
        let Some(engine) = self.shared.engine.upgrade() else {
            return Err(self.closed().into());
        };
        let slot = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&slot);
        let teller = waiting.teller.clone();
        let this = Arc::clone(self);
        let work = async move {
            let answered = match this.link(attempt).await {
                Err(error) => Err(error),
                Ok(link) => {
                    if this.definition.transport() != Transport::Stdio {
                        this.callers.tell_roots(&link, &roots).await;
                    }
                    match request(Arc::clone(&this), Arc::clone(&link)).await {
                        Ok(value) => Ok(value),
                        Err(Refused::Here(error)) => Err(error),
                        Err(Refused::There(error)) => Err(link.failed(error).await),
                    }
                }
            };
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answered);
            drop(in_flight);
            // A caller that is gone needs no word.
            let _unless_gone = teller.send(Event::Done);
        };
        let task = self
            .shared
            .tracker
            .spawn_on(CALLER.scope(waiting.number, work), &self.shared.runtime);
        loop {
            // Looked at first: what it said before it ended is there by then.
            let is_over = task.is_finished();
            match engine.wait(waiting.next(asker.time_left().min(GLANCE))) {
                Some(Event::Note(text)) => asker.note(&self.secrets().hide(&text)),
                Some(Event::Elicit(question, reply)) => {
                    // A server that has gone away needs no answer.
                    let _unless_gone = reply.send(asker.elicit(&question));
                }
                Some(Event::Done) => break,
                None if is_over => break,
                None => {}
            }
            let given_up = if asker.is_cancelled() {
                GivenUp::Cancelled
            } else if asker.time_left().is_zero() {
                GivenUp::TimedOut
            } else {
                continue;
            };
            // Dropping a request tells the server that it is cancelled.
            task.abort();
            return Err(given_up);
        }
        let answered = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match answered {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                self.remember_challenge(&error);
                Err(error.into())
            }
            None => Err(self.closed().into()),
        }
    }
}
