//! Servers that end or die, and those that go on with what they left.

use std::sync::Arc;

use crate::harness::{Double, Server, Way, local, message, product, state};
use cleveragents_domain::identity::Scope;
use cleveragents_domain::{NewMessage, Role, SessionId, TurnId};
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::{messages, turns};
use cleveragents_testkit::{Child, TestDatabase, child_input, say};
use serde_json::json;

fn open_door() -> Arc<Double> {
    let double = Arc::new(Double::default());
    double.door.open();
    double
}

/// A database in which a server left a task that it worked on, and the session of it.
fn left(database: &TestDatabase) -> (String, SessionId) {
    let server = Server::start(database, product());
    let client = server.client();
    let id = client.begin("hold it");
    client.wait_for(&id, "TASK_STATE_WORKING");
    let begun = std::time::Instant::now();
    while server.double.asked.lock().expect("asked").is_empty() {
        assert!(begun.elapsed() < crate::harness::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let session = server.double.asked.lock().expect("asked")[0].0.clone();
    server.end();
    (id, session.parse().expect("a session"))
}

#[test]
fn a_turn_that_had_not_begun_is_begun_again() {
    for database in TestDatabase::each() {
        let (id, _) = left(&database);
        let states = "SELECT COUNT(*) FROM tasks WHERE state = 'working'";
        assert_eq!(database.count(states), 1, "it is left as it was");
        let server = Server::lending(&database, product(), open_door());
        let task = server.client().wait_for(&id, "TASK_STATE_COMPLETED");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "it");
        assert_eq!(server.double.prompts(), [Some("hold it".to_owned())]);
    }
}

#[test]
fn a_turn_that_was_cut_off_is_gone_on_with() {
    let database = TestDatabase::sqlite();
    let (id, session) = left(&database);
    database
        .open()
        .write(move |unit| turns::begin(unit, TurnId::generate(), session, "m/m", "{}"))
        .expect("a turn");
    let server = Server::lending(&database, product(), open_door());
    let task = server.client().wait_for(&id, "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "went on");
    assert_eq!(server.double.prompts(), [None], "nothing is asked twice");
}

#[test]
fn an_answer_that_was_stored_is_not_asked_for_again() {
    let database = TestDatabase::sqlite();
    let (id, session) = left(&database);
    let said = |role, text: &str| {
        Appended::from(
            NewMessage::new(role, text.to_owned(), serde_json::Map::new(), 1_000)
                .expect("a message"),
        )
    };
    let both = [
        said(Role::User, "hold it"),
        said(Role::Assistant, "the answer"),
    ];
    database
        .open()
        .write(move |unit| messages::append(unit, session, &both, Announce::Each))
        .expect("stored");
    let server = Server::lending(&database, product(), open_door());
    let task = server.client().wait_for(&id, "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "the answer");
    assert!(server.double.prompts().is_empty());
}

#[test]
fn subscribers_find_a_task_again_after_a_restart() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let id = server.client().send(Way::Rpc, "tck-input-required-1")["id"].clone();
    server.end();
    let server = Server::start(&database, local());
    let client = server.client();
    let mut events = client.stream(Way::Rest, "SubscribeToTask", &json!({"id": id}));
    let first = events.next().expect("a task");
    assert_eq!(
        first["task"]["status"]["state"],
        "TASK_STATE_INPUT_REQUIRED"
    );
    let mut answer = message("tck-complete-task-1", "x");
    answer["taskId"] = id.clone();
    client
        .call(Way::Rpc, "SendMessage", &json!({"message": answer}))
        .expect("taken");
    let told = events.rest();
    assert_eq!(told.len(), 2);
    assert_eq!(
        told[1]["statusUpdate"]["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
}

#[test]
fn streams_end_when_the_server_does() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let client = server.client();
    let id = client.send(Way::Rpc, "tck-input-required-1")["id"].clone();
    let mut events = client.stream(Way::Rpc, "SubscribeToTask", &json!({"id": id}));
    events.next().expect("a task");
    server.end();
    assert!(events.next().is_none());
}

#[test]
fn two_servers_on_one_database_know_of_each_other() {
    for database in TestDatabase::each() {
        let one = Server::start(&database, product());
        let other = Server::start(&database, product());
        let (here, there) = (one.client(), other.client());
        let id = here.begin("hold it");
        here.wait_for(&id, "TASK_STATE_WORKING");
        let mut events = there.stream(Way::Rpc, "SubscribeToTask", &json!({"id": id}));
        events.next().expect("a task");
        let third = Server::start(&database, product());
        assert!(
            third.double.prompts().is_empty(),
            "its server lives: nobody takes it over"
        );
        one.double.door.open();
        let told = events.rest();
        let last = told.last().expect("an update");
        assert_eq!(
            last["statusUpdate"]["status"]["state"],
            "TASK_STATE_COMPLETED"
        );
        // Cancelled there, stopped here.
        let blocked = Server::start(&database, product());
        let id = blocked.client().begin("hold it");
        blocked.client().wait_for(&id, "TASK_STATE_WORKING");
        there
            .call(Way::Rpc, "CancelTask", &json!({"id": id}))
            .expect("cancelled");
        let begun = std::time::Instant::now();
        while !blocked
            .double
            .was_stopped
            .load(std::sync::atomic::Ordering::SeqCst)
        {
            assert!(begun.elapsed() < crate::harness::PATIENCE);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_task_of_a_server_that_was_killed_is_gone_on_with() {
    const NAME: &str = "restart::a_task_of_a_server_that_was_killed_is_gone_on_with";
    if let Some(url) = child_input() {
        let engine = cleveragents_store::EngineCache::new(cleveragents_store::Options::default())
            .open(
                &cleveragents_store::DatabaseUrl::parse(&url, std::path::Path::new("/"))
                    .expect("a url"),
            )
            .expect("opens");
        let server = Server::on(engine, product(), Arc::new(Double::default()));
        let client = server.client();
        let id = client.begin("hold it");
        client.wait_for(&id, "TASK_STATE_WORKING");
        say(&id);
        std::thread::sleep(crate::harness::PATIENCE);
        return;
    }
    let database = TestDatabase::sqlite();
    let url = format!("sqlite://{}", database.file().display());
    let mut child = Child::start(NAME, &url);
    let id = child.hear().expect("a task");
    child.kill();
    let server = Server::lending(&database, product(), open_door());
    server.client().wait_for(&id, "TASK_STATE_COMPLETED");
}

#[test]
fn a_task_of_somebody_who_may_not_ask_any_more_fails() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, product());
    let acme = server.with_grants("acme", &["acme=editor"], &[Scope::Tasks]);
    let id = acme.begin("hold it");
    acme.wait_for(&id, "TASK_STATE_WORKING");
    server.end();
    database.meddle("UPDATE tokens SET revoked_at = 1");
    let server = Server::lending(&database, product(), open_door());
    let task = server.client().wait_for(&id, "TASK_STATE_FAILED");
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(server.double.prompts().is_empty());
}
