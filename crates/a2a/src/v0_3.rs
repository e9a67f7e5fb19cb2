//! Version 0.3, which is supported over JSON-RPC only: conversion of its JSON to and from that of 1.0.
//!
//! A server converts parameters to 1.0 and results from 1.0. A client converts parameters from 1.0; [`crate::agent`]
//! parses results of both versions.

use serde_json::{Map, Value, json};

use crate::card::{AgentCard, Binding, SecurityScheme};
use crate::error::Error;
use crate::fields::Fields;
use crate::method::Method;

/// The version on agent cards of 0.3.
const CARD_VERSION: &str = "0.3.0";

/// Task states in 1.0 and in 0.3.
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

/// Converts parameters of 0.3 to 1.0.
pub fn params_to_v1(
    method: Method,
    params: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let fields = Fields(params);
    let mut converted = Map::new();
    if let Some(metadata) = fields.get("metadata") {
        converted.insert("metadata".to_owned(), metadata.clone());
    }
    match method {
        Method::SendMessage | Method::SendStreamingMessage => {
            if let Some(message) = fields.object("message")? {
                converted.insert("message".to_owned(), message_to_v1(message)?);
            }
            if let Some(given) = fields.object("configuration")? {
                converted.insert("configuration".to_owned(), configuration_to_v1(given)?);
            }
        }
        Method::GetTask | Method::CancelTask | Method::SubscribeToTask => {
            converted.insert("id".to_owned(), fields.required_text("id")?.into());
            history_length_to_v1(fields, &mut converted)?;
        }
        Method::CreatePushConfig => {
            let config = fields
                .object("pushNotificationConfig")?
                .ok_or_else(|| Error::invalid_params("`pushNotificationConfig` is missing"))?;
            converted = push_config_to_v1(config)?;
            converted.insert("taskId".to_owned(), fields.required_text("taskId")?.into());
        }
        Method::GetPushConfig | Method::DeletePushConfig | Method::ListPushConfigs => {
            converted.insert("taskId".to_owned(), fields.required_text("id")?.into());
            if let Some(id) = fields.text("pushNotificationConfigId")? {
                converted.insert("id".to_owned(), id.into());
            }
        }
        Method::ListTasks | Method::GetExtendedAgentCard => {}
    }
    Ok(converted)
}

/// Converts `historyLength`. In 0.3, 0 means all messages.
fn history_length_to_v1(
    fields: Fields<'_>,
    converted: &mut Map<String, Value>,
) -> Result<(), Error> {
    if let Some(length) = fields
        .integer("historyLength")?
        .filter(|length| *length != 0)
    {
        converted.insert("historyLength".to_owned(), length.into());
    }
    Ok(())
}

fn configuration_to_v1(given: Fields<'_>) -> Result<Value, Error> {
    let mut converted = Map::new();
    history_length_to_v1(given, &mut converted)?;
    if given.get("blocking").is_some() {
        let is_immediate = !given.flag("blocking")?;
        converted.insert("returnImmediately".to_owned(), is_immediate.into());
    }
    if let Some(config) = given.object("pushNotificationConfig")? {
        let config = push_config_to_v1(config)?;
        converted.insert(
            "taskPushNotificationConfig".to_owned(),
            Value::Object(config),
        );
    }
    Ok(Value::Object(converted))
}

fn push_config_to_v1(given: Fields<'_>) -> Result<Map<String, Value>, Error> {
    let mut converted = Map::new();
    for name in ["id", "url", "token"] {
        if let Some(value) = given.get(name) {
            converted.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(authentication) = given.object("authentication")? {
        let scheme = authentication.list("schemes")?.first();
        converted.insert(
            "authentication".to_owned(),
            json!({"scheme": scheme, "credentials": authentication.get("credentials")}),
        );
    }
    Ok(converted)
}

fn message_to_v1(given: Fields<'_>) -> Result<Value, Error> {
    let mut converted = given.0.clone();
    converted.remove("kind");
    let role = match given.get("role").and_then(Value::as_str) {
        Some("user") => "ROLE_USER",
        Some("agent") => "ROLE_AGENT",
        _ => {
            return Err(Error::invalid_params(
                "`message.role` must be user or agent",
            ));
        }
    };
    converted.insert("role".to_owned(), role.into());
    let parts = given.list("parts")?.iter().map(part_to_v1);
    converted.insert(
        "parts".to_owned(),
        Value::Array(parts.collect::<Result<_, _>>()?),
    );
    Ok(Value::Object(converted))
}

fn part_to_v1(part: &Value) -> Result<Value, Error> {
    let invalid = || Error::invalid_params("a part must be of kind text, file or data");
    let fields = Fields(part.as_object().ok_or_else(invalid)?);
    let mut converted = Map::new();
    match fields.get("kind").and_then(Value::as_str) {
        Some("text") => {
            let text = fields.get("text").ok_or_else(invalid)?;
            converted.insert("text".to_owned(), text.clone());
        }
        Some("data") => {
            let data = fields.get("data").ok_or_else(invalid)?;
            converted.insert("data".to_owned(), data.clone());
        }
        Some("file") => {
            let file = fields.object("file")?.ok_or_else(invalid)?;
            for (old, new) in [
                ("bytes", "raw"),
                ("uri", "url"),
                ("mimeType", "mediaType"),
                ("name", "filename"),
            ] {
                if let Some(value) = file.get(old) {
                    converted.insert(new.to_owned(), value.clone());
                }
            }
        }
        _ => return Err(invalid()),
    }
    if let Some(metadata) = fields.get("metadata") {
        converted.insert("metadata".to_owned(), metadata.clone());
    }
    Ok(Value::Object(converted))
}

/// Converts the result of a method to 0.3.
pub fn result_from_v1(method: Method, value: &Value) -> Value {
    match method {
        Method::SendMessage | Method::SendStreamingMessage | Method::SubscribeToTask => {
            update_from_v1(value)
        }
        Method::GetTask | Method::CancelTask => task_from_v1(value),
        Method::CreatePushConfig | Method::GetPushConfig => push_config_from_v1(value),
        Method::ListPushConfigs => {
            let configs = value.get("configs").and_then(Value::as_array);
            configs
                .into_iter()
                .flatten()
                .map(push_config_from_v1)
                .collect()
        }
        Method::DeletePushConfig | Method::ListTasks | Method::GetExtendedAgentCard => {
            value.clone()
        }
    }
}

/// Converts a task, a message or an update: without the wrapper of 1.0, with a `kind`.
fn update_from_v1(value: &Value) -> Value {
    if let Some(task) = value.get("task") {
        return task_from_v1(task);
    }
    if let Some(message) = value.get("message") {
        return message_from_v1(message);
    }
    let mut converted = Map::new();
    if let Some(update) = value.get("statusUpdate").and_then(Value::as_object) {
        converted.clone_from(update);
        let state = status_from_v1(&mut converted);
        let is_final = matches!(
            state,
            "completed" | "canceled" | "failed" | "rejected" | "input-required" | "auth-required"
        );
        converted.insert("final".to_owned(), is_final.into());
        converted.insert("kind".to_owned(), "status-update".into());
    } else if let Some(update) = value.get("artifactUpdate").and_then(Value::as_object) {
        converted.clone_from(update);
        if let Some(artifact) = converted.get_mut("artifact") {
            parts_from_v1(artifact);
        }
        converted.insert("kind".to_owned(), "artifact-update".into());
    }
    Value::Object(converted)
}

/// Converts the status in an object, and returns its state.
fn status_from_v1(holder: &mut Map<String, Value>) -> &'static str {
    let Some(Value::Object(status)) = holder.get_mut("status") else {
        return "unknown";
    };
    let state = status.get("state").and_then(Value::as_str);
    let name = STATES
        .iter()
        .find(|(new, _)| state == Some(new))
        .map_or("unknown", |(_, old)| old);
    status.insert("state".to_owned(), name.into());
    if let Some(message) = status.get_mut("message") {
        *message = message_from_v1(message);
    }
    name
}

/// Converts a task to 0.3.
pub fn task_from_v1(value: &Value) -> Value {
    let mut converted = value.clone();
    if let Some(fields) = converted.as_object_mut() {
        status_from_v1(fields);
    }
    if let Some(messages) = converted.get_mut("history").and_then(Value::as_array_mut) {
        for message in messages {
            *message = message_from_v1(message);
        }
    }
    if let Some(artifacts) = converted.get_mut("artifacts").and_then(Value::as_array_mut) {
        artifacts.iter_mut().for_each(parts_from_v1);
    }
    converted["kind"] = "task".into();
    converted
}

fn message_from_v1(value: &Value) -> Value {
    let mut converted = value.clone();
    let is_user = value.get("role").and_then(Value::as_str) == Some("ROLE_USER");
    converted["role"] = if is_user { "user" } else { "agent" }.into();
    parts_from_v1(&mut converted);
    converted["kind"] = "message".into();
    converted
}

/// Converts the parts of a message or an artifact.
fn parts_from_v1(holder: &mut Value) {
    let Some(parts) = holder.get_mut("parts").and_then(Value::as_array_mut) else {
        return;
    };
    for part in parts {
        let Some(fields) = part.as_object() else {
            continue;
        };
        let mut converted = Map::new();
        if let Some(text) = fields.get("text") {
            converted.insert("kind".to_owned(), "text".into());
            converted.insert("text".to_owned(), text.clone());
        } else if let Some(data) = fields.get("data") {
            converted.insert("kind".to_owned(), "data".into());
            let data = if data.is_object() {
                data.clone()
            } else {
                json!({"value": data})
            };
            converted.insert("data".to_owned(), data);
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
            converted.insert("kind".to_owned(), "file".into());
            converted.insert("file".to_owned(), Value::Object(file));
        }
        if let Some(metadata) = fields.get("metadata") {
            converted.insert("metadata".to_owned(), metadata.clone());
        }
        *part = Value::Object(converted);
    }
}

fn push_config_from_v1(value: &Value) -> Value {
    let mut config = value.as_object().cloned().unwrap_or_default();
    let task = config.remove("taskId");
    if let Some(Value::Object(authentication)) = config.get_mut("authentication")
        && let Some(scheme) = authentication.remove("scheme")
    {
        authentication.insert("schemes".to_owned(), json!([scheme]));
    }
    json!({"taskId": task, "pushNotificationConfig": config})
}

/// Converts parameters of 1.0, as a client builds them, to 0.3.
pub fn params_from_v1(mut params: Value) -> Value {
    if let Some(message) = params.get_mut("message") {
        *message = message_from_v1(message);
    }
    if let Some(Value::Object(configuration)) = params.get_mut("configuration")
        && let Some(Value::Bool(is_immediate)) = configuration.remove("returnImmediately")
    {
        configuration.insert("blocking".to_owned(), (!is_immediate).into());
    }
    params
}

/// Converts a card to 0.3. Its URL is that of the JSON-RPC interface.
pub fn card(card: &AgentCard) -> Value {
    let mut interfaces = card.supported_interfaces.iter();
    let url = interfaces
        .find(|interface| interface.protocol_binding == Binding::JsonRpc)
        .map(|interface| interface.url.as_str());
    let transport = Binding::JsonRpc.as_str();
    let capabilities = &card.capabilities;
    let mut converted = json!({
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "protocolVersion": CARD_VERSION,
        "url": url,
        "preferredTransport": transport,
        "additionalInterfaces": [{"url": url, "transport": transport}],
        "capabilities": {
            "streaming": capabilities.streaming,
            "pushNotifications": capabilities.push_notifications,
            "stateTransitionHistory": false,
        },
        "supportsAuthenticatedExtendedCard": capabilities.extended_agent_card,
        "defaultInputModes": card.default_input_modes,
        "defaultOutputModes": card.default_output_modes,
        "skills": card.skills,
    });
    if !card.security_schemes.is_empty() {
        converted["securitySchemes"] = card
            .security_schemes
            .iter()
            .filter_map(|(name, scheme)| Some((name.clone(), security_scheme(scheme)?)))
            .collect();
    }
    if !card.security_requirements.is_empty() {
        converted["security"] = card
            .security_requirements
            .iter()
            .map(|requirement| json!({&requirement.scheme: requirement.scopes}))
            .collect();
    }
    converted
}

/// Converts a security scheme; `None` for schemes that need data that [`SecurityScheme`] does not contain.
fn security_scheme(scheme: &SecurityScheme) -> Option<Value> {
    match scheme {
        SecurityScheme::HttpAuth { scheme } => {
            Some(json!({"type": "http", "scheme": scheme.to_ascii_lowercase()}))
        }
        SecurityScheme::ApiKey { location, name } => {
            Some(json!({"type": "apiKey", "in": location, "name": name}))
        }
        SecurityScheme::OAuth2 {} | SecurityScheme::OpenIdConnect {} => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Method, card, params_from_v1, params_to_v1, result_from_v1};
    use serde_json::{Value, json};

    fn to_v1(method: Method, params: &Value) -> Value {
        let params = params.as_object().expect("an object");
        Value::Object(params_to_v1(method, params).expect("readable"))
    }

    #[test]
    fn parameters_are_converted_to_1_0() {
        let message = json!({
            "kind": "message", "messageId": "m", "role": "user", "parts": [
                {"kind": "text", "text": "hi"},
                {"kind": "file", "file": {"bytes": "YQ==", "mimeType": "text/plain", "name": "a"}},
                {"kind": "data", "data": {"k": 1}},
            ],
        });
        let params = json!({"message": message, "configuration": {
            "blocking": false, "historyLength": 0,
            "pushNotificationConfig": {"url": "u", "authentication": {"schemes": ["Bearer"]}},
        }});
        let converted = to_v1(Method::SendMessage, &params);
        assert_eq!(
            converted["message"]["parts"],
            json!([
                {"text": "hi"},
                {"raw": "YQ==", "mediaType": "text/plain", "filename": "a"},
                {"data": {"k": 1}},
            ])
        );
        assert_eq!(converted["message"]["role"], "ROLE_USER");
        assert_eq!(converted["configuration"]["returnImmediately"], true);
        assert!(converted["configuration"].get("historyLength").is_none());
        let push = &converted["configuration"]["taskPushNotificationConfig"];
        assert_eq!(push["authentication"]["scheme"], "Bearer");
    }

    #[test]
    fn results_are_converted_from_1_0() {
        let status = json!({"state": "TASK_STATE_INPUT_REQUIRED", "message": {
            "messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "?"}],
        }});
        let reported = result_from_v1(
            Method::SendStreamingMessage,
            &json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}),
        );
        assert_eq!(reported["kind"], "status-update");
        assert_eq!(reported["final"], true);
        assert_eq!(reported["status"]["state"], "input-required");
        assert_eq!(reported["status"]["message"]["kind"], "message");
        assert_eq!(reported["status"]["message"]["parts"][0]["kind"], "text");
        let listed = result_from_v1(
            Method::ListPushConfigs,
            &json!({"configs": [{"taskId": "t", "url": "u"}]}),
        );
        assert_eq!(
            listed,
            json!([{"taskId": "t", "pushNotificationConfig": {"url": "u"}}])
        );
    }

    #[test]
    fn parameters_of_a_client_round_trip_through_both_conversions() {
        let params = json!({
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "contextId": "c"},
            "configuration": {"returnImmediately": true},
        });
        let old = params_from_v1(params.clone());
        assert_eq!(old["message"]["kind"], "message");
        assert_eq!(old["message"]["role"], "user");
        assert_eq!(
            old["message"]["parts"],
            json!([{"kind": "text", "text": "hi"}])
        );
        assert_eq!(old["configuration"], json!({"blocking": false}));
        assert_eq!(to_v1(Method::SendMessage, &old), params);
    }

    #[test]
    fn the_card_is_converted() {
        let card = card(&crate::card::tests::card());
        assert_eq!(
            card,
            json!({
                "name": "Agent", "description": "Answers", "version": "1.2.3",
                "protocolVersion": "0.3.0", "url": "https://a.example/a2a",
                "preferredTransport": "JSONRPC",
                "additionalInterfaces": [{"url": "https://a.example/a2a", "transport": "JSONRPC"}],
                "capabilities": {
                    "streaming": true, "pushNotifications": true, "stateTransitionHistory": false,
                },
                "supportsAuthenticatedExtendedCard": true,
                "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "chat", "name": "Chat", "tags": ["chat"], "description": "Chats"}],
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
                "security": [{"bearer": []}],
            })
        );
    }
}
