//! Valid A2A requests, by path and as JSON-RPC methods, for the test of permissions.

use serde_json::{Value, json};

use crate::harness::{Client, Server, plan_request};

/// The kind of a method, which determines the status that a caller without permission gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Creates something in a named namespace: callers without permission get 403.
    Named,
    /// Acts on a task: callers without read access get 404.
    Task,
    /// Shows only data that the caller may see: callers with a role in any namespace get 200.
    Shown,
}

/// A method: its names, its kind, and the lowest role.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// Name of the method in 0.3.
    pub(crate) old: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) least: &'static str,
}

const fn method(
    name: &'static str,
    old: Option<&'static str>,
    kind: Kind,
    least: &'static str,
) -> Method {
    Method {
        name,
        old,
        kind,
        least,
    }
}

/// The methods, and one operation that stands for all operations.
pub(crate) const METHODS: [Method; 12] = [
    method("SendMessage", Some("message/send"), Kind::Named, "editor"),
    method(
        "SendStreamingMessage",
        Some("message/stream"),
        Kind::Named,
        "editor",
    ),
    method("GetTask", Some("tasks/get"), Kind::Task, "viewer"),
    method("ListTasks", None, Kind::Shown, "viewer"),
    method("CancelTask", Some("tasks/cancel"), Kind::Task, "editor"),
    method(
        "SubscribeToTask",
        Some("tasks/resubscribe"),
        Kind::Task,
        "viewer",
    ),
    method(
        "CreateTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/set"),
        Kind::Task,
        "editor",
    ),
    method(
        "GetTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/get"),
        Kind::Task,
        "editor",
    ),
    method(
        "ListTaskPushNotificationConfigs",
        Some("tasks/pushNotificationConfig/list"),
        Kind::Task,
        "editor",
    ),
    method(
        "DeleteTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/delete"),
        Kind::Task,
        "editor",
    ),
    method(
        "GetExtendedAgentCard",
        Some("agent/getAuthenticatedExtendedCard"),
        Kind::Shown,
        "viewer",
    ),
    method("_cleveragents/plan/use", None, Kind::Named, "editor"),
];

/// An address at which no server listens.
const UNUSED_URL: &str = "http://127.0.0.1:9/";

/// A task that waits for an answer, created by the local user.
pub(crate) fn waiting_task(server: &Server, namespace: &str, is_pushed: bool) -> String {
    let mut request = json!({"message": message(namespace, "ask")});
    if is_pushed {
        let push = json!({"id": "p", "url": UNUSED_URL});
        request["configuration"]["taskPushNotificationConfig"] = push;
    }
    let local = server.local().with("a2a-version", "1.0");
    let response = local.post("/a2a/v1/message:send", &request).expect(200);
    let response = response.json();
    assert_eq!(
        response["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{response}"
    );
    response["task"]["id"].as_str().expect("an id").to_owned()
}

fn message(namespace: &str, text: &str) -> Value {
    json!({
        "messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}],
        "metadata": {"cleveragents": {"namespace": namespace}},
    })
}

/// The body of a valid request by path.
pub(crate) fn body(method: &str, path: &str, namespace: &str) -> Option<Value> {
    match method {
        "POST" if path.ends_with("/message:send") || path.ends_with("/message:stream") => {
            Some(json!({"message": message(namespace, "x")}))
        }
        "POST" if path.ends_with("/pushNotificationConfigs") => {
            Some(json!({"id": "q", "url": UNUSED_URL}))
        }
        _ => None,
    }
}

/// The parameters of a valid call of a method.
fn params(method: &str, task: &str, namespace: &str) -> Value {
    match method {
        "SendMessage" | "SendStreamingMessage" => {
            json!({"message": message(namespace, "x")})
        }
        "message/send" | "message/stream" => json!({"message": {
            "kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}],
            "metadata": {"cleveragents": {"namespace": namespace}},
        }}),
        "CreateTaskPushNotificationConfig" => {
            json!({"taskId": task, "id": "q", "url": UNUSED_URL})
        }
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
            json!({"taskId": task, "id": "p"})
        }
        "ListTaskPushNotificationConfigs" => json!({"taskId": task}),
        "tasks/pushNotificationConfig/set" => {
            json!({"taskId": task, "pushNotificationConfig": {"id": "q", "url": UNUSED_URL}})
        }
        "tasks/pushNotificationConfig/get" | "tasks/pushNotificationConfig/delete" => {
            json!({"id": task, "pushNotificationConfigId": "p"})
        }
        "_cleveragents/plan/use" => plan_request(namespace),
        _ => json!({"id": task}),
    }
}

/// Calls a method over JSON-RPC, and returns its outcome as an HTTP status.
pub(crate) fn call(client: &Client, method: &str, task: &str, namespace: &str) -> u16 {
    let is_v0_3 = method.contains('/') && !method.starts_with('_');
    let client = if is_v0_3 {
        client.clone()
    } else {
        client.with("a2a-version", "1.0")
    };
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": method, "params": params(method, task, namespace),
    });
    let bytes = body.to_string().into_bytes();
    let mut stream = client.send("POST", "/a2a", Some("application/json"), &bytes);
    let (status, headers) = stream.head().expect("an answer");
    let is_stream = headers
        .iter()
        .any(|(name, value)| name == "content-type" && value.starts_with("text/event-stream"));
    if is_stream && params(method, task, namespace)["message"].is_object() {
        // The task must finish, so that its effects are not attributed to later requests.
        stream.rest(&headers, "POST");
    }
    if is_stream || matches!(status, 401 | 429) {
        // The updates of a waiting task never end, so they are not read. For 401 and 429 the status is enough.
        return status;
    }
    let rpc_response: Value = serde_json::from_str(&stream.rest(&headers, "POST")).expect("JSON");
    match rpc_response["error"]["code"].as_i64() {
        None => {
            assert!(
                rpc_response.get("result").is_some(),
                "{method}: {rpc_response}"
            );
            200
        }
        Some(-32_012) => 403,
        Some(-32_001 | -32_010) => 404,
        Some(_) => panic!("{method} in {namespace}: {rpc_response}"),
    }
}
