//! Good requests of A2A, by path and as methods of JSON-RPC, for the test of who may do what.

use serde_json::{Value, json};

use crate::harness::{Client, Server};

/// What a method does, as far as who may do it depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Makes something in a namespace that is named: who may not is told so.
    Named,
    /// Acts on a task: to whom cannot see it, it does not exist.
    Task,
    /// Shows what the caller may see.
    Shown,
}

/// A method: its names, what it does, and the least role.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// Its name in 0.3.
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

/// The methods, and one operation for all that are methods too.
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

/// Nobody listens there, and nothing leaves the machine.
const NOWHERE: &str = "http://127.0.0.1:9/";

/// A task that waits for an answer, made by the person at the machine.
pub(crate) fn waiting_task(server: &Server, namespace: &str, is_pushed: bool) -> String {
    let mut asked = json!({"message": message(namespace, "ask")});
    if is_pushed {
        let push = json!({"id": "p", "url": NOWHERE});
        asked["configuration"]["taskPushNotificationConfig"] = push;
    }
    let local = server.local().with("a2a-version", "1.0");
    let made = local.post("/a2a/v1/message:send", &asked).expect(200);
    let made = made.json();
    assert_eq!(
        made["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{made}"
    );
    made["task"]["id"].as_str().expect("an id").to_owned()
}

fn message(namespace: &str, text: &str) -> Value {
    json!({
        "messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}],
        "metadata": {"cleveragents": {"namespace": namespace}},
    })
}

/// What a good request by path says, for the paths of A2A.
pub(crate) fn body(method: &str, path: &str, namespace: &str) -> Option<Value> {
    match method {
        "POST" if path.ends_with("/message:send") || path.ends_with("/message:stream") => {
            Some(json!({"message": message(namespace, "x")}))
        }
        "POST" if path.ends_with("/pushNotificationConfigs") => {
            Some(json!({"id": "q", "url": NOWHERE}))
        }
        _ => None,
    }
}

/// The parameters of a good call of a method.
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
            json!({"taskId": task, "id": "q", "url": NOWHERE})
        }
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
            json!({"taskId": task, "id": "p"})
        }
        "ListTaskPushNotificationConfigs" => json!({"taskId": task}),
        "tasks/pushNotificationConfig/set" => {
            json!({"taskId": task, "pushNotificationConfig": {"id": "q", "url": NOWHERE}})
        }
        "tasks/pushNotificationConfig/get" | "tasks/pushNotificationConfig/delete" => {
            json!({"id": task, "pushNotificationConfigId": "p"})
        }
        "_cleveragents/plan/use" => json!({"name": format!("{namespace}/x")}),
        _ => json!({"id": task}),
    }
}

/// Calls a method over JSON-RPC, and gives what stands for its outcome as a status.
pub(crate) fn call(client: &Client, method: &str, task: &str, namespace: &str) -> u16 {
    let is_old = method.contains('/') && !method.starts_with('_');
    let client = if is_old {
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
        // What comes of the message must not be taken for an effect of what follows.
        stream.rest(&headers, "POST");
    }
    if is_stream || matches!(status, 401 | 429) {
        // The updates of a task that waits do not end: only the beginning is read. Strangers are told by HTTP.
        return status;
    }
    let said: Value = serde_json::from_str(&stream.rest(&headers, "POST")).expect("JSON");
    match said["error"]["code"].as_i64() {
        None => {
            assert!(said.get("result").is_some(), "{method}: {said}");
            200
        }
        Some(-32_012) => 403,
        Some(-32_001 | -32_010) => 404,
        Some(_) => panic!("{method} in {namespace}: {said}"),
    }
}
