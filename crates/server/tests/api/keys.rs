//! Requests that are repeated with their idempotency key.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cleveragents_store::{DatabaseUrl, EngineCache};
use cleveragents_testkit::{Child, TestDatabase, child_input, proof_size, send_line};
use serde_json::{Value, json};

use crate::harness::{Client, Server, TestRuntime, application, options, wait_until};
use crate::provider::MODEL;

#[test]
fn a_request_with_a_key_has_its_effect_once() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let editor = server.caller(&["acme=editor"]);
        let keyed = editor.with("idempotency-key", "one");
        let new = json!({"name": "first", "namespace": "acme"});
        let created = keyed.post("/api/v1/sessions", &new).expect(201);
        let retry = keyed.post("/api/v1/sessions", &new).expect(201);
        assert_eq!(retry.body, created.body);
        assert_eq!(retry.header("location"), created.header("location"));
        assert_eq!(retry.header("etag"), created.header("etag"));
        assert_eq!(retry.header("idempotency-replayed"), Some("true"));
        assert_eq!(created.header("idempotency-replayed"), None);
        assert_eq!(server.database.count("SELECT COUNT(*) FROM sessions"), 1);
        let other = json!({"name": "second", "namespace": "acme"});
        keyed
            .post("/api/v1/sessions", &other)
            .problem(409, "CA-1215");
        // Keys of other callers are separate.
        server
            .caller(&["acme=editor"])
            .with("idempotency-key", "one")
            .post("/api/v1/sessions", &other)
            .expect(201);
        let long = editor.with("idempotency-key", "k".repeat(201));
        long.post("/api/v1/sessions", &other)
            .problem(400, "CA-1213");

        let path = format!(
            "{}/messages",
            created.header("location").expect("a location")
        );
        let message = json!({"role": "user", "content": "once"});
        let key = editor.with("idempotency-key", "two");
        let stored = key.post(&path, &message).expect(201);
        let repeated = key.post(&path, &message).expect(201);
        assert_eq!(repeated.body, stored.body);
        assert_eq!(repeated.header("content-type"), Some("application/json"));
        key.post(&path, &json!({"role": "user", "content": "twice"}))
            .problem(409, "CA-1215");
        assert_eq!(server.database.count("SELECT COUNT(*) FROM messages"), 1);
    }
}

#[test]
fn a_failure_is_replayed_and_a_request_that_never_started_can_be_retried() {
    let server = Server::with(|options| {
        options.max_running = 1;
        options.max_waiting = 0;
    });
    let local = server.local();
    let turns = format!("{}/turns", server.session("acme"));
    let holding = {
        let (local, turns) = (local.with("idempotency-key", "held"), turns.clone());
        std::thread::spawn(move || local.post(&turns, &json!({"prompt": "hold"})).status)
    };
    wait_until("it runs", || server.double.provider.prompts().len() == 1);
    // Meanwhile the same request is still being processed.
    local
        .with("idempotency-key", "held")
        .post(&turns, &json!({"prompt": "hold"}))
        .problem(409, "CA-1216");
    // A request that gets no slot has no effect, and may be retried.
    let busy = local.with("idempotency-key", "busy");
    busy.post(&turns, &json!({"prompt": "go"}))
        .problem(503, "CA-1219");
    server.double.release();
    assert_eq!(holding.join().expect("ends"), 200);
    wait_until("nothing runs", || server.gauge("running") == 0);
    busy.post(&turns, &json!({"prompt": "go"})).expect(200);
    busy.post(&turns, &json!({"prompt": "go"})).expect(200);
    let failing = local.with("idempotency-key", "failing");
    failing
        .post(&turns, &json!({"prompt": "fail"}))
        .problem(422, "CA-0805");
    failing
        .post(&turns, &json!({"prompt": "fail"}))
        .problem(422, "CA-0805");
    let all_prompts = server.double.provider.prompts();
    assert_eq!(all_prompts, ["hold", "go", "fail"]);
}

#[test]
fn concurrent_requests_with_one_key_take_effect_once() {
    let server = Server::start();
    let path = format!("{}/messages", server.session("acme"));
    let message = json!({"role": "user", "content": "once"});
    let answers = cleveragents_testkit::at_once(16, |_| {
        let client = server.local().with("idempotency-key", "same");
        client.post(&path, &message).expect(201).body
    });
    assert!(answers.iter().all(|body| *body == answers[0]));
    assert_eq!(server.database.count("SELECT COUNT(*) FROM messages"), 1);
}

/// Serves a database in a separate process until it is killed.
fn serve_until_killed(url: &str) {
    let url = DatabaseUrl::parse(url, Path::new("/")).expect("a URL");
    let engine = EngineCache::new(cleveragents_store::Options::default())
        .open(&url)
        .expect("it opens");
    let double = Arc::new(TestRuntime::default());
    let home = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime
        .block_on(cleveragents_server::serve(
            application(engine, &double, home.path()),
            options(),
            send_line,
            std::future::pending(),
        ))
        .expect("it serves");
}

#[test]
fn a_killed_server_never_keeps_a_message_without_its_key() {
    if let Some(url) = child_input() {
        return serve_until_killed(&url);
    }
    let test = "keys::a_killed_server_never_keeps_a_message_without_its_key";
    let database = TestDatabase::sqlite();
    let start = || {
        let mut child = Child::start(test, &database.url);
        let address = child
            .read_line()
            .expect("it listens")
            .parse()
            .expect("an address");
        (child, Client::new(address, None))
    };
    let (child, client) = start();
    let created = client
        .post(
            "/api/v1/sessions",
            &json!({"namespace": "acme", "actor": MODEL}),
        )
        .expect(201);
    let path = format!(
        "{}/messages",
        created.header("location").expect("a location")
    );
    let mut running = Some((child, client));
    // Responses of the acknowledged requests, by key.
    let acknowledged: Mutex<BTreeMap<String, Value>> = Mutex::default();
    for round in 0..proof_size(3, 20) {
        let (child, client) = running.take().expect("a server");
        let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (client, path, acknowledged) = (&client, &path, &acknowledged);
                let (is_over, count) = (&is_over, &count);
                scope.spawn(move || {
                    for number in 0.. {
                        let key = format!("{round}-{writer}-{number}");
                        let Some(answer) = append(client, path, &key) else {
                            break;
                        };
                        acknowledged
                            .lock()
                            .expect("not poisoned")
                            .insert(key, answer);
                        count.fetch_add(1, Ordering::SeqCst);
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                });
            }
            wait_until("some are stored", || count.load(Ordering::SeqCst) >= 40);
            child.kill();
            is_over.store(true, Ordering::SeqCst);
        });
        let messages = database.count("SELECT COUNT(*) FROM messages");
        assert_eq!(
            database.count("SELECT COUNT(*) FROM request_keys WHERE status = 201"),
            messages,
            "each message has its key"
        );
        assert_eq!(
            database.count("SELECT COUNT(*) FROM request_keys WHERE status IS NULL"),
            0
        );
        // Clients without a response retry; clients with a response receive the same response again.
        let (child, client) = start();
        let known = acknowledged.lock().expect("not poisoned").clone();
        for (key, answer) in known {
            assert_eq!(
                append(&client, &path, &key).expect("an answer"),
                answer,
                "{key}"
            );
        }
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), messages);
        running = Some((child, client));
    }
    drop(running);
}

/// Appends a message with its key; `None` if the server is gone.
fn append(client: &Client, path: &str, key: &str) -> Option<Value> {
    let client = client.with("idempotency-key", key);
    let answer = client.try_post(path, &json!({"role": "user", "content": key}))?;
    Some(answer.expect(201).json())
}

/// The server is killed while it processes the request: the next server reports this at once, and gives every retry the
/// same response.
#[test]
fn a_key_whose_server_is_gone_is_answered() {
    if let Some(url) = child_input() {
        return serve_until_killed(&url);
    }
    let test = "keys::a_key_whose_server_is_gone_is_answered";
    for database in TestDatabase::each() {
        let mut child = Child::start(test, &database.url);
        let address = child
            .read_line()
            .expect("it listens")
            .parse()
            .expect("an address");
        let client = Client::new(address, None);
        let created = client
            .post("/api/v1/sessions", &json!({"namespace": "acme"}))
            .expect(201);
        let turns = format!("{}/turns", created.header("location").expect("a location"));
        let hold = json!({"prompt": "hold"});
        let request = {
            let (client, turns, hold) = (
                client.with("idempotency-key", "held"),
                turns.clone(),
                hold.clone(),
            );
            std::thread::spawn(move || client.try_post(&turns, &hold).is_none())
        };
        wait_until("the request has started", || {
            database.count("SELECT COUNT(*) FROM request_keys WHERE status IS NULL") == 1
        });
        // A second server does not treat the first server, which is still running, as dead.
        let server = Server::on(database, |_| {});
        let retry = server.local().with("idempotency-key", "held");
        retry.post(&turns, &hold).problem(409, "CA-1216");
        child.kill();
        assert!(request.join().expect("ends"), "no response was sent");
        retry.post(&turns, &hold).problem(409, "CA-1214");
        let repeated = retry.post(&turns, &hold);
        assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
        repeated.problem(409, "CA-1214");
        retry
            .post(&turns, &json!({"prompt": "other"}))
            .problem(409, "CA-1215");
        assert!(server.double.provider.prompts().is_empty());
    }
}
