//! Versions of the protocol, and extensions.

use crate::harness::{A2aBinding, Server, local, message};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

#[test]
fn versions_are_checked_on_both_ways() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let params = json!({"message": message("m", "x")});
    for (version, is_spoken) in [
        (Some("1.0"), true),
        (Some("1.0.7"), true),
        (Some("99.0"), false),
        (Some("nonsense"), false),
        (Some("0.3"), false),
        (Some(""), false),
        (None, false),
    ] {
        let client = server.client().header("a2a-version", version);
        for (way, code) in [(A2aBinding::Rpc, -32009), (A2aBinding::Rest, 400)] {
            let outcome = client.call(way, "SendMessage", &params);
            match outcome {
                Ok(_) => assert!(is_spoken, "{version:?}"),
                Err(wrong) => {
                    assert!(!is_spoken, "{version:?}");
                    wrong.assert(way, code, code, "VERSION_NOT_SUPPORTED");
                }
            }
            let listed = client.call(way, "ListTasks", &json!({}));
            assert_eq!(listed.is_ok(), is_spoken, "{version:?}");
        }
    }
    let bare = server.client().header("a2a-version", None);
    let asked = bare.http("GET", "/a2a/v1/tasks?A2A-Version=1.0", None);
    assert_eq!(asked.status, 200, "{}", asked.text);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
    let asked = bare.http("POST", "/a2a?A2A-Version=1.0", Some(&body));
    assert!(asked.json().get("result").is_some());
}

#[test]
fn extensions_are_taken_note_of() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
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
    let server = Server::start(&database, local());
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
        let waits = call(
            "message/send",
            json!({
                "message": message("tck-input-required-1"), "configuration": {"blocking": true},
            }),
        );
        assert_eq!(waits["status"]["state"], "input-required");
        let found = call("tasks/get", json!({"id": waits["id"], "historyLength": 0}));
        assert_eq!(found["history"].as_array().expect("all of it").len(), 1);
        let set = call(
            "tasks/pushNotificationConfig/set",
            json!({
                "taskId": waits["id"], "pushNotificationConfig": {
                    "id": "p", "url": "http://localhost:1/",
                    "authentication": {"schemes": ["Bearer"], "credentials": "c"},
                },
            }),
        );
        assert_eq!(set["taskId"], waits["id"]);
        assert_eq!(
            set["pushNotificationConfig"]["authentication"]["schemes"],
            json!(["Bearer"])
        );
        let got = call(
            "tasks/pushNotificationConfig/get",
            json!({"id": waits["id"]}),
        );
        assert_eq!(got, set);
        let list = call(
            "tasks/pushNotificationConfig/list",
            json!({"id": waits["id"]}),
        );
        assert_eq!(list, json!([set]));
        let gone = call(
            "tasks/pushNotificationConfig/delete",
            json!({
                "id": waits["id"], "pushNotificationConfigId": "p",
            }),
        );
        assert!(gone.is_null());
        let cancelled = call("tasks/cancel", json!({"id": waits["id"]}));
        assert_eq!(cancelled["status"]["state"], "canceled");
        let params = json!({"message": message("tck-stream-001-1")});
        let reported = client
            .stream(A2aBinding::Rpc, "message/stream", &params)
            .rest();
        let kinds: Vec<_> = reported
            .iter()
            .map(|one| one["kind"].as_str().expect("a kind"))
            .collect();
        assert_eq!(
            kinds,
            ["task", "status-update", "artifact-update", "status-update"]
        );
        assert_eq!(reported[1]["final"], false);
        assert_eq!(reported[3]["final"], true);
        assert_eq!(reported[3]["status"]["state"], "completed");
        let missing = client.rpc("tasks/get", &json!({"id": "x"}));
        assert_eq!(missing["error"]["code"], -32001);
    }
    let mixed = server
        .client()
        .rpc("message/send", &json!({"message": message("m")}));
    assert_eq!(mixed["error"]["code"], -32009, "1.0 has no such method");
}
