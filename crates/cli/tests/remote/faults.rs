//! Broken dependencies of commands and servers: no false success, and after the repair everything
//! works.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::{Value, json};

use crate::http::Caller;
use crate::{Server, agents, token};

/// Tokens and audit entries of a home.
fn rows(agents: &Agents) -> Vec<Vec<Vec<String>>> {
    ["tokens", "token_grants", "audit_entries", "audit_head"]
        .map(|table| {
            let sql = format!("SELECT * FROM {table} ORDER BY 1");
            TestDatabase::read_file(&agents.database(), &sql)
        })
        .into()
}

#[test]
fn tokens_on_a_full_disk_are_created_and_revoked_atomically() {
    let host = agents();
    token(&host, "first", &["acme=viewer"]);
    for arguments in [
        &["token", "create", "second", "--grant", "acme=editor"][..],
        &["token", "revoke", "first"],
    ] {
        let before = rows(&host);
        let mut failures = 0;
        let answer = host.run_on_growing_disk(arguments, |answer, context| {
            failures += 1;
            assert_eq!(rows(&host), before, "{context}");
            assert!(
                !answer.out.contains("ca_"),
                "{context}: a secret of no token"
            );
        });
        assert!(failures > 0, "{arguments:?}: the full disk had no effect");
        assert_ne!(rows(&host), before, "{arguments:?} does nothing");
        assert_eq!(answer.json()["status"], "ok");
    }
    host.data(&["audit", "verify"]);
    let listed = host.data(&["token", "list"]);
    let names: Vec<&str> = listed["tokens"]
        .as_array()
        .expect("tokens")
        .iter()
        .filter_map(|token| token["name"].as_str())
        .collect();
    assert_eq!(names, ["second"], "{listed}");
}

/// Reading needs no space, or fails with an error.
#[test]
fn the_audit_log_on_a_full_disk_is_shown_correctly_or_not_at_all() {
    let host = agents();
    token(&host, "first", &["acme=viewer"]);
    let before = rows(&host);
    for arguments in [&["audit", "list"][..], &["audit", "verify"]] {
        let expected = host.data(arguments);
        let shown = host.run_on_growing_disk(arguments, |_, context| {
            assert_eq!(rows(&host), before, "{context}");
        });
        assert_eq!(shown.json()["data"], expected, "{arguments:?}");
    }
    // A tampered log is not reported as valid when there is no space for details.
    TestDatabase::write_file(
        &host.database(),
        "DROP TRIGGER audit_entries_stay; UPDATE audit_entries SET identity = 'intruder' WHERE number = 1;",
    );
    for free_blocks in [0, 64, 1_024] {
        let output = host
            .on_full_disk(free_blocks, &["--format", "json", "audit", "verify"])
            .output();
        Answer::from_output(&output.expect("the program starts")).assert_reports_failure("verify");
    }
}

/// Stored data of a connection: server, namespace and token.
fn connection(client: &Agents) -> (Value, Value, Option<String>) {
    let value = |key: &str| client.data(&["config", "get", key])["value"].clone();
    let token = std::fs::read_to_string(client.home().join("server-token")).ok();
    (value("server.url"), value("server.namespace"), token)
}

#[test]
fn a_connection_on_a_full_disk_is_changed_atomically() {
    let (host, client) = (agents(), agents());
    let ada = token(&host, "ada", &["acme=editor", "shop=editor"]);
    let ben = token(&host, "ben", &["acme=editor"]);
    let server = Server::start(&host, &[]);
    let url = server.url.as_str();
    client.data(&["config", "set", "core.format", "json"]);
    for arguments in [
        &[
            "server",
            "connect",
            url,
            "--token",
            &ada,
            "--namespace",
            "shop",
        ][..],
        &["server", "connect", url, "--token", &ben],
        &["server", "disconnect"],
    ] {
        let before = connection(&client);
        let mut failures = 0;
        client.run_on_growing_disk(arguments, |_, context| {
            failures += 1;
            assert_eq!(connection(&client), before, "{context}");
        });
        assert!(failures > 0, "{arguments:?}: the full disk had no effect");
        assert_ne!(connection(&client), before, "{arguments:?} does nothing");
        let left: Vec<_> = std::fs::read_dir(client.home())
            .expect("a home")
            .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
            .filter(|name| name.starts_with(".server-token"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(connection(&client), (Value::Null, Value::Null, None));
}

/// A TCP proxy to a database server that can be interrupted.
struct DatabaseProxy {
    address: SocketAddr,
    is_interrupted: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl DatabaseProxy {
    fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = Self {
            address: listener.local_addr().expect("an address"),
            is_interrupted: Arc::default(),
            sockets: Arc::default(),
        };
        let (is_interrupted, sockets) = (
            Arc::clone(&proxy.is_interrupted),
            Arc::clone(&proxy.sockets),
        );
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut sockets = sockets.lock().expect("not poisoned");
                if is_interrupted.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(upstream) = TcpStream::connect(&target) else {
                    continue;
                };
                for (from, to) in [(&client, &upstream), (&upstream, &client)] {
                    let mut from = from.try_clone().expect("a socket");
                    let mut to = to.try_clone().expect("a socket");
                    std::thread::spawn(move || {
                        let _ended = std::io::copy(&mut from, &mut to);
                        let _closed = to.shutdown(Shutdown::Both);
                    });
                }
                sockets.extend([client, upstream]);
            }
        });
        proxy
    }

    fn interrupt(&self) {
        let mut sockets = self.sockets.lock().expect("not poisoned");
        self.is_interrupted.store(true, Ordering::SeqCst);
        for socket in sockets.drain(..) {
            let _closed = socket.shutdown(Shutdown::Both);
        }
    }

    fn repair(&self) {
        self.is_interrupted.store(false, Ordering::SeqCst);
    }
}

/// An A2A request.
const CALL: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}"#;

/// Sends a request. Returns status, body and headers of the response.
fn ask(server: &Server, line: &str, headers: &[&str], body: &str) -> (u16, Value, String) {
    let mut caller = Caller::connect(server.address()).expect("the server listens");
    let answer = caller
        .ask(line, headers, body)
        .expect("a complete response");
    (answer.status, answer.json(), answer.head)
}

fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_mins(2),
            "no {description}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The database is unavailable for a while: the server responds with 503, is not ready, and
/// continues when the database is back. No acknowledged data is lost, and requests without an
/// acknowledgement can be retried with their idempotency key.
#[test]
fn a_server_reports_an_unavailable_database_and_continues_when_it_is_back() {
    let Some(database) = TestDatabase::postgres() else {
        return;
    };
    let (start, after_scheme) = database.url.split_once("://").expect("a URL");
    let (authority, name) = after_scheme.split_once('/').expect("a database");
    let (login, target) = match authority.rsplit_once('@') {
        Some((login, target)) => (format!("{login}@"), target),
        None => (String::new(), authority),
    };
    let proxy = DatabaseProxy::to(target.to_owned());
    let host = agents().on(&format!("{start}://{login}{}/{name}", proxy.address));
    let server = Server::start(&host, &["--insecure-local"]);
    assert_eq!(ask(&server, "GET /readyz", &[], "").0, 200);
    let (status, body, _) = ask(&server, "POST /api/v1/sessions", &[], "{}");
    assert_eq!(status, 201, "{body}");
    let session = format!("/api/v1/sessions/{}", body["id"].as_str().expect("an id"));
    let append = |key: &str| {
        let line = format!("POST {session}/messages");
        let body = json!({"role": "user", "content": key}).to_string();
        ask(&server, &line, &[&format!("idempotency-key: {key}")], &body)
    };
    assert_eq!(append("before").0, 201);
    let listen = || {
        let caller = Caller::connect(server.address()).expect("the server listens");
        let line = "GET /api/v1/events?kind=session.message_appended&after=0";
        caller
            .listen(line, &[], "")
            .expect("an answer")
            .expect("a stream")
    };
    let mut events = listen();
    let mut position = 0;
    while position == 0 {
        let event = events.next().expect("a block").expect("no end");
        if event.data.is_some() {
            position = event.position.expect("a position");
        }
    }

    for round in 0..2 {
        proxy.interrupt();
        for (line, body) in [
            ("GET /readyz".to_owned(), ""),
            (format!("GET {session}"), ""),
            ("GET /api/v1/sessions".to_owned(), ""),
            ("POST /api/v1/sessions".to_owned(), "{}"),
            ("POST /api/v1/operations/session/list".to_owned(), "{}"),
            ("GET /a2a/v1/tasks".to_owned(), ""),
            ("POST /a2a".to_owned(), CALL),
        ] {
            let (status, received, head) = ask(&server, &line, &["a2a-version: 1.0"], body);
            assert_eq!(status, 503, "{line}: {received}");
            assert!(head.contains("retry-after:"), "{line}: {head}");
            let received = received.to_string();
            assert!(
                !received.contains("127.0.0.1"),
                "the response has no internal address: {received}"
            );
        }
        // The process is still alive.
        assert_eq!(ask(&server, "GET /healthz", &[], "").0, 200);
        let (status, received, _) = append(&format!("{round}"));
        assert_eq!(status, 503, "{received}");
        proxy.repair();
        wait_until("ready server", || {
            ask(&server, "GET /readyz", &[], "").0 == 200
        });
        wait_until("stored message", || append(&format!("{round}")).0 == 201);
        assert_eq!(append(&format!("{round}")).0, 201, "repeated request");
    }
    // A listener that stayed connected or reconnects misses no event.
    let mut numbers = vec![0];
    while numbers.len() < 3 {
        let Ok(Some(event)) = events.next() else {
            let caller = Caller::connect(server.address()).expect("the server listens");
            let after = format!("last-event-id: {position}");
            let line = "GET /api/v1/events?kind=session.message_appended";
            events = caller
                .listen(line, &[&after], "")
                .expect("an answer")
                .expect("a stream");
            continue;
        };
        if let Some(data) = event.data {
            position = event.position.expect("a position");
            numbers.push(data["payload"]["sequence"].as_u64().expect("a number"));
        }
    }
    assert_eq!(numbers, [0, 1, 2]);
    let (_, page, _) = ask(&server, &format!("GET {session}/messages"), &[], "");
    let contents: Vec<&str> = page["items"]
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(contents, ["before", "0", "1"]);
    assert_eq!(server.end(), Some(0));
}
