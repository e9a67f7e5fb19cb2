//! Arbitrary requests: the server responds to each, and none causes an internal error.

use std::cell::RefCell;

use crate::harness::{Server, local_options};
use cleveragents_testkit::TestDatabase;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// Arbitrary JSON, sometimes similar to valid requests.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "ROLE_USER",
            "tck-complete-task-1",
            "\u{0}",
            "TASK_STATE_WORKING",
            "http://localhost:1/",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "local",
            "builtin/echo",
            "1.0",
            "YQ==",
        ])
        .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "message",
        "messageId",
        "role",
        "parts",
        "text",
        "raw",
        "data",
        "url",
        "metadata",
        "taskId",
        "id",
        "contextId",
        "configuration",
        "historyLength",
        "returnImmediately",
        "pageSize",
        "pageToken",
        "status",
        "statusTimestampAfter",
        "taskPushNotificationConfig",
        "authentication",
        "scheme",
        "tenant",
        "cleveragents",
        "action",
        "actor",
        "extensions",
        "token",
        "message_id",
        "kind",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|pairs| {
                pairs
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

#[test]
fn every_malformed_request_is_answered() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let new = RefCell::new(server.client());
    let old = RefCell::new(server.client().header("a2a-version", None));
    let mut runner = TestRunner::new(Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    });
    let methods = prop::sample::select(vec![
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/pushNotificationConfig/set",
        "_cleveragents/plan/list",
        "_cleveragents/",
        "",
    ]);
    let valid_message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
    runner
        .run(
            &(methods, any_json(), any::<bool>(), any::<bool>()),
            |(method, arbitrary, is_old, is_almost_valid)| {
                let sender = if is_old { old.borrow() } else { new.borrow() };
                let mut params = arbitrary.clone();
                // Requests that are almost valid reach more code.
                if let (true, Some(fields)) = (is_almost_valid, params.as_object_mut()) {
                    fields
                        .entry("message")
                        .or_insert_with(|| valid_message.clone());
                }
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                let answer = sender.http("POST", "/a2a", Some(&body.to_string()));
                prop_assert!(answer.status < 500, "{body}: {}", answer.text);
                if answer.kind() == "application/json" {
                    let code = answer.json()["error"]["code"].as_i64();
                    prop_assert_ne!(code, Some(-32603), "{}: {}", body, answer.text);
                }
                for path in [
                    "/a2a/v1/message:send",
                    "/a2a/v1/tasks/x/pushNotificationConfigs",
                ] {
                    let answer = sender.http("POST", path, Some(&params.to_string()));
                    prop_assert!(answer.status < 500, "{path} {params}: {}", answer.text);
                }
                Ok(())
            },
        )
        .expect("no case fails");
}
