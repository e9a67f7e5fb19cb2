//! Errors and their responses.

use crate::harness::{A2aBinding, BINDINGS, RpcError, Server, local_options, message};
use cleveragents_domain::identity::Scope;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

fn expect_error(outcome: Result<Value, RpcError>) -> RpcError {
    outcome.expect_err("refused")
}

#[test]
fn requests_for_missing_or_finished_tasks_fail() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    for binding in BINDINGS {
        let finished = client.send(binding, "tck-complete-task-1");
        let missing = "TASK_NOT_FOUND";
        for id in ["tck-nonexistent-1", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
                let error = expect_error(client.call(binding, method, &json!({"id": id})));
                error.assert(binding, -32001, 404, missing);
            }
            let mut sent = message("m", "x");
            sent["taskId"] = id.into();
            let error =
                expect_error(client.call(binding, "SendMessage", &json!({"message": sent})));
            error.assert(binding, -32001, 404, missing);
        }
        let error =
            expect_error(client.call(binding, "CancelTask", &json!({"id": finished["id"]})));
        error.assert(binding, -32002, 400, "TASK_NOT_CANCELABLE");
        let error =
            expect_error(client.call(binding, "SubscribeToTask", &json!({"id": finished["id"]})));
        error.assert(binding, -32004, 400, "UNSUPPORTED_OPERATION");
        let mut sent = message("tck-terminal-1", "x");
        sent["taskId"] = finished["id"].clone();
        let error = expect_error(client.call(binding, "SendMessage", &json!({"message": sent})));
        error.assert(binding, -32004, 400, "UNSUPPORTED_OPERATION");
        sent["contextId"] = "another".into();
        let error = expect_error(client.call(binding, "SendMessage", &json!({"message": sent})));
        error.assert(binding, -32602, 400, "INVALID_PARAMS");
        let error =
            expect_error(client.call(binding, "SendStreamingMessage", &json!({"message": sent})));
        error.assert(binding, -32602, 400, "INVALID_PARAMS");
    }
}

#[test]
fn malformed_messages_are_rejected() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let valid = message("m", "x");
    let with = |name: &str, value: Value| {
        let mut sent = valid.clone();
        sent[name] = value;
        json!({"message": sent})
    };
    for binding in BINDINGS {
        let all = [
            json!({}),
            json!({"message": 1}),
            with("parts", json!([])),
            with("parts", json!([{"text": "a", "data": 1}])),
            with("role", json!("ROLE_UNSPECIFIED")),
            with("messageId", json!("")),
            with("contextId", json!("a\u{7}")),
            with("contextId", json!("c".repeat(600))),
            with("metadata", json!([])),
            json!({"message": valid, "configuration": {"historyLength": -1}}),
            json!({"message": valid, "configuration": {"returnImmediately": "maybe"}}),
        ];
        for params in all {
            let error = expect_error(client.call(binding, "SendMessage", &params));
            error.assert(binding, -32602, 400, "INVALID_PARAMS");
        }
        let unsupported =
            json!([{"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"}]);
        let error = expect_error(client.call(binding, "SendMessage", &with("parts", unsupported)));
        error.assert(binding, -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED");
        let binary = json!([{"raw": "/w=="}]);
        let error = expect_error(client.call(binding, "SendMessage", &with("parts", binary)));
        error.assert(binding, -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED");
        let known = json!([{"text": "a", "mediaType": "Text/Plain; charset=utf-8"}]);
        client
            .call(binding, "SendMessage", &with("parts", known))
            .expect("accepted");
        let mut unknown = with("tckUnknownField", json!(1));
        unknown["tckExtraParam"] = json!({"a": [1]});
        client
            .call(binding, "SendMessage", &unknown)
            .expect("ignored");
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM tasks"),
        4,
        "no other task was started"
    );
}

#[test]
fn malformed_json_rpc_requests_are_rejected() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        (deep.as_str(), -32700),
        ("[]", -32600),
        (
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\"}]",
            -32600,
        ),
        ("1", -32600),
        ("{\"id\":1,\"method\":\"GetTask\"}", -32600),
        (
            "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"GetTask\"}",
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"GetTask\"}",
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"GetTask\"}",
            -32600,
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\",\"params\":[]}",
            -32602,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\"}",
            -32602,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"NonExistentMethod\"}",
            -32601,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/list\"}",
            -32601,
        ),
    ] {
        let answer = client.http("POST", "/a2a", Some(body));
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(answer.kind(), "application/json");
        let value = answer.json();
        assert_eq!(value["error"]["code"], code, "{body}");
        let names: Vec<_> = value["error"]
            .as_object()
            .expect("an object")
            .keys()
            .collect();
        assert_eq!(names, ["code", "message", "data"]);
        let expected_id = if body.contains("\"id\":1,") || body.contains("\"id\":1}") {
            json!(1)
        } else {
            json!(null)
        };
        if !body.starts_with('[') {
            assert_eq!(value["id"], expected_id, "{body}");
        }
    }
    let text = json!({"jsonrpc": "2.0", "id": "a", "method": "GetTask", "params": {"id": "x"}});
    let answer = client.http("POST", "/a2a/", Some(&text.to_string())).json();
    assert_eq!(answer["id"], "a");
    let explained = client.http("GET", "/a2a", None);
    assert_eq!(explained.status, 405);
    assert!(explained.text.contains("agent-card.json"));
}

#[test]
fn unknown_content_types_and_paths_are_refused() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let sent = json!({"message": message("m", "x")}).to_string();
    let unsupported = server.client().header("content-type", Some("text/plain"));
    let answer = unsupported.http("POST", "/a2a/v1/message:send", Some(&sent));
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["error"]["details"][0]["reason"],
        "CONTENT_TYPE_NOT_SUPPORTED"
    );
    let envelope = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}});
    let answer = unsupported.http("POST", "/a2a", Some(&envelope.to_string()));
    assert_eq!(answer.json()["error"]["code"], -32005);
    let own = server
        .client()
        .header("content-type", Some("application/a2a+json"));
    assert_eq!(
        own.http("POST", "/a2a/v1/message:send", Some(&sent)).status,
        200
    );
    let client = server.client();
    for (verb, path, body) in [
        ("POST", "/a2a/v1/message:send", Some("{")),
        ("POST", "/a2a/v1/message:send", Some("[]")),
        ("POST", "/a2a/v1/message:send", Some("")),
        ("GET", "/a2a/v1/tasks?pageSize=x", None),
        ("GET", "/a2a/v1/tasks?status=TASK_STATE_NONSENSE", None),
        ("GET", "/a2a/v1/tasks?statusTimestampAfter=yesterday", None),
        ("GET", "/a2a/v1/tasks?includeArtifacts=perhaps", None),
        ("GET", "/a2a/v1/tasks/x?historyLength=-1", None),
    ] {
        let answer = client.http(verb, path, body);
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(answer.json()["error"]["code"], 400);
    }
    assert_eq!(
        client.http("POST", "/a2a/v1/tasks/x:fly", Some("")).status,
        404
    );
    assert_eq!(client.http("POST", "/a2a/v1/tasks/x", Some("")).status, 404);
    let task = client.send(A2aBinding::Rest, "tck-input-required-1");
    let id = task["id"].as_str().expect("an id");
    let path = format!("/a2a/v1/tasks/{id}%3Acancel");
    assert_eq!(
        client.http("POST", &path, Some("")).status,
        200,
        "a percent-encoded colon is accepted"
    );
}

#[test]
fn foreign_tasks_are_not_found_and_viewers_only_read() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let scopes = [Scope::Tasks];
    let acme = server.with_grants("acme", &["acme=editor"], &scopes);
    let other = server.with_grants("other", &["other=owner"], &scopes);
    let viewer = server.with_grants("viewer", &["acme=viewer"], &scopes);
    let sessions = server.with_grants("sessions", &["acme=owner"], &[Scope::Sessions]);
    let both = server.with_grants("both", &["acme=editor", "other=editor"], &scopes);
    for binding in BINDINGS {
        let task = acme.send(binding, "tck-input-required-1");
        let id = json!({"id": task["id"]});
        let pushes = json!({"taskId": task["id"], "id": "p", "url": "http://localhost:1/"});
        for (method, params) in [
            ("GetTask", &id),
            ("CancelTask", &id),
            ("SubscribeToTask", &id),
            ("CreateTaskPushNotificationConfig", &pushes),
            ("GetTaskPushNotificationConfig", &pushes),
            ("ListTaskPushNotificationConfigs", &pushes),
            ("DeleteTaskPushNotificationConfig", &pushes),
        ] {
            for stranger in [&other, &sessions] {
                let error = expect_error(stranger.call(binding, method, params));
                error.assert(binding, -32001, 404, "TASK_NOT_FOUND");
            }
        }
        viewer.call(binding, "GetTask", &id).expect("may read");
        for (method, params) in [
            ("CancelTask", &id),
            ("CreateTaskPushNotificationConfig", &pushes),
            ("ListTaskPushNotificationConfigs", &pushes),
        ] {
            let error = expect_error(viewer.call(binding, method, params));
            error.assert(binding, -32012, 403, "FORBIDDEN");
        }
        let error = expect_error(viewer.call(
            binding,
            "SendMessage",
            &json!({"message": message("m", "x")}),
        ));
        // A viewer may not write to any namespace, so there is no default namespace.
        error.assert(binding, -32602, 400, "INVALID_PARAMS");
        let params = json!({"message": message("m", "x"), "tenant": "acme"});
        assert_eq!(viewer.rpc_answer("SendMessage", &params).status, 403);
        let error = expect_error(both.call(
            binding,
            "SendMessage",
            &json!({"message": message("m", "x")}),
        ));
        error.assert(binding, -32602, 400, "INVALID_PARAMS");
        both.call(A2aBinding::Rpc, "SendMessage", &params)
            .expect("the tenant is named");
        let path = both.http(
            "POST",
            "/a2a/v1/acme/message:send",
            Some(&json!({"message": message("m", "x")}).to_string()),
        );
        assert_eq!(path.status, 200, "{}", path.text);
        let local = json!({"message": message("m", "x"), "tenant": "local"});
        assert_eq!(acme.rpc_answer("SendMessage", &local).status, 403);
        let own = acme.call(binding, "ListTasks", &json!({})).expect("a list");
        let theirs = other
            .call(binding, "ListTasks", &json!({}))
            .expect("a list");
        assert!(own["totalSize"].as_u64() > Some(0));
        assert_eq!(theirs["totalSize"], 0);
    }
    let denied = "SELECT COUNT(*) FROM audit_entries WHERE kind = 'access_denied'";
    assert!(database.count(denied) > 0, "denials are recorded");
}
