//! [`Callers`]: the callers that wait for a server. They receive its questions for the user, progress and log messages.
//!
//! A tool runs on its own thread, which owns the approver that asks the user. Questions are therefore passed to that
//! thread, and answers back. A question that arrives while no caller waits is declined.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ElicitRequestParams, ElicitResult};
use tokio::sync::{mpsc, oneshot};

use crate::connection::ServerConnection;

/// Maximum number of queued messages per caller. Further messages are dropped.
const MAX_NOTES: usize = 256;
/// Maximum length of a forwarded message, in characters.
const MAX_NOTE_LENGTH: usize = 1024;

pub(crate) enum CallerEvent {
    /// The request of the caller has a result.
    Done,
    /// A question for the user.
    Elicit(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
    /// A log message.
    Note(String),
}

tokio::task_local! {
    /// Number of the caller for whose request the current task runs.
    pub(crate) static CALLER: u64;
}

struct Caller {
    number: u64,
    events: mpsc::UnboundedSender<CallerEvent>,
    notes: Arc<AtomicUsize>,
    roots: Vec<PathBuf>,
}

/// The callers that wait for a server.
#[derive(Default)]
pub(crate) struct Callers {
    list: Mutex<Vec<Caller>>,
    next: AtomicU64,
    /// The roots that the server received last; `None` if it never requested them.
    sent_roots: Mutex<Option<Vec<PathBuf>>>,
}

/// Registration of a caller, removed when it is dropped.
pub(crate) struct CallerRegistration {
    callers: Arc<Callers>,
    pub(crate) number: u64,
    pub(crate) sender: mpsc::UnboundedSender<CallerEvent>,
    events: mpsc::UnboundedReceiver<CallerEvent>,
    notes: Arc<AtomicUsize>,
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a caller whose sandbox has these directories.
    pub(crate) fn add(self: &Arc<Self>, roots: Vec<PathBuf>) -> CallerRegistration {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::unbounded_channel();
        let notes = Arc::new(AtomicUsize::new(0));
        self.lock().push(Caller {
            number,
            events: sender.clone(),
            notes: Arc::clone(&notes),
            roots,
        });
        CallerRegistration {
            callers: Arc::clone(self),
            number,
            sender,
            events,
            notes,
        }
    }

    /// Returns the sandbox directories of the newest caller, and records that the server received them.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let roots = self.lock().last().map(|caller| caller.roots.clone());
        let roots = roots.unwrap_or_default();
        *self
            .sent_roots
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(roots.clone());
        roots
    }

    /// Notifies the server if these roots differ from the roots that it received last.
    pub(crate) async fn notify_roots(&self, link: &ServerConnection, roots: &[PathBuf]) {
        let has_changed = {
            let sent = self
                .sent_roots
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            sent.as_ref().is_some_and(|sent| sent != roots)
        };
        if has_changed {
            // The request itself reports a broken connection.
            let _unless_gone = link.service.notify_roots_list_changed().await;
        }
    }

    /// Forwards a question to the caller that this task serves, or else to the caller that has waited longest. Returns
    /// `None` when the served caller has stopped waiting, or no caller waits.
    pub(crate) fn ask(
        &self,
        question: ElicitRequestParams,
    ) -> Option<oneshot::Receiver<ElicitResult>> {
        let served = CALLER.try_with(|number| *number).ok();
        let (answer, receiver) = oneshot::channel();
        let callers = self.lock();
        let caller = match served {
            Some(number) => callers.iter().find(|caller| caller.number == number),
            None => callers.first(),
        }?;
        caller
            .events
            .send(CallerEvent::Elicit(Box::new(question), answer))
            .ok()?;
        Some(receiver)
    }

    /// Sends a log message to all callers.
    pub(crate) fn note(&self, text: &str) {
        for caller in self.lock().iter() {
            if caller.notes.load(Ordering::Relaxed) < MAX_NOTES {
                caller.notes.fetch_add(1, Ordering::Relaxed);
                let text = text.chars().take(MAX_NOTE_LENGTH).collect();
                // The caller may have stopped waiting.
                let _unless_gone = caller.events.send(CallerEvent::Note(text));
            }
        }
    }
}

impl CallerRegistration {
    /// Returns the next event; `None` when none arrives in time.
    pub(crate) async fn next(&mut self, time: std::time::Duration) -> Option<CallerEvent> {
        let event = tokio::time::timeout(time, self.events.recv())
            .await
            .ok()??;
        if matches!(event, CallerEvent::Note(_)) {
            self.notes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(event)
    }
}

impl Drop for CallerRegistration {
    fn drop(&mut self) {
        self.callers
            .lock()
            .retain(|caller| caller.number != self.number);
    }
}
