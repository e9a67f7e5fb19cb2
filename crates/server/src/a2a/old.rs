//! A2A 0.3 over JSON-RPC: what its callers send, made into 1.0, and what they are sent, made from 1.0.

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::method::Act;
use super::wire::Fields;

/// Marks what was asked for in 0.3, where that matters later.
pub(super) const MARK: &str = "_old";

const STATES: [(&str, &str); 9] = [
    ("TASK_STATE_SUBMITTED", "submitted"),
    ("TASK_STATE_WORKING", "working"),
    ("TASK_STATE_INPUT_REQUIRED", "input-required"),
    ("TASK_STATE_COMPLETED", "completed"),
    ("TASK_STATE_CANCELED", "canceled"),
    ("TASK_STATE_FAILED", "failed"),
    ("TASK_STATE_REJECTED", "rejected"),
    ("TASK_STATE_AUTH_REQUIRED", "auth-required"),
    ("TASK_STATE_UNSPECIFIED", "unknown"),
];

/// Parameters of 0.3 as those of 1.0.
pub(super) fn params(act: Act, params: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
    let fields = Fields(params);
    let mut made = Map::new();
    if let Some(metadata) = fields.get("metadata") {
        made.insert("metadata".to_owned(), metadata.clone());
    }
    match act {
        Act::Send | Act::SendStreaming => {
            if let Some(message) = fields.within("message")? {
                made.insert("message".to_owned(), message_of(message)?);
            }
            if let Some(given) = fields.within("configuration")? {
                made.insert("configuration".to_owned(), configuration(given)?);
            }
        }
        Act::Get | Act::Cancel | Act::Subscribe => {
            made.insert("id".to_owned(), fields.needed("id")?.into());
            history(fields, &mut made)?;
        }
        Act::PushCreate => {
            let config = fields
                .within("pushNotificationConfig")?
                .ok_or_else(|| Fault::params("`pushNotificationConfig` is missing"))?;
            made = push_config(config)?;
            made.insert("taskId".to_owned(), fields.needed("taskId")?.into());
        }
        Act::PushGet | Act::PushDelete | Act::PushList => {
            made.insert("taskId".to_owned(), fields.needed("id")?.into());
            if let Some(id) = fields.text("pushNotificationConfigId")? {
                made.insert("id".to_owned(), id.into());
            }
            made.insert(MARK.to_owned(), true.into());
        }
        Act::List | Act::Card => {}
    }
    Ok(made)
}

/// How much of what was said: 0 is all of it in 0.3.
fn history(fields: Fields<'_>, made: &mut Map<String, Value>) -> Result<(), Fault> {
    if let Some(length) = fields
        .number("historyLength")?
        .filter(|length| *length != 0)
    {
        made.insert("historyLength".to_owned(), length.into());
    }
    Ok(())
}

fn configuration(given: Fields<'_>) -> Result<Value, Fault> {
    let mut made = Map::new();
    history(given, &mut made)?;
    if given.get("blocking").is_some() {
        let is_immediate = !given.flag("blocking")?;
        made.insert("returnImmediately".to_owned(), is_immediate.into());
    }
    if let Some(config) = given.within("pushNotificationConfig")? {
        let config = push_config(config)?;
        made.insert(
            "taskPushNotificationConfig".to_owned(),
            Value::Object(config),
        );
    }
    Ok(Value::Object(made))
}

fn push_config(given: Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let mut made = Map::new();
    for name in ["id", "url", "token"] {
        if let Some(value) = given.get(name) {
            made.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(authentication) = given.within("authentication")? {
        let scheme = authentication.list("schemes")?.first();
        made.insert(
            "authentication".to_owned(),
            json!({"scheme": scheme, "credentials": authentication.get("credentials")}),
        );
    }
    made.insert(MARK.to_owned(), true.into());
    Ok(made)
}

fn message_of(given: Fields<'_>) -> Result<Value, Fault> {
    let mut made = given.0.clone();
    made.remove("kind");
    let role = match given.get("role").and_then(Value::as_str) {
        Some("user") => "ROLE_USER",
        Some("agent") => "ROLE_AGENT",
        _ => return Err(Fault::params("`message.role` must be user or agent")),
    };
    made.insert("role".to_owned(), role.into());
    let parts = given.list("parts")?.iter().map(part_of);
    made.insert(
        "parts".to_owned(),
        Value::Array(parts.collect::<Result<_, _>>()?),
    );
    Ok(Value::Object(made))
}

fn part_of(part: &Value) -> Result<Value, Fault> {
    let wrong = || Fault::params("a part must be of kind text, file or data");
    let fields = Fields(part.as_object().ok_or_else(wrong)?);
    let mut made = Map::new();
    match fields.get("kind").and_then(Value::as_str) {
        Some("text") => {
            let text = fields.get("text").ok_or_else(wrong)?;
            made.insert("text".to_owned(), text.clone());
        }
        Some("data") => {
            let data = fields.get("data").ok_or_else(wrong)?;
            made.insert("data".to_owned(), data.clone());
        }
        Some("file") => {
            let file = fields.within("file")?.ok_or_else(wrong)?;
            for (old, new) in [
                ("bytes", "raw"),
                ("uri", "url"),
                ("mimeType", "mediaType"),
                ("name", "filename"),
            ] {
                if let Some(value) = file.get(old) {
                    made.insert(new.to_owned(), value.clone());
                }
            }
        }
        _ => return Err(wrong()),
    }
    if let Some(metadata) = fields.get("metadata") {
        made.insert("metadata".to_owned(), metadata.clone());
    }
    Ok(Value::Object(made))
}

/// What a method gives, as 0.3 writes it.
pub(super) fn result(act: Act, value: &Value) -> Value {
    match act {
        Act::Send | Act::SendStreaming | Act::Subscribe => update(value),
        Act::Get | Act::Cancel => task(value),
        Act::PushCreate | Act::PushGet => push(value),
        Act::PushList => {
            let configs = value.get("configs").and_then(Value::as_array);
            configs.into_iter().flatten().map(push).collect()
        }
        Act::PushDelete | Act::List | Act::Card => value.clone(),
    }
}

/// A task, a message or an update: bare, and of a kind.
fn update(value: &Value) -> Value {
    if let Some(found) = value.get("task") {
        return task(found);
    }
    if let Some(found) = value.get("message") {
        return message(found);
    }
    let mut made = Map::new();
    if let Some(found) = value.get("statusUpdate").and_then(Value::as_object) {
        made.clone_from(found);
        let state = status(&mut made);
        let is_final = matches!(
            state,
            "completed" | "canceled" | "failed" | "rejected" | "input-required" | "auth-required"
        );
        made.insert("final".to_owned(), is_final.into());
        made.insert("kind".to_owned(), "status-update".into());
    } else if let Some(found) = value.get("artifactUpdate").and_then(Value::as_object) {
        made.clone_from(found);
        if let Some(artifact) = made.get_mut("artifact") {
            parts(artifact);
        }
        made.insert("kind".to_owned(), "artifact-update".into());
    }
    Value::Object(made)
}

/// Writes a status as 0.3 does, and gives its state.
fn status(holder: &mut Map<String, Value>) -> &'static str {
    let Some(Value::Object(status)) = holder.get_mut("status") else {
        return "unknown";
    };
    let state = status.get("state").and_then(Value::as_str);
    let name = STATES
        .iter()
        .find(|(new, _)| state == Some(new))
        .map_or("unknown", |(_, old)| old);
    status.insert("state".to_owned(), name.into());
    if let Some(said) = status.get_mut("message") {
        *said = message(said);
    }
    name
}

/// A task.
pub(super) fn task(value: &Value) -> Value {
    let mut made = value.clone();
    if let Some(fields) = made.as_object_mut() {
        status(fields);
    }
    if let Some(said) = made.get_mut("history").and_then(Value::as_array_mut) {
        for one in said {
            *one = message(one);
        }
    }
    if let Some(all) = made.get_mut("artifacts").and_then(Value::as_array_mut) {
        all.iter_mut().for_each(parts);
    }
    made["kind"] = "task".into();
    made
}

fn message(value: &Value) -> Value {
    let mut made = value.clone();
    let is_user = value.get("role").and_then(Value::as_str) == Some("ROLE_USER");
    made["role"] = if is_user { "user" } else { "agent" }.into();
    parts(&mut made);
    made["kind"] = "message".into();
    made
}

/// Writes the parts of a message or a result as 0.3 does.
fn parts(holder: &mut Value) {
    let Some(parts) = holder.get_mut("parts").and_then(Value::as_array_mut) else {
        return;
    };
    for part in parts {
        let Some(fields) = part.as_object() else {
            continue;
        };
        let mut made = Map::new();
        if let Some(text) = fields.get("text") {
            made.insert("kind".to_owned(), "text".into());
            made.insert("text".to_owned(), text.clone());
        } else if let Some(data) = fields.get("data") {
            made.insert("kind".to_owned(), "data".into());
            let data = if data.is_object() {
                data.clone()
            } else {
                json!({"value": data})
            };
            made.insert("data".to_owned(), data);
        } else {
            let mut file = Map::new();
            for (new, old) in [
                ("raw", "bytes"),
                ("url", "uri"),
                ("mediaType", "mimeType"),
                ("filename", "name"),
            ] {
                if let Some(value) = fields.get(new) {
                    file.insert(old.to_owned(), value.clone());
                }
            }
            made.insert("kind".to_owned(), "file".into());
            made.insert("file".to_owned(), Value::Object(file));
        }
        if let Some(metadata) = fields.get("metadata") {
            made.insert("metadata".to_owned(), metadata.clone());
        }
        *part = Value::Object(made);
    }
}

fn push(value: &Value) -> Value {
    let mut config = value.as_object().cloned().unwrap_or_default();
    let task = config.remove("taskId");
    if let Some(Value::Object(authentication)) = config.get_mut("authentication")
        && let Some(scheme) = authentication.remove("scheme")
    {
        authentication.insert("schemes".to_owned(), json!([scheme]));
    }
    json!({"taskId": task, "pushNotificationConfig": config})
}

#[cfg(test)]
mod tests {
    use super::{Act, params, result};
    use serde_json::{Value, json};

    fn made(act: Act, given: &Value) -> Value {
        let given = given.as_object().expect("an object");
        Value::Object(params(act, given).expect("readable"))
    }

    #[test]
    fn what_0_3_sends_becomes_1_0() {
        let message = json!({
            "kind": "message", "messageId": "m", "role": "user", "parts": [
                {"kind": "text", "text": "hi"},
                {"kind": "file", "file": {"bytes": "YQ==", "mimeType": "text/plain", "name": "a"}},
                {"kind": "data", "data": {"k": 1}},
            ],
        });
        let given = json!({"message": message, "configuration": {
            "blocking": false, "historyLength": 0,
            "pushNotificationConfig": {"url": "u", "authentication": {"schemes": ["Bearer"]}},
        }});
        let made = made(Act::Send, &given);
        assert_eq!(
            made["message"]["parts"],
            json!([
                {"text": "hi"},
                {"raw": "YQ==", "mediaType": "text/plain", "filename": "a"},
                {"data": {"k": 1}},
            ])
        );
        assert_eq!(made["message"]["role"], "ROLE_USER");
        assert_eq!(made["configuration"]["returnImmediately"], true);
        assert!(made["configuration"].get("historyLength").is_none());
        let push = &made["configuration"]["taskPushNotificationConfig"];
        assert_eq!(push["authentication"]["scheme"], "Bearer");
    }

    #[test]
    fn what_1_0_gives_becomes_0_3() {
        let status = json!({"state": "TASK_STATE_INPUT_REQUIRED", "message": {
            "messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "?"}],
        }});
        let told = result(
            Act::SendStreaming,
            &json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}),
        );
        assert_eq!(told["kind"], "status-update");
        assert_eq!(told["final"], true);
        assert_eq!(told["status"]["state"], "input-required");
        assert_eq!(told["status"]["message"]["kind"], "message");
        assert_eq!(told["status"]["message"]["parts"][0]["kind"], "text");
        let listed = result(
            Act::PushList,
            &json!({"configs": [{"taskId": "t", "url": "u"}]}),
        );
        assert_eq!(
            listed,
            json!([{"taskId": "t", "pushNotificationConfig": {"url": "u"}}])
        );
    }
}
