//! The JSON of A2A 1.0: reading what callers send, leniently, and making what they are sent, strictly.
//!
//! Callers may write `taskId` or `task_id`, numbers as text and `null` for nothing; unknown fields are passed over.
//! What is sent has the names of the protocol, and nothing else.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cleveragents_domain::{MessageId, TaskState, Timestamp};
use cleveragents_store::tasks::{self, Task};
use cleveragents_store::{Error, Reader};
use serde_json::{Map, Value, json};

use super::fault::{Fault, Reason};

/// The longest id that a caller may choose.
const LONGEST_ID: usize = 512;

/// What callers may send. Everything is made text in the end.
pub(crate) const INPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// Fields that a caller sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Map<String, Value>);

/// `taskId` as `task_id`.
fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

impl<'a> Fields<'a> {
    /// A field; nothing when it is absent or `null`.
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0
            .get(name)
            .or_else(|| self.0.get(&snake(name)))
            .filter(|value| !value.is_null())
    }

    /// A text; nothing when it is empty.
    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    /// A text that must be there.
    pub(crate) fn needed(self, name: &str) -> Result<&'a str, Fault> {
        self.text(name)?
            .ok_or_else(|| Fault::params(format!("`{name}` is missing")))
    }

    /// An id that the caller chose.
    pub(crate) fn id(self, name: &str) -> Result<Option<&'a str>, Fault> {
        let found = self.text(name)?;
        match found {
            Some(text) if text.len() > LONGEST_ID || text.chars().any(char::is_control) => {
                Err(wrong(name, "an id of at most 512 bytes"))
            }
            found => Ok(found),
        }
    }

    /// A whole number.
    pub(crate) fn number(self, name: &str) -> Result<Option<i64>, Fault> {
        let found = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_i64().or_else(|| {
                let number = number.as_f64()?;
                // A number such as 2.0 is a whole one too.
                #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
                (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
            }),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        found.map(Some).ok_or_else(|| wrong(name, "a whole number"))
    }

    /// Yes or no; no when it is absent.
    pub(crate) fn flag(self, name: &str) -> Result<bool, Fault> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// Fields within.
    pub(crate) fn within(self, name: &str) -> Result<Option<Self>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields))),
            Some(_) => Err(wrong(name, "an object")),
        }
    }

    /// A list; empty when it is absent.
    pub(crate) fn list(self, name: &str) -> Result<&'a [Value], Fault> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(wrong(name, "a list")),
        }
    }

    /// How much of what was said is wanted; all of it when nothing is said.
    pub(crate) fn history(self) -> Result<Option<u64>, Fault> {
        self.number("historyLength")?
            .map(|number| u64::try_from(number).map_err(|_| wrong("historyLength", "0 or more")))
            .transpose()
    }
}

fn wrong(name: &str, wanted: &str) -> Fault {
    Fault::params(format!("`{name}` must be {wanted}")).with("field", name)
}

/// A message that a caller sent.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) id: String,
    pub(crate) context: Option<String>,
    pub(crate) task: Option<String>,
    /// As they are stored and sent on.
    pub(crate) parts: Vec<Value>,
    role: &'static str,
    metadata: Option<Map<String, Value>>,
    rest: Map<String, Value>,
}

impl Incoming {
    /// Reads a message.
    pub(crate) fn read(fields: Fields<'_>) -> Result<Self, Fault> {
        let id = fields
            .id("messageId")?
            .ok_or_else(|| Fault::params("`message.messageId` is missing"))?;
        let role = match fields.get("role") {
            Some(Value::String(text)) if text == "ROLE_USER" => "ROLE_USER",
            Some(Value::String(text)) if text == "ROLE_AGENT" => "ROLE_AGENT",
            Some(Value::Number(number)) if number.as_i64() == Some(1) => "ROLE_USER",
            Some(Value::Number(number)) if number.as_i64() == Some(2) => "ROLE_AGENT",
            _ => {
                return Err(Fault::params(
                    "`message.role` must be ROLE_USER or ROLE_AGENT",
                ));
            }
        };
        let parts = fields
            .list("parts")?
            .iter()
            .map(part)
            .collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() {
            return Err(Fault::params("`message.parts` is empty"));
        }
        let mut rest = Map::new();
        for name in ["extensions", "referenceTaskIds"] {
            let items = fields.list(name)?;
            if !items.iter().all(Value::is_string) {
                return Err(wrong(name, "a list of texts"));
            }
            if !items.is_empty() {
                rest.insert(name.to_owned(), Value::Array(items.to_vec()));
            }
        }
        Ok(Self {
            id: id.to_owned(),
            context: fields.id("contextId")?.map(str::to_owned),
            task: fields.id("taskId")?.map(str::to_owned),
            parts,
            role,
            metadata: fields.within("metadata")?.map(|fields| fields.0.clone()),
            rest,
        })
    }

    /// As it is stored and sent on.
    pub(crate) fn document(&self, context: &str, task: &str) -> Value {
        let mut document = json!({
            "messageId": self.id, "role": self.role, "parts": self.parts,
            "contextId": context, "taskId": task,
        });
        if let (Some(metadata), Some(object)) = (&self.metadata, document.as_object_mut()) {
            object.insert("metadata".to_owned(), Value::Object(metadata.clone()));
        }
        if let Some(object) = document.as_object_mut() {
            object.extend(self.rest.clone());
        }
        document
    }

    /// What is meant for us: `cleveragents` of the metadata, or of a part that is data.
    pub(crate) fn own(&self) -> Option<&Map<String, Value>> {
        let named = |fields: &'_ Map<String, Value>| fields.contains_key("cleveragents");
        let of_parts = self
            .parts
            .iter()
            .filter_map(|part| part.get("data")?.as_object());
        let mut all = self.metadata.iter().chain(of_parts);
        all.find(|fields| named(fields))?
            .get("cleveragents")?
            .as_object()
    }

    /// Checks that every part is of a kind that is taken.
    pub(crate) fn check_kinds(&self) -> Result<(), Fault> {
        for part in &self.parts {
            let Some(kind) = part.get("mediaType").and_then(Value::as_str) else {
                continue;
            };
            let plain = kind.split(';').next().unwrap_or_default().trim();
            if !INPUT_MODES
                .iter()
                .any(|mode| mode.eq_ignore_ascii_case(plain))
            {
                let message = format!("parts must be {}", INPUT_MODES.join(" or "));
                return Err(Fault::new(Reason::ContentType, message));
            }
        }
        Ok(())
    }

    /// All of it as text.
    pub(crate) fn as_text(&self) -> Result<String, Fault> {
        text_of(&self.parts)
            .ok_or_else(|| Fault::new(Reason::ContentType, "a file must hold text in UTF-8"))
    }
}

/// The text of parts; nothing when one of them is no text.
pub(crate) fn text_of(parts: &[Value]) -> Option<String> {
    let mut texts = Vec::new();
    for part in parts {
        let named = |name| part.get(name).and_then(Value::as_str);
        if let Some(text) = named("text").or_else(|| named("url")) {
            texts.push(text.to_owned());
        } else if let Some(raw) = named("raw") {
            texts.push(String::from_utf8(LENIENT.decode(raw).ok()?).ok()?);
        } else if let Some(data) = part.get("data") {
            // What is meant for us is not for the model.
            if data.get("cleveragents").is_none() {
                texts.push(data.to_string());
            }
        }
    }
    Some(texts.join("\n"))
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads a part: exactly one of the contents, and what is said about it.
fn part(value: &Value) -> Result<Value, Fault> {
    let Value::Object(object) = value else {
        return Err(wrong("parts", "a list of objects"));
    };
    let fields = Fields(object);
    let mut read = Map::new();
    for name in ["text", "url"] {
        if let Some(value) = fields.get(name) {
            let text = value.as_str().ok_or_else(|| wrong(name, "a text"))?;
            read.insert(name.to_owned(), text.into());
        }
    }
    if let Some(value) = fields.get("raw") {
        let text = value.as_str().ok_or_else(|| wrong("raw", "base64"))?;
        let standard = text.replace('-', "+").replace('_', "/");
        let bytes = LENIENT
            .decode(standard)
            .map_err(|_| wrong("raw", "base64"))?;
        let again = base64::engine::general_purpose::STANDARD.encode(bytes);
        read.insert("raw".to_owned(), again.into());
    }
    // Data may be `null`, too.
    if let Some(data) = object.get("data") {
        read.insert("data".to_owned(), data.clone());
    }
    if read.len() != 1 {
        let contents = "`text`, `raw`, `url` and `data`";
        return Err(Fault::params(format!(
            "a part must have exactly one of {contents}"
        )));
    }
    for name in ["filename", "mediaType"] {
        if let Some(text) = fields.text(name)? {
            read.insert(name.to_owned(), text.into());
        }
    }
    if let Some(metadata) = fields.within("metadata")? {
        read.insert("metadata".to_owned(), Value::Object(metadata.0.clone()));
    }
    Ok(Value::Object(read))
}

/// A state as the protocol writes it.
pub(crate) fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "TASK_STATE_SUBMITTED",
        TaskState::Working => "TASK_STATE_WORKING",
        TaskState::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        TaskState::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
        TaskState::Completed => "TASK_STATE_COMPLETED",
        TaskState::Failed => "TASK_STATE_FAILED",
        TaskState::Canceled => "TASK_STATE_CANCELED",
        TaskState::Rejected => "TASK_STATE_REJECTED",
    }
}

/// The numbers of the states.
const NUMBERED: [TaskState; 8] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::InputRequired,
    TaskState::Rejected,
    TaskState::AuthRequired,
];

/// Reads a state, by name or by number. 0 is none.
pub(crate) fn state(value: &Value) -> Result<Option<TaskState>, Fault> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) if text == "TASK_STATE_UNSPECIFIED" || text.is_empty() => Some(0),
        Value::String(text) => NUMBERED
            .iter()
            .position(|state| state_name(*state) == text)
            .map(|index| index as u64 + 1)
            .or_else(|| text.parse().ok()),
        _ => None,
    };
    match number {
        Some(0) => Ok(None),
        Some(number) => usize::try_from(number - 1)
            .ok()
            .and_then(|index| NUMBERED.get(index))
            .map(|state| Some(*state))
            .ok_or_else(|| wrong("status", "a state of a task")),
        None => Err(wrong("status", "a state of a task")),
    }
}

/// A moment as the protocol writes it.
fn moment(time: Timestamp) -> String {
    time.to_string()
}

/// Something that the agent says.
pub(crate) fn say(task: &Task, text: &str) -> Value {
    said(&task.context, Some(&task.id.to_string()), text)
}

/// Something that the agent says, with or without a task.
pub(crate) fn said(context: &str, task: Option<&str>, text: &str) -> Value {
    let mut message = json!({
        "messageId": MessageId::generate().to_string(), "role": "ROLE_AGENT",
        "parts": [{"text": text}], "contextId": context,
    });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    message
}

fn status(task: &Task) -> Value {
    let mut status = json!({"state": state_name(task.state), "timestamp": moment(task.status_at)});
    if let Some(message) = &task.status_message {
        status["message"] = message.clone();
    }
    status
}

/// That the state of a task changed.
pub(crate) fn status_update(task: &Task) -> Value {
    json!({"statusUpdate": {
        "taskId": task.id, "contextId": task.context, "status": status(task),
    }})
}

/// That a piece of a result is there.
pub(crate) fn artifact_update(
    task: &Task,
    artifact: &Value,
    is_appended: bool,
    is_last: bool,
) -> Value {
    let mut update = json!({
        "taskId": task.id, "contextId": task.context, "artifact": artifact,
    });
    if is_appended {
        update["append"] = true.into();
    }
    if is_last {
        update["lastChunk"] = true.into();
    }
    json!({"artifactUpdate": update})
}

/// A task with what was said and what came of it.
pub(crate) fn document(
    reader: &mut dyn Reader,
    task: &Task,
    history: Option<u64>,
    with_artifacts: bool,
) -> Result<Value, Error> {
    let mut document = json!({
        "id": task.id, "contextId": task.context, "status": status(task),
    });
    if with_artifacts {
        let artifacts = tasks::artifacts(reader, task.id)?;
        if !artifacts.is_empty() {
            document["artifacts"] = artifacts.into();
        }
    }
    if history != Some(0) {
        let said = tasks::messages(reader, task.id, history)?;
        if !said.is_empty() {
            document["history"] = said.into();
        }
    }
    if task.kind == cleveragents_domain::TaskKind::Plan && task.subject != "-" {
        document["metadata"] = json!({"planId": task.subject});
    }
    Ok(document)
}

/// The state that an update tells of.
pub(crate) fn told_state(update: &Value) -> Option<TaskState> {
    let status = update
        .pointer("/statusUpdate/status/state")
        .or_else(|| update.pointer("/task/status/state"))?;
    state(status).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::{Fields, Incoming, snake, state, text_of};
    use serde_json::{Value, json};

    fn read(value: &Value) -> Result<Incoming, super::Fault> {
        Incoming::read(Fields(value.as_object().expect("an object")))
    }

    #[test]
    fn both_spellings_are_read_and_one_is_written() {
        assert_eq!(snake("statusTimestampAfter"), "status_timestamp_after");
        let message = read(&json!({
            "message_id": "m", "role": 1, "context_id": "c", "task_id": null, "unknown": 1,
            "parts": [{"text": "hi", "media_type": "text/plain", "url": null, "kind": "text"}],
            "reference_task_ids": ["t"],
        }))
        .expect("a message");
        assert_eq!(
            message.document("c", "t"),
            json!({
                "messageId": "m", "role": "ROLE_USER", "contextId": "c", "taskId": "t",
                "parts": [{"text": "hi", "mediaType": "text/plain"}], "referenceTaskIds": ["t"],
            })
        );
    }

    #[test]
    fn wrong_messages_are_refused() {
        let good = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": ""}]});
        assert!(read(&good).is_ok());
        let changes: [(&str, Value); 8] = [
            ("messageId", json!("")),
            ("messageId", json!("a\u{0}b")),
            ("role", json!("ROLE_UNSPECIFIED")),
            ("role", json!("user")),
            ("parts", json!([])),
            ("parts", json!([{"text": "a", "raw": "YQ=="}])),
            ("parts", json!([{"raw": "%"}])),
            ("parts", json!(["a"])),
        ];
        for (name, value) in changes {
            let mut message = good.clone();
            message[name] = value;
            assert!(read(&message).is_err(), "{message}");
        }
    }

    #[test]
    fn parts_become_text() {
        let message = read(&json!({"messageId": "m", "role": "ROLE_USER", "parts": [
            {"text": "a"}, {"raw": "w6Q"}, {"data": {"k": 1}}, {"data": {"cleveragents": {}}},
        ]}))
        .expect("a message");
        assert_eq!(text_of(&message.parts).as_deref(), Some("a\nä\n{\"k\":1}"));
        assert!(text_of(&[json!({"raw": "/w=="})]).is_none());
    }

    #[test]
    fn states_are_read_by_name_and_number() {
        for known in cleveragents_domain::TaskState::ALL {
            let name = json!(super::state_name(known));
            assert_eq!(state(&name).expect("a state"), Some(known));
        }
        assert_eq!(
            state(&json!(3)).expect("a state"),
            Some(cleveragents_domain::TaskState::Completed)
        );
        assert_eq!(state(&json!(0)).expect("none"), None);
        assert!(state(&json!("completed")).is_err());
        assert!(state(&json!(9)).is_err());
    }
}
