//! Messages and their results.

use crate::harness::{
    A2aBinding, BINDINGS, Server, local_options, message, provider_options, state,
};
use crate::provider::Fault;
use cleveragents_store::sessions;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

/// Checks that no key is in snake case, no value is `null`, and times are in UTC.
fn check_names(value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert!(!name.contains('_'), "{name}");
                if name == "timestamp" {
                    assert!(value.as_str().expect("a time").ends_with('Z'));
                }
                check_names(value);
            }
        }
        Value::Array(items) => items.iter().for_each(check_names),
        Value::Null => panic!("null"),
        _ => {}
    }
}

#[test]
fn the_conformance_actor_runs_the_script_of_the_message_id() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let part = |task: &Value| {
        let artifact = &task["artifacts"][0];
        assert!(!artifact["artifactId"].as_str().expect("an id").is_empty());
        artifact["parts"][0].clone()
    };
    for binding in BINDINGS {
        let task = client.send(binding, "tck-complete-task-1a2b3c4d-jsonrpc");
        check_names(&task);
        assert_eq!(state(&task), "TASK_STATE_COMPLETED");
        assert_eq!(
            task["status"]["message"]["parts"][0]["text"],
            "Hello from TCK"
        );
        assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
        assert!(!task["contextId"].as_str().expect("a context").is_empty());
        assert_eq!(
            task["history"][0]["messageId"],
            "tck-complete-task-1a2b3c4d-jsonrpc"
        );
        assert_eq!(
            part(&client.send(binding, "tck-artifact-text-1"))["text"],
            "Generated text content"
        );
        assert_eq!(
            part(&client.send(binding, "tck-artifact-file-1")),
            json!({"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"})
        );
        let url = part(&client.send(binding, "tck-artifact-file-url-1"));
        assert_eq!(url["url"], "https://example.com/output.txt");
        assert_eq!(
            part(&client.send(binding, "tck-artifact-data-1"))["data"],
            json!({"key": "value", "count": 42})
        );
        let unknown = client.send(binding, "tck-dm-test-001");
        assert_eq!(
            unknown["status"]["message"]["parts"][0]["text"],
            "Unhandled messageId prefix: tck-dm-test-001"
        );
        let params = json!({"message": message("tck-message-response-1", "Hello")});
        let answer = client
            .call(binding, "SendMessage", &params)
            .expect("a message");
        assert!(answer.get("task").is_none());
        assert_eq!(
            answer["message"]["parts"][0]["text"],
            "Direct message response"
        );
        assert!(answer["message"]["contextId"].is_string());
        let streamed = client
            .stream(binding, "SendStreamingMessage", &params)
            .rest();
        assert_eq!(streamed.len(), 1);
        assert!(streamed[0].get("message").is_some());
        let chunked = client.send(binding, "tck-stream-artifact-chunked-1");
        assert_eq!(part(&chunked)["text"], "chunk-1 chunk-2");
        assert_eq!(
            state(&client.send(binding, "tck-auth-required-1")),
            "TASK_STATE_AUTH_REQUIRED"
        );
        assert_eq!(
            state(&client.send(binding, "tck-reject-task-1")),
            "TASK_STATE_REJECTED"
        );
    }
}

#[test]
fn three_messages_with_the_same_id_create_three_tasks() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let mut ids: Vec<String> = [A2aBinding::Rpc, A2aBinding::Rest, A2aBinding::Rpc]
        .iter()
        .map(|binding| client.send(*binding, "tck-complete-task-1")["id"].to_string())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn callers_choose_to_wait_or_not() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let send_task = |is_immediate: bool| {
            let params = json!({
                "message": message("tck-delayed-complete-1", "Hello"),
                "configuration": {"returnImmediately": is_immediate},
            });
            client
                .call(binding, "SendMessage", &params)
                .expect("a task")["task"]
                .clone()
        };
        let unfinished = send_task(true);
        assert_eq!(state(&unfinished), "TASK_STATE_SUBMITTED");
        assert_eq!(state(&send_task(false)), "TASK_STATE_COMPLETED");
        client.wait_for(
            unfinished["id"].as_str().expect("an id"),
            "TASK_STATE_COMPLETED",
        );
    }
}

#[test]
fn an_answer_resumes_the_task_that_asked() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let task = client.send(binding, "tck-input-required-1");
        assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
        let mut answer = message("tck-complete-task-2", "yes");
        answer["task_id"] = task["id"].clone();
        let finished = client
            .call(binding, "SendMessage", &json!({"message": answer}))
            .expect("a task")["task"]
            .clone();
        assert_eq!(finished["id"], task["id"]);
        assert_eq!(finished["contextId"], task["contextId"]);
        assert_eq!(state(&finished), "TASK_STATE_COMPLETED");
        let ids: Vec<_> = finished["history"]
            .as_array()
            .expect("a history")
            .iter()
            .map(|entry| entry["role"].as_str().expect("a role"))
            .collect();
        assert_eq!(ids, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]);
        // The response has the requested length of the history.
        for (length, expected) in [(0, 0), (1, 1), (2, 2), (9, 3)] {
            let params = json!({"id": task["id"], "historyLength": length});
            let fetched = client.call(binding, "GetTask", &params).expect("a task");
            let count = fetched
                .get("history")
                .map_or(0, |all| all.as_array().expect("a list").len());
            assert_eq!(count, expected);
            if length == 1 {
                assert_eq!(fetched["history"][0]["messageId"], "tck-complete-task-2");
            }
            assert_eq!(fetched.get("history").is_none(), length == 0);
        }
        let snake = json!({"id": task["id"], "history_length": 1});
        let fetched = client
            .call(A2aBinding::Rpc, "GetTask", &snake)
            .expect("a task");
        assert_eq!(fetched["history"].as_array().expect("a list").len(), 1);
        let params = json!({
            "message": message("tck-complete-task-3", "x"), "configuration": {"historyLength": 0},
        });
        let short = client
            .call(binding, "SendMessage", &params)
            .expect("a task");
        assert!(short["task"].get("history").is_none());
    }
}

#[test]
fn a_context_is_a_conversation() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    for (binding, text) in [(A2aBinding::Rpc, "one"), (A2aBinding::Rest, "two")] {
        let mut first = message("m", text);
        first["contextId"] = "my context".into();
        let task = client
            .call(binding, "SendMessage", &json!({"message": first}))
            .expect("a task")["task"]
            .clone();
        assert_eq!(task["contextId"], "my context");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], text);
        let sessions = database.count("SELECT COUNT(*) FROM sessions");
        assert_eq!(sessions, 1, "both are turns of one session");
    }
    let task = client.send_text(A2aBinding::Rpc, "three");
    let context = task["contextId"].as_str().expect("a context").to_owned();
    let session = server.engine.read(|reader| {
        let id = context
            .parse()
            .expect("a generated context is the id of its session");
        sessions::get(reader, id)
    });
    assert!(session.expect("read").is_some());
    let session_count = database.count("SELECT COUNT(*) FROM sessions");
    assert_eq!(session_count, 2);
}

#[test]
fn turns_of_one_context_run_one_after_the_other() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    let mut held = message("m", "hold first");
    held["contextId"] = "c".into();
    let immediate = json!({"returnImmediately": true});
    let params = json!({"message": held, "configuration": immediate});
    let first = client
        .call(A2aBinding::Rpc, "SendMessage", &params)
        .expect("a task");
    let first = first["task"]["id"].as_str().expect("an id").to_owned();
    client.wait_for(&first, "TASK_STATE_WORKING");
    let mut second = message("m", "second");
    second["contextId"] = "c".into();
    let params = json!({"message": second, "configuration": immediate});
    let second = client
        .call(A2aBinding::Rpc, "SendMessage", &params)
        .expect("a task");
    let second = second["task"]["id"].as_str().expect("an id").to_owned();
    // A message in another conversation does not wait for the first one.
    assert_eq!(
        state(&client.send_text(A2aBinding::Rpc, "third")),
        "TASK_STATE_COMPLETED"
    );
    let waiting = client
        .call(A2aBinding::Rpc, "GetTask", &json!({"id": second}))
        .expect("a task");
    assert_eq!(state(&waiting), "TASK_STATE_SUBMITTED");
    server.provider.release();
    client.wait_for(&first, "TASK_STATE_COMPLETED");
    client.wait_for(&second, "TASK_STATE_COMPLETED");
}

#[test]
fn the_outcome_of_a_turn_becomes_the_state_of_the_task() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    let text = |task: &Value| task["status"]["message"]["parts"][0]["text"].clone();
    let failed = client.send_text(A2aBinding::Rpc, "fail it is overloaded");
    assert_eq!(state(&failed), "TASK_STATE_FAILED");
    let reason = text(&failed).to_string();
    assert!(reason.contains("it is overloaded"), "{reason}");
    for fault in [Fault::Internal, Fault::Panic] {
        server.provider.faults.lock().expect("faults").push(fault);
        let failed = client.send_text(A2aBinding::Rest, "hello");
        assert_eq!(state(&failed), "TASK_STATE_FAILED");
        let reported = text(&failed).to_string();
        assert!(
            !reported.contains("secret") && !reported.contains("as asked"),
            "{reported}"
        );
    }
    let question = client.send_text(A2aBinding::Rpc, "ask which one?");
    assert_eq!(state(&question), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(text(&question), "which one?");
    let mut answer = message("m", "the second");
    answer["taskId"] = question["id"].clone();
    let finished = client
        .call(A2aBinding::Rpc, "SendMessage", &json!({"message": answer}))
        .expect("a task")["task"]
        .clone();
    let answer = finished["artifacts"][0]["parts"][0]["text"].to_string();
    assert!(answer.contains("the second"), "{answer}");
    let questions = database
        .count("SELECT COUNT(*) FROM messages WHERE content = 'the second' AND role = 'user'");
    assert_eq!(
        questions, 0,
        "the answer is not stored as a new message of the user"
    );
}

#[test]
fn the_actor_can_be_named_and_echo_needs_no_model() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    let send_task = |actor: &str| {
        let mut request = message("m", "hello");
        request["metadata"] = json!({"cleveragents": {"actor": actor}});
        client
            .call(A2aBinding::Rpc, "SendMessage", &json!({"message": request}))
            .expect("a task")["task"]
            .clone()
    };
    assert_eq!(
        send_task("builtin/echo")["artifacts"][0]["parts"][0]["text"],
        "hello"
    );
    assert!(server.provider.prompts().is_empty());
    send_task("openai/gpt-5-mini");
    assert_eq!(server.provider.models(), ["gpt-5-mini"]);
}
