//! Streams: order, ends, late subscribers and clients that disconnect.

use crate::harness::{BINDINGS, Server, local_options, message, provider_options};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

fn kind(update: &Value) -> &str {
    let names: Vec<_> = update.as_object().expect("an object").keys().collect();
    assert_eq!(names.len(), 1, "{update}");
    names[0].as_str()
}

fn states(updates: &[Value]) -> Vec<&str> {
    updates
        .iter()
        .filter_map(|update| {
            update
                .pointer("/statusUpdate/status/state")
                .or_else(|| update.pointer("/task/status/state"))?
                .as_str()
        })
        .collect()
}

#[test]
fn a_stream_begins_with_the_task_and_ends_when_the_task_finishes() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let params = json!({"message": message("tck-stream-ordering-001-1", "Hello")});
        let received = client
            .stream(binding, "SendStreamingMessage", &params)
            .rest();
        let kinds: Vec<_> = received.iter().map(kind).collect();
        assert_eq!(
            kinds,
            ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
        );
        assert_eq!(
            states(&received),
            [
                "TASK_STATE_SUBMITTED",
                "TASK_STATE_WORKING",
                "TASK_STATE_COMPLETED"
            ]
        );
        let update = &received[2]["artifactUpdate"];
        assert_eq!(update["artifact"]["parts"][0]["text"], "Ordered output");
        assert_eq!(update["lastChunk"], true);
        assert!(update["taskId"].is_string() && update["contextId"].is_string());
        let params = json!({"message": message("tck-stream-artifact-chunked-1", "Hello")});
        let received = client
            .stream(binding, "SendStreamingMessage", &params)
            .rest();
        assert!(received[2]["artifactUpdate"].get("append").is_none());
        assert_eq!(received[3]["artifactUpdate"]["append"], true);
        assert_eq!(received[3]["artifactUpdate"]["lastChunk"], true);
        // A task that waits for an answer ends the stream of its message.
        let params = json!({"message": message("tck-input-required-1", "Hello")});
        let received = client
            .stream(binding, "SendStreamingMessage", &params)
            .rest();
        assert_eq!(states(&received).last(), Some(&"TASK_STATE_INPUT_REQUIRED"));
        let mut answer = message("tck-complete-task-1", "x");
        answer["taskId"] = received[0]["task"]["id"].clone();
        let received = client
            .stream(binding, "SendStreamingMessage", &json!({"message": answer}))
            .rest();
        assert_eq!(
            states(&received),
            ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
        );
    }
}

#[test]
fn all_subscribers_receive_the_same_events() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let task = client.send(binding, "tck-input-required-1");
        let id = json!({"id": task["id"]});
        let mut subscriber = client.stream(binding, "SubscribeToTask", &id);
        let mut other_subscriber = client.stream(binding, "SubscribeToTask", &id);
        let mut leaver = client.stream(binding, "SubscribeToTask", &id);
        let first = [
            subscriber.next().expect("a task"),
            other_subscriber.next().expect("a task"),
        ];
        assert_eq!(
            first[0]["task"]["status"]["state"],
            "TASK_STATE_INPUT_REQUIRED"
        );
        assert_eq!(first[0], first[1]);
        leaver.next().expect("a task");
        drop(leaver);
        let mut answer = message("tck-input-required-2", "not yet");
        answer["taskId"] = task["id"].clone();
        client
            .call(binding, "SendMessage", &json!({"message": answer}))
            .expect("accepted");
        answer["messageId"] = "tck-complete-task-3".into();
        client
            .call(binding, "SendMessage", &json!({"message": answer}))
            .expect("accepted");
        let (subscriber, other_subscriber) = (subscriber.rest(), other_subscriber.rest());
        assert_eq!(subscriber, other_subscriber);
        assert_eq!(
            states(&subscriber),
            [
                "TASK_STATE_WORKING",
                "TASK_STATE_INPUT_REQUIRED",
                "TASK_STATE_WORKING",
                "TASK_STATE_COMPLETED",
            ]
        );
    }
}

#[test]
fn subscribing_with_get_to_a_cancelled_task_is_refused_with_a_json_error() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let task = client.send(crate::harness::A2aBinding::Rest, "tck-input-required-1");
    let id = task["id"].as_str().expect("an id");
    client
        .call(
            crate::harness::A2aBinding::Rest,
            "CancelTask",
            &json!({"id": id}),
        )
        .expect("cancelled");
    let answer = client.http("GET", &format!("/a2a/v1/tasks/{id}:subscribe"), None);
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.kind(),
        "application/json",
        "the error is not sent as a stream"
    );
}

#[test]
fn the_chunks_of_an_answer_add_up_to_the_answer() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, provider_options());
    let client = server.client();
    for binding in BINDINGS {
        let params = json!({"message": message("m", "stream one two three")});
        let received = client
            .stream(binding, "SendStreamingMessage", &params)
            .rest();
        let mut text = String::new();
        let pieces: Vec<_> = received
            .iter()
            .filter_map(|update| update.get("artifactUpdate"))
            .collect();
        assert!(pieces.len() > 1, "{received:?}");
        for (index, piece) in pieces.iter().enumerate() {
            if piece.get("append").is_none() {
                text.clear();
            }
            text.push_str(
                piece["artifact"]["parts"][0]["text"]
                    .as_str()
                    .expect("a text"),
            );
            let is_last = piece.get("lastChunk").is_some();
            assert_eq!(is_last, index + 1 == pieces.len());
        }
        let id = received[0]["task"]["id"].as_str().expect("an id");
        let task = client.wait_for(id, "TASK_STATE_COMPLETED");
        assert_eq!(task["artifacts"][0]["parts"], json!([{"text": text}]));
        assert_eq!(text.len(), 6_000);
        assert!(!text.contains("false start"));
    }
}
