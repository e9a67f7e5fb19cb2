//! [`Feed`]: a live stream of the event log. A listener receives every event after a position once and in order: first
//! from the database, then as events happen, and from the database again if the listener falls behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cleveragents_application::{EventService, StoreError};
use cleveragents_domain::{Event, Position};
use tokio::sync::{Notify, broadcast};

/// Maximum number of events per query for all listeners.
const SHARED_PAGE: u64 = 500;

/// Maximum number of events per query for one lagging listener. Many listeners may lag at the same time.
const LISTENER_PAGE: u64 = 32;

/// Maximum number of events that a listener may lag before it reads from the database again.
const CHANNEL_CAPACITY: usize = 1_024;

/// Poll interval for events that other processes write.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A live stream of the event log.
#[derive(Clone)]
pub(crate) struct Feed(Arc<FeedState>);

/// An item of the broadcast channel to all listeners.
#[derive(Clone)]
enum Live {
    /// Every event after this position is sent; earlier events must be read from the database.
    From(Position),
    Event(Arc<Event>),
}

struct FeedState {
    events: EventService,
    live: broadcast::Sender<Live>,
    wake: Arc<Notify>,
    listeners: AtomicUsize,
}

impl Feed {
    /// Starts watching the event log of a database. The watcher stops with the runtime.
    pub(crate) fn start(events: EventService) -> Self {
        let wake = Arc::new(Notify::new());
        let hook = Arc::clone(&wake);
        events.on_commit(move || hook.notify_one());
        let feed = Self(Arc::new(FeedState {
            events,
            live: broadcast::channel(CHANNEL_CAPACITY).0,
            wake,
            listeners: AtomicUsize::new(0),
        }));
        tokio::spawn(watch(feed.clone()));
        feed
    }

    /// Number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        self.0.listeners.load(Ordering::Relaxed)
    }

    /// Wakes the watcher, as a commit does.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }

    async fn read(&self, after: Position, limit: u64) -> Result<Vec<Event>, StoreError> {
        let events = self.0.events.clone();
        crate::blocking(move || events.after(after, limit)).await
    }

    /// The position of the newest event.
    pub(crate) async fn newest(&self) -> Result<Position, StoreError> {
        let events = self.0.events.clone();
        crate::blocking(move || events.newest()).await
    }

    /// Starts to listen after a position.
    pub(crate) fn listen(&self, after: Position) -> EventListener {
        // Subscribed before anything is read, so that no event is missed in between.
        let live = self.0.live.subscribe();
        self.0.listeners.fetch_add(1, Ordering::Relaxed);
        self.wake();
        EventListener {
            feed: self.clone(),
            live,
            last: after,
            ready: Vec::new().into_iter(),
            is_behind: true,
        }
    }
}

/// Reads new events and sends them to all listeners. Without listeners nothing is read.
async fn watch(feed: Feed) {
    let mut last: Option<Position> = None;
    loop {
        if feed.listeners() == 0 {
            last = None;
            feed.0.wake.notified().await;
            continue;
        }
        let start_position = if let Some(position) = last {
            position
        } else {
            let Ok(position) = feed.newest().await else {
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            };
            let _received = feed.0.live.send(Live::From(position));
            position
        };
        last = Some(start_position);
        let new_events = feed
            .read(start_position, SHARED_PAGE)
            .await
            .unwrap_or_default();
        let is_full = new_events.len() as u64 == SHARED_PAGE;
        for event in new_events {
            last = Some(event.position);
            // Sending fails if the last listener has gone.
            let _received = feed.0.live.send(Live::Event(Arc::new(event)));
        }
        if !is_full {
            // Commits of other processes do not wake this process.
            let _timed_out = tokio::time::timeout(POLL_INTERVAL, feed.0.wake.notified()).await;
        }
    }
}

pub(crate) struct EventListener {
    feed: Feed,
    live: broadcast::Receiver<Live>,
    last: Position,
    ready: std::vec::IntoIter<Event>,
    /// True if the database may have events that precede the live events.
    is_behind: bool,
}

impl EventListener {
    pub(crate) async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            if let Some(event) = self.ready.next() {
                self.last = event.position;
                return Ok(Arc::new(event));
            }
            if self.is_behind {
                let new_events = self.feed.read(self.last, LISTENER_PAGE).await?;
                self.is_behind = !new_events.is_empty();
                self.ready = new_events.into_iter();
                continue;
            }
            match self.live.recv().await {
                Ok(Live::From(position)) => self.is_behind = position > self.last,
                Ok(Live::Event(event)) if event.position <= self.last => {}
                Ok(Live::Event(event)) => {
                    self.last = event.position;
                    return Ok(event);
                }
                // The listener lagged, or the sender is gone: the database has all events.
                Err(_) => self.is_behind = true,
            }
        }
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        self.feed.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Feed;
    use cleveragents_application::EventService;
    use cleveragents_domain::{EventKind, NewEvent, Position};
    use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Error, Options, events};
    use serde_json::json;
    use std::sync::Arc;

    fn engine(name: &str) -> Arc<Engine> {
        let cache = EngineCache::new(Options::default());
        cache.open(&DatabaseUrl::memory(name)).expect("opens")
    }

    fn write_events(engine: &Engine, count: usize) {
        engine
            .write(move |unit| {
                for _ in 0..count {
                    unit.emit(NewEvent {
                        kind: EventKind::CleanupRan,
                        subject: "test".to_owned(),
                        payload: json!({}),
                    });
                }
                Ok::<(), Error>(())
            })
            .expect("written");
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime")
    }

    /// Listeners start while events happen, some of them late and some slow: each receives every event after its
    /// position once and in order.
    #[test]
    fn defect_7604_every_listener_receives_each_event_once_and_in_order() {
        const EVENTS: usize = 3_000;
        let engine = engine("feed");
        runtime().block_on(async {
            let feed = Feed::start(EventService::new(Arc::clone(&engine)));
            let mut listeners = Vec::new();
            let writer = Arc::clone(&engine);
            let written = tokio::task::spawn_blocking(move || {
                for number in 0..EVENTS / 3 {
                    write_events(&writer, 1 + number % 5);
                }
            });
            for number in 0..12_u64 {
                let feed = feed.clone();
                listeners.push(tokio::spawn(async move {
                    let mut listening = feed.listen(Position(number * 20));
                    let mut received = Vec::new();
                    while received.len() < EVENTS - 240 {
                        let event = listening.next().await.expect("read");
                        received.push(event.position);
                        if number % 3 == 0 && received.len() % 100 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    (number, received)
                }));
                tokio::task::yield_now().await;
            }
            written.await.expect("written");
            let all: Vec<Position> = engine
                .read(|reader| events::after(reader, Position(0), 10_000))
                .expect("read")
                .into_iter()
                .map(|event| event.position)
                .collect();
            for listener in listeners {
                let (number, received) = listener.await.expect("ends");
                let expected: Vec<Position> = all
                    .iter()
                    .copied()
                    .filter(|position| position.0 > number * 20)
                    .take(received.len())
                    .collect();
                assert!(received == expected, "listener {number}");
            }
            assert_eq!(feed.listeners(), 0, "no listener is left");
        });
    }

    /// Without listeners nothing is read; the next listener still receives the events of that time.
    #[test]
    fn events_without_listeners_reach_the_next_listener() {
        let engine = engine("unheard");
        runtime().block_on(async {
            let feed = Feed::start(EventService::new(Arc::clone(&engine)));
            write_events(&engine, 1);
            let mut first = feed.listen(Position(0));
            let last = first.next().await.expect("read").position;
            drop(first);
            write_events(&engine, 2);
            let mut second = feed.listen(last);
            let received = [second.next().await, second.next().await]
                .map(|event| event.expect("read").position.0 - last.0);
            assert_eq!(received, [1, 2]);
            write_events(&engine, 1);
            assert_eq!(second.next().await.expect("read").position.0 - last.0, 3);
        });
    }
}
