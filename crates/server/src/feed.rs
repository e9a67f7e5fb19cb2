//! [`Feed`]: the event log, live. Whoever listens gets every event after a position once and in order, first from
//! the database, then as they happen, and from the database again when they are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cleveragents_domain::{Event, Position};
use cleveragents_store::{Engine, events};
use tokio::sync::{Notify, broadcast};

/// How many events are read at a time for all who listen.
const PAGE: u64 = 500;

/// How many events are read at a time for one who is behind. Many may be, each with its own.
const OWN_PAGE: u64 = 64;

/// How many events a listener may be behind before it reads from the database again.
const KEPT: usize = 1_024;

/// How often is looked for what other processes wrote.
const PAUSE: Duration = Duration::from_millis(200);

/// The event log, live.
#[derive(Clone)]
pub(crate) struct Feed(Arc<Shared>);

/// What is sent to all who listen.
#[derive(Clone)]
enum Live {
    /// From here on every event is sent; what was before is in the database.
    From(Position),
    Event(Arc<Event>),
}

struct Shared {
    engine: Arc<Engine>,
    live: broadcast::Sender<Live>,
    wake: Arc<Notify>,
    listeners: AtomicUsize,
}

impl Feed {
    /// Begins to watch the log of a database. Ends with the runtime.
    pub(crate) fn begin(engine: &Arc<Engine>) -> Self {
        let wake = Arc::new(Notify::new());
        let hook = Arc::clone(&wake);
        engine.when_written(move || hook.notify_one());
        let feed = Self(Arc::new(Shared {
            engine: Arc::clone(engine),
            live: broadcast::channel(KEPT).0,
            wake,
            listeners: AtomicUsize::new(0),
        }));
        tokio::spawn(watch(feed.clone()));
        feed
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.0.listeners.load(Ordering::Relaxed)
    }

    /// Wakes whoever watches, as a commit does.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// Events after a position.
    async fn read(
        &self,
        after: Position,
        limit: u64,
    ) -> Result<Vec<Event>, cleveragents_store::Error> {
        let engine = Arc::clone(&self.0.engine);
        crate::blocking(move || engine.read(|reader| events::after(reader, after, limit))).await
    }

    /// The position of the newest event.
    pub(crate) async fn newest(&self) -> Result<Position, cleveragents_store::Error> {
        let engine = Arc::clone(&self.0.engine);
        crate::blocking(move || engine.read(|reader| events::newest(reader))).await
    }

    /// Listens from a position on.
    pub(crate) fn listen(&self, after: Position) -> Listening {
        // Before anything is read, so that nothing falls between the two.
        let live = self.0.live.subscribe();
        self.0.listeners.fetch_add(1, Ordering::Relaxed);
        self.wake();
        Listening {
            feed: self.clone(),
            live,
            last: after,
            ready: Vec::new().into_iter(),
            is_behind: true,
        }
    }
}

/// Reads what is new and gives it to all who listen. Without listeners nothing is read.
async fn watch(feed: Feed) {
    let mut last: Option<Position> = None;
    loop {
        if feed.listeners() == 0 {
            last = None;
            feed.0.wake.notified().await;
            continue;
        }
        let begun = match last {
            Some(position) => position,
            None => {
                let Ok(position) = feed.newest().await else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let _heard = feed.0.live.send(Live::From(position));
                position
            }
        };
        last = Some(begun);
        let found = feed.read(begun, PAGE).await.unwrap_or_default();
        let is_full = found.len() as u64 == PAGE;
        for event in found {
            last = Some(event.position);
            // Nobody may listen any more.
            let _heard = feed.0.live.send(Live::Event(Arc::new(event)));
        }
        if !is_full {
            // Other processes do not wake us.
            let _timed_out = tokio::time::timeout(PAUSE, feed.0.wake.notified()).await;
        }
    }
}

/// Somebody who listens.
pub(crate) struct Listening {
    feed: Feed,
    live: broadcast::Receiver<Live>,
    last: Position,
    ready: std::vec::IntoIter<Event>,
    /// Whether the database may have more before what comes live.
    is_behind: bool,
}

impl Listening {
    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Arc<Event>, cleveragents_store::Error> {
        loop {
            if let Some(event) = self.ready.next() {
                self.last = event.position;
                return Ok(Arc::new(event));
            }
            if self.is_behind {
                let found = self.feed.read(self.last, OWN_PAGE).await?;
                self.is_behind = !found.is_empty();
                self.ready = found.into_iter();
                continue;
            }
            match self.live.recv().await {
                Ok(Live::From(position)) => self.is_behind = position > self.last,
                Ok(Live::Event(event)) if event.position <= self.last => {}
                Ok(Live::Event(event)) => {
                    self.last = event.position;
                    return Ok(event);
                }
                // Too slow for what is kept, or nobody sends any more: the database has it all.
                Err(_) => self.is_behind = true,
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.feed.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}
