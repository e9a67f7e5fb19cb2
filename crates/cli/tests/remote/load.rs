//! Many callers at once, and a server that is killed in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, proof_size};
use serde_json::{Value, json};

use crate::http::Caller;
use crate::{Server, agents};

/// How large the proof is.
struct Size {
    /// Callers that write to one session, and as many to sessions of their own.
    callers: usize,
    listeners: usize,
    /// Messages that each caller gets stored at least.
    messages: usize,
    /// How long callers write at least.
    time: Duration,
}

fn size() -> Size {
    Size {
        callers: proof_size(6, 200),
        listeners: proof_size(3, 20),
        messages: proof_size(12, 20),
        time: Duration::from_secs(proof_size(0, 60) as u64),
    }
}

/// Until when everybody gives up.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the server is at present.
#[derive(Clone)]
struct Place(Arc<Mutex<String>>);

impl Place {
    fn address(&self) -> String {
        let url = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        url.trim_start_matches("http://").to_owned()
    }

    fn moved(&self, server: &Server) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = server.url.clone();
    }
}

/// Sends until an answer comes, whatever breaks meanwhile.
fn insist(
    place: &Place,
    caller: &mut Option<Caller>,
    (line, header): (&str, &str),
    body: &str,
) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        if caller.is_none() {
            *caller = Caller::connect(&place.address());
        }
        if let Some(connected) = caller
            && let Some(answer) = connected.ask(line, header, body)
        {
            return answer;
        }
        *caller = None;
        assert!(begun.elapsed() < PATIENCE, "nobody answers");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn session(place: &Place) -> String {
    let (status, made) = insist(place, &mut None, ("POST /api/v1/sessions", ""), "{}");
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().expect("an id").to_owned()
}

/// Appends messages, each with a key, and gives the number that each got.
fn write(
    place: &Place,
    who: usize,
    session: &str,
    size: &Size,
    is_restarted: &AtomicBool,
) -> BTreeMap<u64, String> {
    let (begun, mut caller, mut stored) = (Instant::now(), None, BTreeMap::new());
    let mut number = 0;
    while number < size.messages
        || begun.elapsed() < size.time
        || !is_restarted.load(Ordering::SeqCst)
    {
        let text = format!("message {number} of {who}");
        let line = format!("POST /api/v1/sessions/{session}/messages");
        let key = format!("idempotency-key: {who}-{number}");
        let body = json!({"role": "user", "content": text}).to_string();
        let (status, answer) = insist(place, &mut caller, (&line, &key), &body);
        assert_eq!(status, 201, "{answer}");
        let sequence = answer["sequence"].as_u64().expect("a number");
        let before = stored.insert(sequence, text);
        assert!(before.is_none(), "two messages got the number {sequence}");
        number += 1;
    }
    stored
}

/// Hears of messages until `is_enough`, coming back where it stopped; gives what it heard in order.
fn listen(
    place: &Place,
    from: u64,
    is_enough: &AtomicBool,
    last: &Mutex<u64>,
) -> Vec<(u64, Value)> {
    let (mut heard, mut position) = (Vec::new(), from);
    let begun = Instant::now();
    loop {
        let line = "GET /api/v1/events?kind=session.message_appended";
        let header = format!("last-event-id: {position}");
        let caller = Caller::connect(&place.address());
        let events = caller.and_then(|caller| caller.listen(line, &header));
        if let Some(mut events) = events {
            while let Some(block) = events.next() {
                position = block.position;
                if let Some(data) = block.data {
                    heard.push((block.position, data));
                }
                let last = *last.lock().unwrap_or_else(PoisonError::into_inner);
                if is_enough.load(Ordering::SeqCst) && position >= last {
                    return heard;
                }
            }
        }
        assert!(begun.elapsed() < PATIENCE, "events do not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Everything in a session, read through the program.
fn messages(agents: &Agents, session: &str) -> Vec<Value> {
    let shown = agents.data(&["session", "messages", session, "--limit", "1000000"]);
    shown["messages"].as_array().expect("messages").clone()
}

/// Callers write to one session and to sessions of their own while others listen, and the server is killed and
/// started again: nothing that was acknowledged is lost, nothing is stored twice, numbers have no gap, and who
/// listens hears of each message once and in order.
#[test]
fn nothing_is_lost_or_doubled_when_a_server_under_load_is_killed() {
    let (agents, size) = (agents(), size());
    let mut server = Server::start(&agents, &["--insecure-local"]);
    let place = Place(Arc::new(Mutex::new(server.url.clone())));
    let shared = session(&place);
    let own: Vec<String> = (0..size.callers).map(|_| session(&place)).collect();
    let is_enough = AtomicBool::new(false);
    let is_restarted = AtomicBool::new(false);
    let last = Mutex::new(0);
    let (stored, heard) = std::thread::scope(|scope| {
        let listeners: Vec<_> = (0..size.listeners)
            .map(|_| scope.spawn(|| listen(&place, 0, &is_enough, &last)))
            .collect();
        let writers: Vec<_> = (0..size.callers * 2)
            .map(|who| {
                let session = if who < size.callers {
                    &shared
                } else {
                    &own[who - size.callers]
                };
                let (place, size, is_restarted) = (&place, &size, &is_restarted);
                scope.spawn(move || (session, write(place, who, session, size, is_restarted)))
            })
            .collect();
        // In the middle: some are stored, and everybody is at it.
        let begun = Instant::now();
        while begun.elapsed() < size.time / 2 || messages(&agents, &shared).len() < size.callers {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.kill();
        server = Server::start(&agents, &["--insecure-local"]);
        place.moved(&server);
        is_restarted.store(true, Ordering::SeqCst);
        let stored: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().expect("ends"))
            .collect();
        // One more, so that everybody hears when all is heard.
        let end = session(&place);
        let (status, _) = insist(
            &place,
            &mut None,
            (&format!("POST /api/v1/sessions/{end}/messages"), ""),
            &json!({"role": "user", "content": "the end"}).to_string(),
        );
        assert_eq!(status, 201);
        let newest = newest(&place, &end);
        *last.lock().expect("not poisoned") = newest;
        is_enough.store(true, Ordering::SeqCst);
        let heard: Vec<_> = listeners
            .into_iter()
            .map(|listener| listener.join().expect("ends"))
            .collect();
        (stored, heard)
    });
    let mut expected = 1;
    for session in std::iter::once(&shared).chain(&own) {
        let found = messages(&agents, session);
        let numbers: Vec<u64> = found
            .iter()
            .map(|message| message["sequence"].as_u64().expect("a number"))
            .collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "a gap");
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
        expected += found.len();
    }
    for heard in heard {
        assert!(heard.is_sorted_by(|one, next| one.0 < next.0), "in order");
        assert_eq!(heard.len(), expected, "each message once");
    }
}

/// The position of the event of the only message of a session.
fn newest(place: &Place, session: &str) -> u64 {
    let line =
        format!("GET /api/v1/events?kind=session.message_appended&subject={session}&after=0");
    let mut events = Caller::connect(&place.address())
        .and_then(|caller| caller.listen(&line, ""))
        .expect("events");
    loop {
        let heard = events.next().expect("the message");
        if heard.data.is_some() {
            return heard.position;
        }
    }
}
