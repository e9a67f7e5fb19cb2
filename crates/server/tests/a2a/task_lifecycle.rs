//! Cancelled tasks, and clients that disconnect.

use std::io::Write as _;
use std::net::TcpStream;

use crate::harness::{
    A2aBinding, BINDINGS, Server, TIMEOUT, local_options, message, provider_options, state,
};
use crate::provider::wait_for;
use cleveragents_testkit::TestDatabase;
use serde_json::json;

#[test]
fn a_task_that_waits_or_runs_can_be_cancelled() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let task = client.send(binding, "tck-input-required-1");
        let id = json!({"id": task["id"]});
        let mut events = client.stream(binding, "SubscribeToTask", &id);
        events.next().expect("a task");
        let cancelled = client.call(binding, "CancelTask", &id).expect("cancelled");
        assert_eq!(cancelled["id"], task["id"]);
        assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
        let updates = events.rest();
        assert_eq!(updates.len(), 1);
        assert_eq!(
            updates[0]["statusUpdate"]["status"]["state"],
            "TASK_STATE_CANCELED"
        );
    }
    drop(server);
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    let id = client.begin("hold it");
    wait_for("the model is asked", || {
        !server.provider.prompts().is_empty()
    });
    let cancelled = client
        .call(A2aBinding::Rpc, "CancelTask", &json!({"id": id}))
        .expect("cancelled");
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    assert!(server.provider.wait_for_stop(), "the turn was not stopped");
    let after = client
        .call(A2aBinding::Rpc, "GetTask", &json!({"id": id}))
        .expect("a task");
    assert_eq!(
        state(&after),
        "TASK_STATE_CANCELED",
        "a final state never changes"
    );
}

#[test]
fn a_task_continues_after_its_caller_disconnects() {
    for method in ["SendMessage", "SendStreamingMessage"] {
        // Each method has its own server, because a released provider holds no further requests.
        let database = TestDatabase::sqlite();
        let server = Server::start(&database, provider_options());
        let client = server.client();
        let params = json!({"message": message("m", "hold on")});
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let address = server.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("connects");
        let head = format!(
            "POST /a2a HTTP/1.1\r\nhost: {address}\r\na2a-version: 1.0\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let started_at = std::time::Instant::now();
        let working = loop {
            let params = json!({"status": "TASK_STATE_WORKING"});
            let list = client
                .call(A2aBinding::Rpc, "ListTasks", &params)
                .expect("a list");
            if let Some(task) = list["tasks"].as_array().expect("a list").first() {
                break task["id"].as_str().expect("an id").to_owned();
            }
            assert!(started_at.elapsed() < TIMEOUT, "the task was not started");
        };
        wait_for("the model is asked", || {
            !server.provider.prompts().is_empty()
        });
        drop(stream);
        // The server has noticed the disconnect by the time it has answered another client.
        client.send_text(A2aBinding::Rpc, "another");
        server.provider.release();
        client.wait_for(&working, "TASK_STATE_COMPLETED");
        assert_eq!(server.provider.prompts(), ["hold on", "another"]);
    }
}

#[test]
fn a_running_task_accepts_no_message() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    let id = client.begin("hold it");
    client.wait_for(&id, "TASK_STATE_WORKING");
    let mut extra = message("m", "more");
    extra["taskId"] = id.clone().into();
    let error = client.call(A2aBinding::Rpc, "SendMessage", &json!({"message": extra}));
    let error = error.expect_err("refused");
    error.assert(A2aBinding::Rpc, -32004, 400, "UNSUPPORTED_OPERATION");
    server.provider.release();
    client.wait_for(&id, "TASK_STATE_COMPLETED");
}

#[test]
fn only_one_of_many_answers_is_accepted() {
    for database in TestDatabase::each() {
        let server = Server::start(&database, local_options());
        let client = server.client();
        let task = client.send(A2aBinding::Rpc, "tck-input-required-1");
        let mut answer = message("tck-delayed-complete-1", "x");
        answer["taskId"] = task["id"].clone();
        let params = json!({"message": answer, "configuration": {"returnImmediately": true}});
        let clients: Vec<_> = (0..6).map(|_| server.client()).collect();
        let accepted = std::thread::scope(|scope| {
            let calls: Vec<_> = clients
                .iter()
                .map(|client| {
                    scope.spawn(|| client.call(A2aBinding::Rpc, "SendMessage", &params).is_ok())
                })
                .collect();
            calls
                .into_iter()
                .map(|call| call.join().expect("ends"))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            accepted.iter().filter(|is_accepted| **is_accepted).count(),
            1
        );
        let id = task["id"].as_str().expect("an id");
        let finished = client.wait_for(id, "TASK_STATE_COMPLETED");
        assert_eq!(finished["history"].as_array().expect("a history").len(), 3);
    }
}

#[test]
fn concurrent_messages_in_a_new_context_share_its_session() {
    for database in TestDatabase::each() {
        let server = Server::start(&database, local_options());
        let clients: Vec<_> = (0..6).map(|_| server.client()).collect();
        let mut sent = message("tck-complete-task-1", "x");
        sent["contextId"] = "new".into();
        let params = json!({"message": sent});
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| {
                    let task = client
                        .call(A2aBinding::Rpc, "SendMessage", &params)
                        .expect("a task");
                    assert_eq!(state(&task["task"]), "TASK_STATE_COMPLETED");
                });
            }
        });
        assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 1);
        assert_eq!(database.count("SELECT COUNT(*) FROM tasks"), 6);
    }
}

#[test]
fn a_revoked_subscriber_receives_no_more_events() {
    let database = TestDatabase::sqlite();
    let mut options = local_options();
    options.keep_alive = std::time::Duration::from_millis(50);
    let server = Server::start(&database, options);
    let scopes = [cleveragents_domain::identity::Scope::Tasks];
    let acme = server.with_grants("acme", &["acme=editor"], &scopes);
    let task = acme.send(A2aBinding::Rpc, "tck-input-required-1");
    for binding in BINDINGS {
        let mut events = acme.stream(binding, "SubscribeToTask", &json!({"id": task["id"]}));
        events.next().expect("a task");
        if binding == A2aBinding::Rest {
            database.execute_sql("UPDATE tokens SET revoked_at = 1");
            assert!(events.next().is_none(), "the stream ends without an error");
        }
    }
}
