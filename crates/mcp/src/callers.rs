//! [`Callers`]: who waits for a server at this moment, and how what the server says meanwhile reaches
//! them: questions for a person, progress and log messages.
//!
//! A tool runs on a thread of its own and owns what a person is asked through, so questions travel to
//! that thread and back. A question that comes while nobody waits is declined.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ElicitRequestParams, ElicitResult};
use tokio::sync::{mpsc, oneshot};

use crate::link::Link;

/// So many messages may wait for a caller; further ones are dropped.
const MOST_NOTES: usize = 256;
/// The longest message that is passed on.
const LONGEST_NOTE: usize = 1024;

/// Something for a caller.
pub(crate) enum Event {
    /// Its request is answered.
    Done,
    /// A question for a person.
    Elicit(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
    /// Something for the log.
    Note(String),
}

tokio::task_local! {
    /// The caller for whom a task works.
    pub(crate) static CALLER: u64;
}

struct Caller {
    number: u64,
    events: mpsc::UnboundedSender<Event>,
    notes: Arc<AtomicUsize>,
    roots: Vec<PathBuf>,
}

/// Who waits for a server.
#[derive(Default)]
pub(crate) struct Callers {
    list: Mutex<Vec<Caller>>,
    next: AtomicU64,
    /// The roots that the server was told last, if it asked at all.
    told: Mutex<Option<Vec<PathBuf>>>,
}

/// A caller's place among the others, until it is dropped.
pub(crate) struct Waiting {
    callers: Arc<Callers>,
    pub(crate) number: u64,
    pub(crate) teller: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    notes: Arc<AtomicUsize>,
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a caller whose sandbox has these folders.
    pub(crate) fn add(self: &Arc<Self>, roots: Vec<PathBuf>) -> Waiting {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (teller, events) = mpsc::unbounded_channel();
        let notes = Arc::new(AtomicUsize::new(0));
        self.lock().push(Caller {
            number,
            events: teller.clone(),
            notes: Arc::clone(&notes),
            roots,
        });
        Waiting {
            callers: Arc::clone(self),
            number,
            teller,
            events,
            notes,
        }
    }

    /// The folders of the sandbox of whoever came last. It is what the server is told.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let roots = self.lock().last().map(|caller| caller.roots.clone());
        let roots = roots.unwrap_or_default();
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(roots.clone());
        roots
    }

    /// Tells a server that has asked for the roots before that they are others now.
    pub(crate) async fn tell_roots(&self, link: &Link, roots: &[PathBuf]) {
        let has_changed = {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.as_ref().is_some_and(|told| told != roots)
        };
        if has_changed {
            // What is wrong with the connection the request itself will show.
            let _unless_gone = link.service.notify_roots_list_changed().await;
        }
    }

    /// Passes a question on: to the caller this task works for, or whoever waits longest.
    pub(crate) fn ask(
        &self,
        question: ElicitRequestParams,
    ) -> Option<oneshot::Receiver<ElicitResult>> {
        let wanted = CALLER.try_with(|number| *number).ok();
        let (answer, answered) = oneshot::channel();
        let callers = self.lock();
        let caller = match wanted {
            Some(number) => callers.iter().find(|caller| caller.number == number),
            None => callers.first(),
        }?;
        caller
            .events
            .send(Event::Elicit(Box::new(question), answer))
            .ok()?;
        Some(answered)
    }

    /// Tells all callers something for their logs.
    pub(crate) fn note(&self, text: &str) {
        for caller in self.lock().iter() {
            if caller.notes.load(Ordering::Relaxed) < MOST_NOTES {
                caller.notes.fetch_add(1, Ordering::Relaxed);
                let text = text.chars().take(LONGEST_NOTE).collect();
                // A caller that is gone needs no word.
                let _unless_gone = caller.events.send(Event::Note(text));
            }
        }
    }
}

impl Waiting {
    /// The next event, unless none comes in time.
    pub(crate) async fn next(&mut self, time: std::time::Duration) -> Option<Event> {
        let event = tokio::time::timeout(time, self.events.recv())
            .await
            .ok()??;
        if matches!(event, Event::Note(_)) {
            self.notes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(event)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.callers
            .lock()
            .retain(|caller| caller.number != self.number);
    }
}
