//! Many concurrent callers, and a server that is killed while it serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, Dice, proof_size};
use serde_json::{Value, json};

use crate::http::{Answer, Caller};
use crate::{Server, agents};

/// Size of the test.
struct Size {
    /// Callers that write to one session, and the same number that write to separate sessions.
    callers: usize,
    listeners: usize,
    /// Number of times the server is killed and restarted.
    kills: usize,
    /// Minimum duration of the writes.
    time: Duration,
}

fn size() -> Size {
    Size {
        callers: proof_size(8, 200),
        listeners: proof_size(4, 20),
        kills: proof_size(1, 3),
        time: Duration::from_secs(proof_size(1, 60) as u64),
    }
}

/// Limit for every wait of a thread.
const WAIT_LIMIT: Duration = Duration::from_mins(8);

/// State that all threads share: address of the server, stop flags and counters.
struct Scene {
    address: Mutex<String>,
    should_stop: AtomicBool,
    /// Set when a thread fails, so that all threads stop.
    has_failed: AtomicBool,
    /// Acknowledged messages, repeated requests, reopened streams.
    acknowledged: AtomicUsize,
    repeated: AtomicUsize,
    resumed: AtomicUsize,
}

impl Scene {
    fn new(server: &Server) -> Self {
        Self {
            address: Mutex::new(server.address().to_owned()),
            should_stop: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            resumed: AtomicUsize::new(0),
        }
    }

    fn connect(&self) -> Option<Caller> {
        let address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        let address = address.clone();
        Caller::connect(&address)
    }

    fn set_address(&self, server: &Server) {
        let mut address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        server.address().clone_into(&mut address);
    }

    /// Repeats a request until a response arrives.
    fn ask_until_answered(
        &self,
        caller: &mut Option<Caller>,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Answer {
        let started = Instant::now();
        loop {
            if caller.is_none() {
                *caller = self.connect();
            }
            if let Some(connected) = caller {
                match connected.ask(line, headers, body) {
                    Ok(answer) => return answer,
                    Err(_) => self.repeated.fetch_add(1, Ordering::Relaxed),
                };
            }
            *caller = None;
            assert!(started.elapsed() < WAIT_LIMIT, "no response");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lets callers write for their share of the time, and at least until `2 * size.callers` more messages are
    /// acknowledged.
    fn keep_running(&self, size: &Size) {
        let part = size.time / (u32::try_from(size.kills).expect("few") + 1);
        let count = || self.acknowledged.load(Ordering::Relaxed);
        let (started, target) = (Instant::now(), count() + 2 * size.callers);
        while started.elapsed() < part || count() < target {
            assert!(started.elapsed() < WAIT_LIMIT, "nothing is acknowledged");
            assert!(
                !self.has_failed.load(Ordering::SeqCst),
                "another thread failed"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn session(&self) -> String {
        let created = self.ask_until_answered(&mut None, "POST /api/v1/sessions", &[], "{}");
        assert_eq!(created.status, 201, "{created:?}");
        created.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Appends a message and returns the response.
    fn append(&self, caller: &mut Option<Caller>, session: &str, key: &str, text: &str) -> Answer {
        let line = format!("POST /api/v1/sessions/{session}/messages");
        let key = format!("idempotency-key: {key}");
        let body = json!({"role": "user", "content": text}).to_string();
        let answer = self.ask_until_answered(caller, &line, &[&key], &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer
    }

    /// Appends messages, each with a key, until `should_stop`. Returns the texts by message number.
    fn write(&self, writer_number: usize, session: &str) -> BTreeMap<u64, String> {
        let _guard = StopOnPanic(self);
        let (mut caller, mut stored) = (None, BTreeMap::new());
        while !self.should_stop.load(Ordering::SeqCst) || stored.is_empty() {
            let text = format!("message {} of {writer_number}", stored.len());
            let key = format!("{writer_number}-{}", stored.len());
            let answer = self.append(&mut caller, session, &key, &text);
            let number = answer.json()["sequence"].as_u64().expect("a number");
            if stored.is_empty() || answer.head.contains("idempotency-replayed: true") {
                // A repeated request returns the same message.
                let again = self.append(&mut caller, session, &key, &text);
                assert_eq!(again.json(), answer.json());
                assert!(again.head.contains("idempotency-replayed: true"));
            }
            let before = stored.insert(number, text);
            assert!(before.is_none(), "two messages got the number {number}");
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        stored
    }

    /// Receives messages until one arrives in the session `end`, and returns them in order.
    /// Reconnects at the last position when the connection breaks, and sometimes closes it on purpose.
    fn listen(&self, end: &str) -> Vec<ReceivedMessage> {
        let _guard = StopOnPanic(self);
        let (mut received_events, mut position, mut dice) = (Vec::new(), 0, Dice::default());
        let started = Instant::now();
        loop {
            assert!(
                started.elapsed() < WAIT_LIMIT,
                "the last event does not arrive"
            );
            assert!(
                !self.has_failed.load(Ordering::SeqCst),
                "another thread failed"
            );
            let header = format!("last-event-id: {position}");
            let line = "GET /api/v1/events?kind=session.message_appended";
            let Some(Ok(Ok(mut events))) = self
                .connect()
                .map(|caller| caller.listen(line, &[&header], ""))
            else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            self.resumed.fetch_add(1, Ordering::Relaxed);
            let limit =
                received_events.len() + 500 + usize::try_from(dice.roll(5_000)).unwrap_or(0);
            while let Ok(Some(event)) = events.next() {
                assert!(
                    !self.has_failed.load(Ordering::SeqCst),
                    "another thread failed"
                );
                position = event.position.unwrap_or(position);
                if let Some(data) = event.data {
                    received_events.push(ReceivedMessage::from_data(position, &data));
                    if data["subject"] == end {
                        return received_events;
                    }
                }
                if received_events.len() == limit {
                    break;
                }
            }
        }
    }
}

/// Stops all threads when one panics, so that no thread waits forever.
struct StopOnPanic<'a>(&'a Scene);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.should_stop.store(true, Ordering::SeqCst);
            self.0.has_failed.store(true, Ordering::SeqCst);
        }
    }
}

/// A message that a listener received.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReceivedMessage {
    position: u64,
    session: String,
    number: u64,
    message: String,
}

impl ReceivedMessage {
    fn from_data(position: u64, data: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        assert_eq!(data["position"], position);
        Self {
            position,
            session: text(&data["subject"]),
            number: data["payload"]["sequence"].as_u64().expect("a number"),
            message: text(&data["payload"]["message_id"]),
        }
    }
}

/// All messages of a session, read with the program.
fn messages(agents: &Agents, session: &str) -> Vec<Value> {
    let shown = agents.data(&["session", "messages", session, "--limit", "100000000"]);
    shown["messages"].as_array().expect("messages").clone()
}

/// Callers write to one session and to separate sessions while others listen, and the server is
/// killed and restarted: no acknowledged message is lost or stored twice, numbers have no gap, and
/// each listener receives every message once and in order.
#[test]
fn no_message_is_lost_or_duplicated_when_a_server_under_load_is_killed() {
    let (agents, size) = (agents(), size());
    let mut server = Server::start(&agents, &["--insecure-local"]);
    let scene = Scene::new(&server);
    let shared = scene.session();
    let separate: Vec<String> = (0..size.callers).map(|_| scene.session()).collect();
    let end = scene.session();
    let (stored, received_events) = std::thread::scope(|scope| {
        let (scene, end) = (&scene, &end);
        let _guard = StopOnPanic(scene);
        let listeners: Vec<_> = (0..size.listeners)
            .map(|_| scope.spawn(|| scene.listen(end)))
            .collect();
        let writers: Vec<_> = (0..size.callers * 2)
            .map(|writer_number| {
                let session = separate.get(writer_number).unwrap_or(&shared);
                scope.spawn(move || (session, scene.write(writer_number, session)))
            })
            .collect();
        for _ in 0..size.kills {
            scene.keep_running(&size);
            server.kill();
            server = Server::start_again(&agents, &server.url, &["--insecure-local"]);
            scene.set_address(&server);
        }
        scene.keep_running(&size);
        scene.should_stop.store(true, Ordering::SeqCst);
        let stored: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().expect("ends"))
            .collect();
        // A listener that receives this last message has received all messages.
        scene.append(&mut None, end, "end", "the end");
        let received_events: Vec<_> = listeners
            .into_iter()
            .map(|listener| listener.join().expect("ends"))
            .collect();
        (stored, received_events)
    });
    drop(server);
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for session in separate.iter().chain([&shared, &end]) {
        let rows = messages(&agents, session);
        let numbers = rows.iter().map(|message| message["sequence"].as_u64());
        assert!(numbers.eq((0..rows.len() as u64).map(Some)), "no gap");
        let texts: BTreeSet<&str> = rows
            .iter()
            .map(|message| message["content"].as_str().expect("a text"))
            .collect();
        assert_eq!(texts.len(), rows.len(), "nothing is stored twice");
        for (owner, acknowledged) in &stored {
            for (number, text) in acknowledged.iter().filter(|_| *owner == session) {
                let content = usize::try_from(*number)
                    .ok()
                    .and_then(|index| rows.get(index));
                let content = content.and_then(|message| message["content"].as_str());
                assert_eq!(content, Some(text.as_str()), "an acknowledged message");
            }
        }
        let ids = rows
            .iter()
            .map(|message| message["message_id"].as_str().expect("an id").to_owned());
        expected.insert(session.clone(), ids.collect());
    }
    let appended: usize = expected.values().map(Vec::len).sum();
    for received_events in &received_events {
        assert!(
            received_events.is_sorted_by(|message, next| message.position < next.position),
            "in order"
        );
        let mut received: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for message in received_events {
            let received_ids = received.entry(message.session.clone()).or_default();
            assert_eq!(
                message.number,
                received_ids.len() as u64,
                "in order, and once"
            );
            received_ids.push(message.message.clone());
        }
        assert!(received == expected, "each message once");
    }
    agents.assert_sound();
    println!(
        "{} acknowledged and {appended} appended in {} sessions; {} kills; {} requests repeated; {} listeners \
         received {} events in {} streams",
        scene.acknowledged.load(Ordering::Relaxed),
        expected.len(),
        size.kills,
        scene.repeated.load(Ordering::Relaxed),
        received_events.len(),
        received_events.iter().map(Vec::len).sum::<usize>(),
        scene.resumed.load(Ordering::Relaxed),
    );
}
