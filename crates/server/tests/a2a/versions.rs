//! Versions of the protocol, and extensions.

use crate::harness::{A2aBinding, Server, local_options, message};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

#[test]
fn both_bindings_check_the_version() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let params = json!({"message": message("m", "x")});
    for (version, is_supported) in [
        (Some("1.0"), true),
        (Some("1.0.7"), true),
        (Some("99.0"), false),
        (Some("nonsense"), false),
        (Some("0.3"), false),
        (Some(""), false),
        (None, false),
    ] {
        let client = server.client().header("a2a-version", version);
        for (binding, code) in [(A2aBinding::Rpc, -32009), (A2aBinding::Rest, 400)] {
            let outcome = client.call(binding, "SendMessage", &params);
            match outcome {
                Ok(_) => assert!(is_supported, "{version:?}"),
                Err(error) => {
                    assert!(!is_supported, "{version:?}");
                    error.assert(binding, code, code, "VERSION_NOT_SUPPORTED");
                }
            }
            let listed = client.call(binding, "ListTasks", &json!({}));
            assert_eq!(listed.is_ok(), is_supported, "{version:?}");
        }
    }
    let without_version = server.client().header("a2a-version", None);
    let response = without_version.http("GET", "/a2a/v1/tasks?A2A-Version=1.0", None);
    assert_eq!(response.status, 200, "{}", response.text);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
    let response = without_version.http("POST", "/a2a?A2A-Version=1.0", Some(&body));
    assert!(response.json().get("result").is_some());
}

#[test]
fn responses_name_the_supported_extensions() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let unknown = "https://example.com/ext/v1,https://example.com/ext/v2";
    let client = server.client().header("a2a-extensions", Some(unknown));
    let answer = client.rpc_answer("ListTasks", &json!({}));
    assert_eq!(answer.status, 200);
    assert!(!answer.headers.contains_key("a2a-extensions"));
    let both = format!("{unknown}, urn:cleveragents:extensions:v1");
    let client = server.client().header("a2a-extensions", Some(&both));
    let answer = client.http("GET", "/a2a/v1/tasks", None);
    assert_eq!(
        answer.headers["a2a-extensions"],
        "urn:cleveragents:extensions:v1"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one conversation, method by method")]
fn clients_of_0_3_are_answered_in_0_3() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let message = |id: &str| {
        json!({
            "kind": "message", "messageId": id, "role": "user",
            "parts": [{"kind": "text", "text": "Hi"}],
        })
    };
    for version in [None, Some(""), Some("0.3.0")] {
        let client = server.client().header("a2a-version", version);
        let call = |method: &str, params: Value| {
            let answer = client.rpc(method, &params);
            assert!(answer.get("error").is_none(), "{answer}");
            answer["result"].clone()
        };
        let task = call(
            "message/send",
            json!({"message": message("tck-artifact-file-1")}),
        );
        assert_eq!(task["kind"], "task");
        assert_eq!(task["status"]["state"], "completed");
        assert_eq!(task["history"][0]["kind"], "message");
        assert_eq!(task["history"][0]["role"], "user");
        assert_eq!(
            task["history"][0]["parts"][0],
            json!({"kind": "text", "text": "Hi"})
        );
        assert_eq!(
            task["artifacts"][0]["parts"][0],
            json!({"kind": "file", "file": {
                "bytes": "dGNr", "mimeType": "text/plain", "name": "output.txt",
            }})
        );
        let direct = call(
            "message/send",
            json!({"message": message("tck-message-response-1")}),
        );
        assert_eq!(direct["kind"], "message");
        let waiting = call(
            "message/send",
            json!({
                "message": message("tck-input-required-1"), "configuration": {"blocking": true},
            }),
        );
        assert_eq!(waiting["status"]["state"], "input-required");
        let fetched = call(
            "tasks/get",
            json!({"id": waiting["id"], "historyLength": 0}),
        );
        assert_eq!(fetched["history"].as_array().expect("a history").len(), 1);
        let created = call(
            "tasks/pushNotificationConfig/set",
            json!({
                "taskId": waiting["id"], "pushNotificationConfig": {
                    "id": "p", "url": "http://localhost:1/",
                    "authentication": {"schemes": ["Bearer"], "credentials": "c"},
                },
            }),
        );
        assert_eq!(created["taskId"], waiting["id"]);
        assert_eq!(
            created["pushNotificationConfig"]["authentication"]["schemes"],
            json!(["Bearer"])
        );
        let fetched_config = call(
            "tasks/pushNotificationConfig/get",
            json!({"id": waiting["id"]}),
        );
        assert_eq!(fetched_config, created);
        let list = call(
            "tasks/pushNotificationConfig/list",
            json!({"id": waiting["id"]}),
        );
        assert_eq!(list, json!([created]));
        let deleted = call(
            "tasks/pushNotificationConfig/delete",
            json!({
                "id": waiting["id"], "pushNotificationConfigId": "p",
            }),
        );
        assert!(deleted.is_null());
        let cancelled = call("tasks/cancel", json!({"id": waiting["id"]}));
        assert_eq!(cancelled["status"]["state"], "canceled");
        let params = json!({"message": message("tck-stream-001-1")});
        let received = client
            .stream(A2aBinding::Rpc, "message/stream", &params)
            .rest();
        let kinds: Vec<_> = received
            .iter()
            .map(|update| update["kind"].as_str().expect("a kind"))
            .collect();
        assert_eq!(
            kinds,
            ["task", "status-update", "artifact-update", "status-update"]
        );
        assert_eq!(received[1]["final"], false);
        assert_eq!(received[3]["final"], true);
        assert_eq!(received[3]["status"]["state"], "completed");
        let missing = client.rpc("tasks/get", &json!({"id": "x"}));
        assert_eq!(missing["error"]["code"], -32001);
    }
    let mixed = server
        .client()
        .rpc("message/send", &json!({"message": message("m")}));
    assert_eq!(mixed["error"]["code"], -32009, "1.0 has no such method");
}
