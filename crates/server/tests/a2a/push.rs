//! Push notifications: addresses, contents and order.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use crate::harness::{
    A2aBinding, BINDINGS, Server, TIMEOUT, local_options, message, provider_options, state,
};
use crate::provider::Provider;
use cleveragents_domain::{EventKind, Position};
use cleveragents_store::events;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

/// A received POST request.
struct PostedRequest {
    head: Vec<String>,
    body: Value,
}

impl PostedRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn state(&self) -> Option<&str> {
        self.body.pointer("/statusUpdate/status/state")?.as_str()
    }
}

/// A webhook as simple as the webhook of the conformance kit: it implements HTTP/1.0 and needs `Content-Length`. It
/// sends the given responses first, then 200.
struct Webhook {
    url: String,
    posted: Receiver<PostedRequest>,
}

impl Webhook {
    fn start(answers: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let port = listener.local_addr().expect("an address").port();
        let (sender, posted) = channel();
        let answers = Arc::new(Mutex::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let answer = {
                    let mut answers = answers.lock().expect("not poisoned");
                    if answers.is_empty() {
                        "200 OK"
                    } else {
                        answers.remove(0)
                    }
                };
                if sender.send(receive(stream, answer)).is_err() {
                    return;
                }
            }
        });
        Self {
            url: format!("http://localhost:{port}/webhook"),
            posted,
        }
    }

    fn next(&self) -> PostedRequest {
        self.posted
            .recv_timeout(TIMEOUT)
            .expect("something is posted")
    }
}

fn receive(mut stream: TcpStream, answer: &str) -> PostedRequest {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let mut posted = PostedRequest {
        head,
        body: Value::Null,
    };
    let length = posted
        .header("content-length")
        .expect("a length is announced");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body).expect("a body");
    posted.body = serde_json::from_slice(&body).expect("JSON");
    let text = format!("HTTP/1.0 {answer}\r\nlocation: http://localhost:1/\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("answered");
    posted
}

fn config(url: &str) -> Value {
    json!({
        "id": "tck-push-1", "url": url, "token": "tok",
        "authentication": {"scheme": "Bearer", "credentials": "tck-test-token-1"},
    })
}

#[test]
fn a_webhook_in_the_message_receives_all_updates_in_order() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let hook = Webhook::start(Vec::new());
        let params = json!({
            "message": message("tck-input-required-1", "Hello"),
            "configuration": {"taskPushNotificationConfig": config(&hook.url)},
        });
        let task = client
            .call(binding, "SendMessage", &params)
            .expect("a task")["task"]
            .clone();
        let mut answer = message("tck-complete-task-2", "x");
        answer["taskId"] = task["id"].clone();
        client
            .call(binding, "SendMessage", &json!({"message": answer}))
            .expect("accepted");
        let all: Vec<PostedRequest> = (0..4).map(|_| hook.next()).collect();
        let states: Vec<_> = all.iter().filter_map(PostedRequest::state).collect();
        assert_eq!(
            states,
            [
                "TASK_STATE_WORKING",
                "TASK_STATE_INPUT_REQUIRED",
                "TASK_STATE_WORKING",
                "TASK_STATE_COMPLETED",
            ]
        );
        for posted in &all {
            assert_eq!(
                posted.header("authorization"),
                Some("Bearer tck-test-token-1")
            );
            assert_eq!(posted.header("x-a2a-notification-token"), Some("tok"));
            assert_eq!(posted.header("content-type"), Some("application/json"));
            assert!(posted.header("transfer-encoding").is_none());
            assert_eq!(posted.body.as_object().expect("an object").len(), 1);
            assert_eq!(posted.body["statusUpdate"]["taskId"], task["id"]);
        }
    }
}

#[test]
fn push_configurations_are_created_read_and_deleted() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let task = client.send(binding, "tck-complete-task-1");
        let mut push_config = config("https://example.com/tck-push-webhook");
        push_config["taskId"] = task["id"].clone();
        let created = client.call(binding, "CreateTaskPushNotificationConfig", &push_config);
        assert_eq!(created.expect("made"), push_config);
        let by_id = json!({"taskId": task["id"], "id": "tck-push-1"});
        let get = || client.call(binding, "GetTaskPushNotificationConfig", &by_id);
        assert_eq!(get().expect("exists"), push_config);
        // A second request with the same id replaces the configuration.
        push_config["url"] = "https://example.com/other".into();
        client
            .call(binding, "CreateTaskPushNotificationConfig", &push_config)
            .expect("replaced");
        let without_id = json!({"taskId": task["id"], "url": "https://example.com/third"});
        let second = client
            .call(binding, "CreateTaskPushNotificationConfig", &without_id)
            .expect("made");
        assert!(!second["id"].as_str().expect("an id").is_empty());
        let list = client
            .call(binding, "ListTaskPushNotificationConfigs", &by_id)
            .expect("a list");
        assert_eq!(list["configs"].as_array().expect("a list").len(), 2);
        for _ in 0..2 {
            let deleted = client
                .call(binding, "DeleteTaskPushNotificationConfig", &by_id)
                .expect("deleted");
            assert_eq!(
                deleted,
                if binding == A2aBinding::Rest {
                    json!({})
                } else {
                    Value::Null
                }
            );
        }
        get()
            .expect_err("deleted")
            .assert(binding, -32001, 404, "TASK_NOT_FOUND");
        for (name, value) in [
            ("url", json!("ftp://example.com")),
            ("url", json!("")),
            ("url", json!("http://user:secret@example.com/")),
            ("token", json!("a\nb")),
            ("authentication", json!({"credentials": "x"})),
        ] {
            let mut invalid = push_config.clone();
            invalid[name] = value;
            let rejection = client.call(binding, "CreateTaskPushNotificationConfig", &invalid);
            rejection
                .expect_err("refused")
                .assert(binding, -32602, 400, "INVALID_PARAMS");
        }
    }
    let task = client.send(A2aBinding::Rpc, "tck-complete-task-1");
    let snake = json!({"task_id": task["id"], "id": "s", "url": "https://example.com/"});
    client
        .call(A2aBinding::Rpc, "CreateTaskPushNotificationConfig", &snake)
        .expect("made");
    for number in 0..16 {
        let config = json!({"taskId": task["id"], "id": format!("n{number}"), "url": "https://example.com/"});
        let created = client.call(A2aBinding::Rpc, "CreateTaskPushNotificationConfig", &config);
        assert_eq!(created.is_ok(), number < 15, "{number}");
    }
}

#[test]
fn failed_deliveries_are_retried_in_order() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let hook = Webhook::start(vec!["503 Later", "302 Elsewhere"]);
    let params = json!({
        "message": message("tck-artifact-text-1", "Hello"),
        "configuration": {"pushNotificationConfig": config(&hook.url)},
    });
    let task = client
        .call(A2aBinding::Rpc, "SendMessage", &params)
        .expect("a task")["task"]
        .clone();
    assert_eq!(
        state(&task),
        "TASK_STATE_COMPLETED",
        "tasks do not wait for webhooks"
    );
    let first = hook.next();
    assert_eq!(first.state(), Some("TASK_STATE_WORKING"));
    // The failed delivery is retried. The next response is a redirect, which is neither followed nor retried.
    let retried = hook.next();
    assert_eq!(retried.body, first.body);
    let second = hook.next();
    assert!(second.body.get("artifactUpdate").is_some());
    assert_eq!(hook.next().state(), Some("TASK_STATE_COMPLETED"));
    // Each failure left a record with its cause.
    let events = database
        .open()
        .read(|reader| events::after(reader, Position(0), 100))
        .expect("read");
    let failed: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == EventKind::TaskPushFailed)
        .inspect(|event| assert_eq!(event.subject, task["id"]))
        .map(|event| &event.payload)
        .collect();
    let [first_failure, second_failure] = failed.as_slice() else {
        panic!("{failed:?}");
    };
    for (failure, status, is_given_up) in
        [(first_failure, "503", false), (second_failure, "302", true)]
    {
        let reason = failure["reason"].as_str().expect("a reason");
        assert!(reason.contains(status), "{failure}");
        assert_eq!(failure["is_given_up"], is_given_up, "{failure}");
    }
}

#[test]
fn deliveries_of_a_dead_server_are_taken_over() {
    for database in TestDatabase::each() {
        let hook = Webhook::start(Vec::new());
        let mut options = provider_options();
        // Both servers may call the webhook on this machine.
        options.allow_private_addresses = true;
        let server = Server::start(&database, options);
        let client = server.client();
        let params = json!({
            "message": message("m", "hold it"),
            "configuration": {
                "returnImmediately": true, "taskPushNotificationConfig": config(&hook.url),
            },
        });
        let task = client
            .call(A2aBinding::Rpc, "SendMessage", &params)
            .expect("a task")["task"]
            .clone();
        assert_eq!(hook.next().state(), Some("TASK_STATE_WORKING"));
        let id = task["id"].as_str().expect("an id").to_owned();
        server.end();
        let provider = Arc::<Provider>::default();
        provider.release();
        let server = Server::with_provider(&database, provider_options(), provider);
        server.client().wait_for(&id, "TASK_STATE_COMPLETED");
        assert!(hook.next().body.get("artifactUpdate").is_some());
        assert_eq!(hook.next().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn webhooks_of_0_3_receive_0_3() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client().header("a2a-version", None);
    let hook = Webhook::start(Vec::new());
    let sent = json!({
        "kind": "message", "messageId": "tck-complete-task-1", "role": "user",
        "parts": [{"kind": "text", "text": "Hi"}],
    });
    let params = json!({
        "message": sent, "configuration": {"pushNotificationConfig": {
            "url": hook.url, "authentication": {"schemes": ["Bearer"], "credentials": "c"},
        }},
    });
    let task = client.rpc("message/send", &params)["result"].clone();
    let posted = hook.next();
    assert_eq!(posted.body["kind"], "task");
    assert_eq!(posted.body["id"], task["id"]);
    assert_eq!(posted.header("authorization"), Some("Bearer c"));
}

#[test]
fn addresses_of_this_machine_are_not_called_unless_allowed() {
    let database = TestDatabase::sqlite();
    let mut options = local_options();
    options.allow_private_addresses = false;
    let server = Server::start(&database, options);
    let client = server.client();
    for url in [
        "http://localhost:1/",
        "https://localhost:1/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest",
        "https://10.1.2.3/",
        "http://example.com/",
    ] {
        let params = json!({
            "message": message("tck-complete-task-1", "Hello"),
            "configuration": {"taskPushNotificationConfig": {"url": url}},
        });
        let rejection = client
            .call(A2aBinding::Rpc, "SendMessage", &params)
            .expect_err(url);
        rejection.assert(A2aBinding::Rpc, -32602, 400, "INVALID_PARAMS");
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM tasks"), 0);
}
