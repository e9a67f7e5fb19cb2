//! Many concurrent callers, and a server that is killed meanwhile.

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

/// Deadline for all threads.
const PATIENCE: Duration = Duration::from_mins(8);

/// Address of the server, counters, and whether callers continue.
struct Scene {
    address: Mutex<String>,
    is_enough: AtomicBool,
    /// Whether the test has failed, so that all threads stop.
    is_over: AtomicBool,
    /// Acknowledged messages, repeated requests, reopened streams.
    acknowledged: AtomicUsize,
    repeated: AtomicUsize,
    resumed: AtomicUsize,
}

impl Scene {
    fn new(server: &Server) -> Self {
        Self {
            address: Mutex::new(server.address().to_owned()),
            is_enough: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
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

    fn moved(&self, server: &Server) {
        let mut address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        server.address().clone_into(&mut address);
    }

    /// Repeats a request until a response arrives.
    fn insist(
        &self,
        caller: &mut Option<Caller>,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Answer {
        let begun = Instant::now();
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
            assert!(begun.elapsed() < PATIENCE, "no response");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits while callers write, for a part of the time and until every caller could write.
    fn keep_running(&self, size: &Size) {
        let part = size.time / (u32::try_from(size.kills).expect("few") + 1);
        let so_many = || self.acknowledged.load(Ordering::Relaxed);
        let (begun, wanted) = (Instant::now(), so_many() + 2 * size.callers);
        while begun.elapsed() < part || so_many() < wanted {
            assert!(begun.elapsed() < PATIENCE, "nothing is acknowledged");
            assert!(
                !self.is_over.load(Ordering::SeqCst),
                "another thread failed"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn session(&self) -> String {
        let made = self.insist(&mut None, "POST /api/v1/sessions", &[], "{}");
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Appends a message and returns its number.
    fn append(&self, caller: &mut Option<Caller>, session: &str, key: &str, text: &str) -> Answer {
        let line = format!("POST /api/v1/sessions/{session}/messages");
        let key = format!("idempotency-key: {key}");
        let body = json!({"role": "user", "content": text}).to_string();
        let answer = self.insist(caller, &line, &[&key], &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer
    }

    /// Appends messages, each with a key, until the end, and returns their numbers.
    fn write(&self, who: usize, session: &str) -> BTreeMap<u64, String> {
        let _let_go = LetGo(self);
        let (mut caller, mut stored) = (None, BTreeMap::new());
        while !self.is_enough.load(Ordering::SeqCst) || stored.is_empty() {
            let text = format!("message {} of {who}", stored.len());
            let key = format!("{who}-{}", stored.len());
            let answer = self.append(&mut caller, session, &key, &text);
            let number = answer.json()["sequence"].as_u64().expect("a number");
            if stored.is_empty() || answer.head.contains("idempotency-replayed: true") {
                // Repeats an answered request: it returns the same message.
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
    /// Reconnects at the last position when the connection breaks, and sometimes breaks it itself.
    fn listen(&self, end: &str) -> Vec<ReceivedMessage> {
        let _let_go = LetGo(self);
        let (mut received_events, mut position, mut dice) = (Vec::new(), 0, Dice::default());
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "events do not come");
            assert!(
                !self.is_over.load(Ordering::SeqCst),
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
            let until =
                received_events.len() + 500 + usize::try_from(dice.roll(5_000)).unwrap_or(0);
            while let Ok(Some(block)) = events.next() {
                assert!(
                    !self.is_over.load(Ordering::SeqCst),
                    "another thread failed"
                );
                position = block.position.unwrap_or(position);
                if let Some(data) = block.data {
                    received_events.push(ReceivedMessage::from_data(position, &data));
                    if data["subject"] == end {
                        return received_events;
                    }
                }
                if received_events.len() == until {
                    break;
                }
            }
        }
    }
}

/// Stops all threads when one fails, so that none waits forever.
struct LetGo<'a>(&'a Scene);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_enough.store(true, Ordering::SeqCst);
            self.0.is_over.store(true, Ordering::SeqCst);
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
    let own: Vec<String> = (0..size.callers).map(|_| scene.session()).collect();
    let end = scene.session();
    let (stored, received_events) = std::thread::scope(|scope| {
        let (scene, end) = (&scene, &end);
        let _let_go = LetGo(scene);
        let listeners: Vec<_> = (0..size.listeners)
            .map(|_| scope.spawn(|| scene.listen(end)))
            .collect();
        let writers: Vec<_> = (0..size.callers * 2)
            .map(|who| {
                let session = own.get(who).unwrap_or(&shared);
                scope.spawn(move || (session, scene.write(who, session)))
            })
            .collect();
        for _ in 0..size.kills {
            scene.keep_running(&size);
            server.kill();
            server = Server::start_again(&agents, &server.url, &["--insecure-local"]);
            scene.moved(&server);
        }
        scene.keep_running(&size);
        scene.is_enough.store(true, Ordering::SeqCst);
        let stored: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().expect("ends"))
            .collect();
        // The last message: a listener that receives it has received all.
        scene.append(&mut None, end, "end", "the end");
        let received_events: Vec<_> = listeners
            .into_iter()
            .map(|listener| listener.join().expect("ends"))
            .collect();
        (stored, received_events)
    });
    drop(server);
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for session in own.iter().chain([&shared, &end]) {
        let found = messages(&agents, session);
        let numbers = found.iter().map(|message| message["sequence"].as_u64());
        assert!(numbers.eq((0..found.len() as u64).map(Some)), "a gap");
        let texts: BTreeSet<&str> = found
            .iter()
            .map(|message| message["content"].as_str().expect("a text"))
            .collect();
        assert_eq!(texts.len(), found.len(), "nothing is stored twice");
        for (of, acknowledged) in &stored {
            for (number, text) in acknowledged.iter().filter(|_| *of == session) {
                let there = usize::try_from(*number).ok().and_then(|at| found.get(at));
                let there = there.and_then(|message| message["content"].as_str());
                assert_eq!(there, Some(text.as_str()), "an acknowledged message");
            }
        }
        let ids = found
            .iter()
            .map(|message| message["message_id"].as_str().expect("an id").to_owned());
        expected.insert(session.clone(), ids.collect());
    }
    let appended: usize = expected.values().map(Vec::len).sum();
    for received_events in &received_events {
        assert!(
            received_events.is_sorted_by(|one, next| one.position < next.position),
            "in order"
        );
        let mut reported: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in received_events {
            let of_session = reported.entry(one.session.clone()).or_default();
            assert_eq!(one.number, of_session.len() as u64, "in order, and once");
            of_session.push(one.message.clone());
        }
        assert!(reported == expected, "each message once");
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
