//! Servers that stop or die, and servers that resume their tasks.

use std::sync::Arc;

use crate::harness::{A2aBinding, Server, local_options, message, provider_options, state};
use crate::provider::{Provider, wait_for};
use cleveragents_domain::identity::Scope;
use cleveragents_testkit::{Child, TestDatabase, child_input, send_line};
use serde_json::json;

fn released_provider() -> Arc<Provider> {
    let provider = Arc::<Provider>::default();
    provider.release();
    provider
}

/// Starts a turn on a server and stops the server. Returns the id of the unfinished task.
fn start_and_interrupt_turn(database: &TestDatabase) -> String {
    let server = Server::start(database, provider_options());
    let client = server.client();
    let id = client.begin("hold it");
    client.wait_for(&id, "TASK_STATE_WORKING");
    wait_for("the model is asked", || {
        !server.provider.prompts().is_empty()
    });
    server.end();
    id
}

#[test]
fn an_interrupted_turn_is_resumed() {
    for database in TestDatabase::each() {
        let id = start_and_interrupt_turn(&database);
        let states = "SELECT COUNT(*) FROM tasks WHERE state = 'working'";
        assert_eq!(database.count(states), 1, "the task is unchanged");
        let server = Server::with_provider(&database, provider_options(), released_provider());
        let task = server.client().wait_for(&id, "TASK_STATE_COMPLETED");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "it");
        assert_eq!(server.provider.prompts(), ["hold it"]);
        let questions = "SELECT COUNT(*) FROM messages WHERE role = 'user'";
        assert_eq!(database.count(questions), 1, "nothing is asked twice");
    }
}

#[test]
fn a_task_can_be_subscribed_to_after_a_restart() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let id = server
        .client()
        .send(A2aBinding::Rpc, "tck-input-required-1")["id"]
        .clone();
    server.end();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let mut events = client.stream(A2aBinding::Rest, "SubscribeToTask", &json!({"id": id}));
    let first = events.next().expect("a task");
    assert_eq!(
        first["task"]["status"]["state"],
        "TASK_STATE_INPUT_REQUIRED"
    );
    let mut answer = message("tck-complete-task-1", "x");
    answer["taskId"] = id.clone();
    client
        .call(A2aBinding::Rpc, "SendMessage", &json!({"message": answer}))
        .expect("accepted");
    let updates = events.rest();
    assert_eq!(updates.len(), 2);
    assert_eq!(
        updates[1]["statusUpdate"]["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
}

#[test]
fn streams_end_when_the_server_stops() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let id = client.send(A2aBinding::Rpc, "tck-input-required-1")["id"].clone();
    let mut events = client.stream(A2aBinding::Rpc, "SubscribeToTask", &json!({"id": id}));
    events.next().expect("a task");
    server.end();
    assert!(events.next().is_none());
}

#[test]
fn two_servers_share_the_tasks_of_one_database() {
    for database in TestDatabase::each() {
        let first_server = Server::start(&database, provider_options());
        let second_server = Server::start(&database, provider_options());
        let (first_client, second_client) = (first_server.client(), second_server.client());
        let id = first_client.begin("hold it");
        first_client.wait_for(&id, "TASK_STATE_WORKING");
        let mut events =
            second_client.stream(A2aBinding::Rpc, "SubscribeToTask", &json!({"id": id}));
        events.next().expect("a task");
        let third = Server::start(&database, provider_options());
        assert!(
            third.provider.prompts().is_empty(),
            "the server of the task is alive, so no other server takes over the task"
        );
        first_server.provider.release();
        let updates = events.rest();
        let last = updates.last().expect("an update");
        assert_eq!(
            last["statusUpdate"]["status"]["state"],
            "TASK_STATE_COMPLETED"
        );
        // A cancellation on the second server stops the turn on the server `blocked`.
        let blocked = Server::start(&database, provider_options());
        let id = blocked.client().begin("hold it");
        wait_for("the model is asked", || {
            !blocked.provider.prompts().is_empty()
        });
        second_client
            .call(A2aBinding::Rpc, "CancelTask", &json!({"id": id}))
            .expect("cancelled");
        assert!(blocked.provider.wait_for_stop());
    }
}

#[test]
fn a_task_of_a_killed_server_is_resumed() {
    const NAME: &str = "restart::a_task_of_a_killed_server_is_resumed";
    if let Some(url) = child_input() {
        let engine = cleveragents_store::EngineCache::new(cleveragents_store::Options::default())
            .open(
                &cleveragents_store::DatabaseUrl::parse(&url, std::path::Path::new("/"))
                    .expect("a url"),
            )
            .expect("opens");
        let server = Server::on(engine, provider_options(), Arc::<Provider>::default());
        let client = server.client();
        let id = client.begin("hold it");
        client.wait_for(&id, "TASK_STATE_WORKING");
        send_line(&id);
        std::thread::sleep(crate::harness::TIMEOUT);
        return;
    }
    let database = TestDatabase::sqlite();
    let url = format!("sqlite://{}", database.file().display());
    let mut child = Child::start(NAME, &url);
    let id = child.read_line().expect("a task");
    child.kill();
    let server = Server::with_provider(&database, provider_options(), released_provider());
    server.client().wait_for(&id, "TASK_STATE_COMPLETED");
}

#[test]
fn a_task_of_a_revoked_caller_fails() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let acme = server.with_grants("acme", &["acme=editor"], &[Scope::Tasks]);
    let id = acme.begin("hold it");
    acme.wait_for(&id, "TASK_STATE_WORKING");
    server.end();
    database.execute_sql("UPDATE tokens SET revoked_at = 1");
    let server = Server::with_provider(&database, provider_options(), released_provider());
    let task = server.client().wait_for(&id, "TASK_STATE_FAILED");
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(server.provider.prompts().is_empty());
}
