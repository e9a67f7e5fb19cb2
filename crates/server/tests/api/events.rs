//! The stream of events.

use std::collections::BTreeSet;

use cleveragents_domain::identity::Scope;
use serde_json::json;

use crate::harness::{Client, Server, Stream, wait_until};

fn make_session(client: &Client, namespace: &str) -> String {
    let created_session = client
        .post("/api/v1/sessions", &json!({"namespace": namespace}))
        .expect(201);
    created_session.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

fn append_message(client: &Client, session: &str, content: &str) {
    let path = format!("/api/v1/sessions/{session}/messages");
    client
        .post(&path, &json!({"role": "user", "content": content}))
        .expect(201);
}

/// The next events, as kind and subject.
fn read_events(stream: &mut Stream, count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|_| {
            let data = stream.event().expect("an event").data.expect("data");
            let text = |key: &str| data[key].as_str().expect("text").to_owned();
            (text("kind"), text("subject"))
        })
        .collect()
}

#[test]
fn new_events_are_streamed_live() {
    let server = Server::start();
    let local = server.local();
    let before = make_session(&local, "acme");
    let mut stream = local.listen("/api/v1/events");
    let session = make_session(&local, "acme");
    append_message(&local, &session, "hello");
    assert_ne!(before, session);
    let first = stream.event().expect("an event");
    let data = first.data.expect("data");
    assert_eq!(first.event.as_deref(), Some("session.created"));
    assert_eq!(data["subject"], json!(session));
    assert_eq!(data["namespace"], "acme");
    assert_eq!(data["position"], json!(first.id.expect("an id")));
    assert_eq!(
        read_events(&mut stream, 1),
        [("session.message_appended".to_owned(), session)]
    );
}

#[test]
fn a_reconnecting_client_receives_each_event_once() {
    let server = Server::start();
    let local = server.local();
    let session = make_session(&local, "acme");
    let count: u64 = 300;
    let writer = {
        let (local, session) = (local.clone(), session.clone());
        std::thread::spawn(move || {
            for number in 0..count {
                append_message(&local, &session, &number.to_string());
            }
        })
    };
    let mut positions = Vec::new();
    let mut sequences = Vec::new();
    let mut last = 0;
    let mut round = 0;
    // Each connection is closed after some events, and the next connection continues.
    while (sequences.len() as u64) < count {
        round += 1;
        let client = local.with("last-event-id", last.to_string());
        let mut stream = client.listen("/api/v1/events?kind=session.message_appended");
        for _ in 0..=(round % 7) * 5 {
            if sequences.len() as u64 == count {
                break;
            }
            let sent = stream.event().expect("an event");
            last = sent.id.expect("a position");
            positions.push(last);
            sequences.push(sent.data.expect("data")["payload"]["sequence"].as_u64());
        }
    }
    writer.join().expect("all messages are appended");
    let expected: Vec<_> = (0..count).map(Some).collect();
    assert_eq!(sequences, expected, "each once and in order");
    assert!(positions.is_sorted_by(|previous, next| previous < next));
    wait_until("no listener is left", || {
        server.gauge("event_listeners") == 0
    });
}

#[test]
fn events_are_filtered_by_kind_subject_and_namespace() {
    let server = Server::start();
    let local = server.local();
    let (acme, other) = (make_session(&local, "acme"), make_session(&local, "other"));
    append_message(&local, &acme, "a");
    append_message(&local, &other, "b");
    let appended = |session: &String| ("session.message_appended".to_owned(), session.clone());
    let created = |session: &String| ("session.created".to_owned(), session.clone());
    let all = read_events(&mut local.listen("/api/v1/events?after=0&kind=session."), 4);
    assert_eq!(
        all,
        [
            created(&acme),
            created(&other),
            appended(&acme),
            appended(&other)
        ]
    );
    for (query, expected) in [
        (
            "kind=session.created",
            vec![created(&acme), created(&other)],
        ),
        (
            "kind=plan.,session.message_appended",
            vec![appended(&acme), appended(&other)],
        ),
        (
            "kind=plan.&kind=session.created",
            vec![created(&acme), created(&other)],
        ),
        (
            &format!("subject={other}"),
            vec![created(&other), appended(&other)],
        ),
        ("namespace=acme", vec![created(&acme), appended(&acme)]),
    ] {
        let mut stream = local.listen(&format!("/api/v1/events?after=0&{query}"));
        assert_eq!(
            read_events(&mut stream, expected.len()),
            expected,
            "{query}"
        );
        // The next events do not match the filter: the listener receives only its position.
        wait_for_newest_position(&mut stream, &server);
    }
    local
        .get("/api/v1/events?kind=nonsense")
        .problem(400, "CA-1213");
    local.get("/api/v1/events?after=x").problem(400, "CA-1213");
    local
        .with("last-event-id", "soon")
        .get("/api/v1/events")
        .problem(400, "CA-1213");
}

/// Reads keep-alives until the client knows the newest position; fails on an event.
fn wait_for_newest_position(stream: &mut Stream, server: &Server) {
    let newest = server.database.count("SELECT MAX(position) FROM events");
    let mut at = None;
    // A keep-alive without a position means that no event has happened since.
    for _ in 0..1_000 {
        let sent = stream.block().expect("a keep-alive");
        assert_eq!(sent.data, None, "an event that was not requested");
        match sent.id {
            Some(id) => at = Some(id),
            None if at == Some(newest) || at.is_none() => return,
            None => {}
        }
    }
    panic!("the listener never received the newest position");
}

#[test]
fn clients_receive_only_visible_events() {
    let server = Server::start();
    let local = server.local();
    let editor = server.caller(&["acme=viewer"]);
    let everywhere = server.caller(&["*=viewer"]);
    let mut acme_stream = editor.listen("/api/v1/events");
    let mut shared_stream = everywhere.listen("/api/v1/events");
    let mut full_stream = local.listen("/api/v1/events");
    let hidden = make_session(&local, "local");
    let other = make_session(&local, "other");
    append_message(&local, &hidden, "secret");
    append_message(&local, &other, "not yours");
    let acme = make_session(&local, "acme");
    append_message(&local, &acme, "yours");
    let subjects_of = |stream: &mut Stream, count| {
        let subjects = read_events(stream, count)
            .into_iter()
            .map(|(_, subject)| subject);
        subjects.collect::<BTreeSet<_>>()
    };
    assert_eq!(
        subjects_of(&mut acme_stream, 2),
        BTreeSet::from([acme.clone()])
    );
    assert_eq!(
        subjects_of(&mut shared_stream, 4),
        BTreeSet::from([other.clone(), acme.clone()])
    );
    assert_eq!(
        subjects_of(&mut full_stream, 6),
        BTreeSet::from([hidden, other, acme])
    );
    editor
        .get("/api/v1/events?namespace=other")
        .problem(403, "CA-1202");
    editor
        .get("/api/v1/events?namespace=local")
        .problem(403, "CA-1202");
    server
        .caller_with(&["acme=owner"], &[Scope::Sessions])
        .get("/api/v1/events")
        .problem(403, "CA-1202");
    server
        .caller(&[])
        .get("/api/v1/events")
        .problem(403, "CA-1202");
}

#[test]
fn access_to_an_invalid_namespace_is_denied_and_audited() {
    for database in cleveragents_testkit::TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let viewer = server.caller(&["acme=viewer"]);
        for namespace in ["%00", "%0a", &"x".repeat(5_000)] {
            viewer
                .get(&format!("/api/v1/events?namespace={namespace}"))
                .problem(403, "CA-1202");
        }
        let longest =
            "SELECT MAX(LENGTH(namespace)) FROM audit_entries WHERE kind = 'access_denied'";
        assert_eq!(server.database.count(longest), 128);
    }
}

#[test]
fn filtered_events_advance_the_position() {
    let server = Server::start();
    let local = server.local();
    let viewer = server.caller(&["acme=viewer"]);
    let mut stream = viewer.listen("/api/v1/events");
    let initial = stream
        .block()
        .expect("a first block")
        .id
        .expect("a position");
    make_session(&local, "other");
    wait_until("the position advances", || {
        let sent = stream.block().expect("a keep-alive");
        assert_eq!(sent.data, None);
        sent.id.is_some_and(|id| id > initial)
    });
}

#[test]
fn a_revoked_token_receives_no_more_events() {
    let server = Server::start();
    let viewer = server.caller(&["acme=viewer"]);
    let mut stream = viewer.listen("/api/v1/events");
    stream.block().expect("it listens");
    server.revoke(&viewer);
    wait_until("the stream ends", || stream.block().is_none());
    wait_until("no listener is left", || {
        server.gauge("event_listeners") == 0
    });
}

#[test]
fn a_disconnected_client_leaves_nothing_behind() {
    let server = Server::with(|options| options.keep_alive = std::time::Duration::from_mins(10));
    let streams: Vec<_> = (0..20)
        .map(|_| server.local().listen("/api/v1/events"))
        .collect();
    wait_until("all listen", || server.gauge("event_listeners") == 20);
    drop(streams);
    wait_until("no listener is left", || {
        server.gauge("event_listeners") == 0
    });
}

#[test]
fn shutdown_ends_the_stream_after_pending_events() {
    let mut server = Server::start();
    let local = server.local();
    let mut stream = local.listen("/api/v1/events");
    let session = make_session(&local, "acme");
    assert_eq!(
        read_events(&mut stream, 1),
        [("session.created".to_owned(), session)]
    );
    server.shut_down();
    while let Some(sent) = stream.block() {
        assert_eq!(sent.data, None);
    }
}

#[test]
fn events_of_a_deleted_session_reach_its_former_viewers() {
    let server = Server::start();
    let viewer = server.caller(&["acme=viewer"]);
    let local = server.local();
    let session = make_session(&local, "acme");
    append_message(&local, &session, "x");
    let id = session.parse().expect("an id");
    let sessions = cleveragents_application::SessionService::new(server.engine.clone(), 1_000);
    sessions.delete(id).expect("it is removed");
    let kinds: Vec<_> = read_events(&mut viewer.listen("/api/v1/events?after=0"), 3)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(
        kinds,
        [
            "session.created",
            "session.message_appended",
            "session.deleted"
        ]
    );
}
