//! Parses the responses of other agents, in either version. Fields that the client does not need may be missing.

use cleveragents_domain::TaskState;
use serde_json::Value;

use crate::message::{Message, Part, PartContent, Role};
use crate::task::{Artifact, ArtifactUpdate, StatusUpdate, StreamResponse, Task, TaskStatus};

/// Maximum length of an unknown state in an error, in characters.
const MAX_SHOWN: usize = 40;

/// An unusable response of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is neither a task, a message nor an update.
    #[error("it sent something that is neither a task, a message nor an update")]
    UnknownKind,
    /// The state of the task is unknown.
    #[error("its task has the unknown state `{0}`")]
    UnknownState(String),
    /// An artifact update lacks the artifact.
    #[error("it sent an artifact update without an artifact")]
    MissingArtifact,
}

/// Parses the result of a method, or an event of a stream: wrapped as in 1.0, with a `kind` as in 0.3, or a bare task.
pub fn read_response(value: &Value) -> Result<StreamResponse, ReadError> {
    if let Some(task) = value.get("task").filter(|task| task.is_object()) {
        return Ok(StreamResponse::Task(read_task(task)?));
    }
    if let Some(message) = value.get("message").filter(|message| message.is_object())
        && value.get("status").is_none()
    {
        return Ok(StreamResponse::Message(read_message(message)));
    }
    if let Some(update) = value.get("statusUpdate") {
        return read_status_update(update);
    }
    if let Some(update) = value.get("artifactUpdate") {
        return read_artifact_update(update);
    }
    match value["kind"].as_str() {
        Some("message") => Ok(StreamResponse::Message(read_message(value))),
        Some("status-update") => read_status_update(value),
        Some("artifact-update") => read_artifact_update(value),
        _ if value["status"].is_object() => Ok(StreamResponse::Task(read_task(value)?)),
        _ => Err(ReadError::UnknownKind),
    }
}

fn read_task(task: &Value) -> Result<Task, ReadError> {
    let list = |name: &str| task[name].as_array().into_iter().flatten();
    Ok(Task {
        id: text(&task["id"]).unwrap_or_default(),
        context_id: text(&task["contextId"]).unwrap_or_default(),
        status: read_status(&task["status"])?,
        artifacts: task["artifacts"]
            .is_array()
            .then(|| list("artifacts").map(read_artifact).collect()),
        history: list("history").map(read_message).collect(),
        metadata: task["metadata"].as_object().cloned(),
    })
}

fn read_message(message: &Value) -> Message {
    let is_user = matches!(message["role"].as_str(), Some("ROLE_USER" | "user"));
    let role = if is_user { Role::User } else { Role::Agent };
    let id = text(&message["messageId"]).unwrap_or_default();
    let list = |name: &str| {
        let items = message[name].as_array().into_iter().flatten();
        items.filter_map(text).collect()
    };
    Message {
        context_id: text(&message["contextId"]),
        task_id: text(&message["taskId"]),
        metadata: message["metadata"].as_object().cloned(),
        extensions: list("extensions"),
        reference_task_ids: list("referenceTaskIds"),
        ..Message::new(id, role, read_parts(&message["parts"]))
    }
}

fn read_status(status: &Value) -> Result<TaskStatus, ReadError> {
    let message = &status["message"];
    Ok(TaskStatus {
        state: read_state(status["state"].as_str().unwrap_or_default())?,
        timestamp: status["timestamp"]
            .as_str()
            .and_then(|time| time.parse().ok()),
        message: message.is_object().then(|| read_message(message)),
    })
}

/// Parses a state. `TASK_STATE_INPUT_REQUIRED`, `input-required` and `input_required` are the same.
fn read_state(name: &str) -> Result<TaskState, ReadError> {
    let plain = name
        .trim_start_matches("TASK_STATE_")
        .replace('-', "_")
        .to_ascii_lowercase();
    match plain.as_str() {
        "cancelled" => Ok(TaskState::Canceled),
        plain => TaskState::from_stored(plain)
            .ok_or_else(|| ReadError::UnknownState(name.chars().take(MAX_SHOWN).collect())),
    }
}

fn read_status_update(update: &Value) -> Result<StreamResponse, ReadError> {
    Ok(StreamResponse::StatusUpdate(StatusUpdate {
        task_id: text(&update["taskId"]).unwrap_or_default(),
        context_id: text(&update["contextId"]).unwrap_or_default(),
        status: read_status(&update["status"])?,
    }))
}

fn read_artifact_update(update: &Value) -> Result<StreamResponse, ReadError> {
    if !update["artifact"].is_object() {
        return Err(ReadError::MissingArtifact);
    }
    Ok(StreamResponse::ArtifactUpdate(ArtifactUpdate {
        task_id: text(&update["taskId"]).unwrap_or_default(),
        context_id: text(&update["contextId"]).unwrap_or_default(),
        artifact: read_artifact(&update["artifact"]),
        append: update["append"] == true,
        last_chunk: update["lastChunk"] == true,
    }))
}

fn read_artifact(artifact: &Value) -> Artifact {
    Artifact {
        artifact_id: text(&artifact["artifactId"]).unwrap_or_default(),
        name: text(&artifact["name"]),
        parts: read_parts(&artifact["parts"]),
    }
}

fn read_parts(parts: &Value) -> Vec<Part> {
    let parts = parts.as_array().into_iter().flatten();
    parts.map(read_part).collect()
}

fn read_part(part: &Value) -> Part {
    let metadata = part["metadata"].as_object().cloned();
    if let Some(text) = part["text"].as_str() {
        return Part {
            filename: text_of(part, &["filename"]),
            media_type: text_of(part, &["mediaType"]),
            metadata,
            ..Part::text(text)
        };
    }
    if let Some(data) = part.get("data") {
        return Part {
            filename: text_of(part, &["filename"]),
            media_type: text_of(part, &["mediaType"]),
            metadata,
            ..Part::data(data.clone())
        };
    }
    let file = part.get("file").unwrap_or(part);
    let url = text_of(file, &["url", "uri"]).map(PartContent::Url);
    let raw = || text_of(file, &["raw", "bytes"]).map(PartContent::Raw);
    let content = url
        .or_else(raw)
        .unwrap_or_else(|| PartContent::Unknown(part.as_object().cloned().unwrap_or_default()));
    Part {
        content,
        filename: text_of(file, &["filename", "name"]),
        media_type: text_of(file, &["mediaType", "mimeType"]),
        metadata,
    }
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn text_of(value: &Value, names: &[&str]) -> Option<String> {
    let mut names = names.iter();
    names.find_map(|name| value[*name].as_str().map(str::to_owned))
}

/// Converts parts to text for a model or a user: a file is shown by its name and type, data as JSON.
pub fn readable_text(parts: &[Part]) -> String {
    let mut all = String::new();
    let mut was_text = true;
    for part in parts {
        let is_text = matches!(part.content, PartContent::Text(_));
        // Consecutive texts are concatenated; everything else is a separate paragraph.
        if !(all.is_empty() || is_text && was_text) {
            all.push_str("\n\n");
        }
        let name = || part.filename.as_deref().unwrap_or("without a name");
        let media = || part.media_type.as_deref().unwrap_or("unknown media type");
        match &part.content {
            PartContent::Text(text) => all.push_str(text),
            PartContent::Data(data) => {
                let pretty =
                    serde_json::to_string_pretty(data).unwrap_or_else(|_| data.to_string());
                all.extend(["```json\n", &pretty, "\n```"]);
            }
            PartContent::Url(url) => {
                all.extend(["[file ", name(), ", ", media(), ": ", url, "]"]);
            }
            PartContent::Raw(raw) => {
                let bytes = (raw.len() / 4 * 3).to_string();
                all.extend(["[file ", name(), ", ", media(), ", ", &bytes, " bytes]"]);
            }
            PartContent::Unknown(_) => all.push_str("[an unsupported part]"),
        }
        was_text = is_text;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{ReadError, read_response, readable_text};
    use crate::message::{Message, Part, PartContent, Role};
    use crate::method::Method;
    use crate::task::{Artifact, ArtifactUpdate, StatusUpdate, StreamResponse, Task, TaskStatus};
    use crate::v0_3;
    use cleveragents_domain::{TaskState, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn unusable_responses_are_refused() {
        for (value, error) in [
            (json!(null), ReadError::UnknownKind),
            (json!({"kind": "nonsense"}), ReadError::UnknownKind),
            (
                json!({"task": {"id": "t"}}),
                ReadError::UnknownState(String::new()),
            ),
            (
                json!({"status": {"state": "TASK_STATE_DREAMING"}}),
                ReadError::UnknownState("TASK_STATE_DREAMING".to_owned()),
            ),
            (
                json!({"artifactUpdate": {"taskId": "t"}}),
                ReadError::MissingArtifact,
            ),
        ] {
            assert_eq!(read_response(&value), Err(error), "{value}");
        }
    }

    #[test]
    fn parts_become_readable_text() {
        let response = read_response(&json!({"message": {"contextId": "c", "parts": [
            {"text": "a"}, {"text": "b"}, {"data": {"n": 1}},
            {"url": "https://x.example/f", "filename": "f", "mediaType": "text/plain"},
            {"kind": "file", "file": {"bytes": "AAAA", "name": "g", "mimeType": "image/png"}},
            {"kind": "hologram"},
        ]}}));
        let Ok(StreamResponse::Message(message)) = response else {
            panic!("{response:?}");
        };
        assert_eq!(
            readable_text(&message.parts),
            "ab\n\n```json\n{\n  \"n\": 1\n}\n```\n\n[file f, text/plain: https://x.example/f]\
             \n\n[file g, image/png, 3 bytes]\n\n[an unsupported part]"
        );
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let content = prop_oneof![
            "[a-z ]{0,8}".prop_map(PartContent::Text),
            "[a-z]{1,8}".prop_map(|path| PartContent::Url(format!("https://x.example/{path}"))),
            Just(PartContent::Raw("YQ==".to_owned())),
            any::<u16>().prop_map(|number| PartContent::Data(json!({"n": number}))),
        ];
        let part = (content, any::<bool>()).prop_map(|(content, has_name)| {
            let is_file = matches!(content, PartContent::Raw(_) | PartContent::Url(_));
            let named = |name: &str| (is_file && has_name).then(|| name.to_owned());
            Part {
                content,
                filename: named("f.txt"),
                media_type: named("text/plain"),
                metadata: None,
            }
        });
        prop::collection::vec(part, 1..4)
    }

    fn message() -> impl Strategy<Value = Message> {
        let role = prop_oneof![Just(Role::User), Just(Role::Agent)];
        ("[a-z]{1,5}", role, parts()).prop_map(|(id, role, parts)| {
            Message::new(id, role, parts).in_task(Some("c"), Some("t"))
        })
    }

    fn status() -> impl Strategy<Value = TaskStatus> {
        let state = prop::sample::select(TaskState::ALL.to_vec());
        (state, prop::option::of(message())).prop_map(|(state, message)| TaskStatus {
            state,
            timestamp: Some(Timestamp::from_micros(1_700_000_000_000_000)),
            message,
        })
    }

    fn artifact() -> impl Strategy<Value = Artifact> {
        ("[a-z]{1,5}", parts()).prop_map(|(id, parts)| Artifact {
            artifact_id: id.clone(),
            name: Some(id),
            parts,
        })
    }

    fn response() -> impl Strategy<Value = StreamResponse> {
        let ids = || ("t".to_owned(), "c".to_owned());
        let artifacts = prop::option::of(prop::collection::vec(artifact(), 0..3));
        let history = prop::collection::vec(message(), 0..3);
        prop_oneof![
            (status(), artifacts, history).prop_map(move |(status, artifacts, history)| {
                let (id, context_id) = ids();
                StreamResponse::Task(Task {
                    id,
                    context_id,
                    status,
                    artifacts,
                    history,
                    metadata: None,
                })
            }),
            message().prop_map(StreamResponse::Message),
            status().prop_map(move |status| {
                let (task_id, context_id) = ids();
                StreamResponse::StatusUpdate(StatusUpdate {
                    task_id,
                    context_id,
                    status,
                })
            }),
            (artifact(), any::<bool>(), any::<bool>()).prop_map(
                move |(artifact, append, last_chunk)| {
                    let (task_id, context_id) = ids();
                    StreamResponse::ArtifactUpdate(ArtifactUpdate {
                        task_id,
                        context_id,
                        artifact,
                        append,
                        last_chunk,
                    })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn responses_round_trip_in_both_versions(response in response()) {
            let current = json!(response);
            prop_assert_eq!(&read_response(&current), &Ok(response.clone()));
            let old = v0_3::result_from_v1(Method::SendStreamingMessage, &current);
            prop_assert_eq!(&read_response(&old), &Ok(response));
        }
    }
}
