//! [`Task`], its status, its artifacts and its streamed and pushed updates.

use cleveragents_domain::{TaskState, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::message::{Message, Part};

/// Name of a task's state in 1.0.
pub const fn task_state_name(state: TaskState) -> &'static str {
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

/// States in the order of their numbers in the protocol, from 1.
const BY_NUMBER: [TaskState; 8] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::InputRequired,
    TaskState::Rejected,
    TaskState::AuthRequired,
];

/// Parses a state that a client sent, by name or by number; `None` for the unspecified state.
pub fn read_task_state(value: &Value) -> Result<Option<TaskState>, Error> {
    let unknown = || Error::invalid_field("status", "a state of a task");
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) if text == "TASK_STATE_UNSPECIFIED" || text.is_empty() => Some(0),
        Value::String(text) => BY_NUMBER
            .iter()
            .position(|state| task_state_name(*state) == text)
            .map(|index| index as u64 + 1)
            .or_else(|| text.parse().ok()),
        _ => None,
    };
    match number {
        Some(0) => Ok(None),
        Some(number) => usize::try_from(number - 1)
            .ok()
            .and_then(|index| BY_NUMBER.get(index))
            .map(|state| Some(*state))
            .ok_or_else(unknown),
        None => Err(unknown()),
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn serialize_state<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(task_state_name(*state))
}

fn deserialize_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    TaskState::ALL
        .into_iter()
        .find(|state| task_state_name(*state) == name)
        .ok_or_else(|| serde::de::Error::custom(format!("`{name}` is not a state of a task")))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// State of the task.
    #[serde(
        serialize_with = "serialize_state",
        deserialize_with = "deserialize_state"
    )]
    pub state: TaskState,
    /// Time of the state change; `None` from agents that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Message of the agent about the state, such as a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Artifact {
    pub artifact_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub parts: Vec<Part>,
}

impl Artifact {
    /// Appends parts. A text part without metadata is joined to a text part before it.
    pub fn append(&mut self, parts: &[Part]) {
        for part in parts {
            let mut part = part.clone();
            let before = self.parts.last_mut().and_then(Part::plain_text_mut);
            match (before, part.plain_text_mut()) {
                (Some(before), Some(more)) => before.push_str(more),
                _ => self.parts.push(part),
            }
        }
    }
}

/// A task with its messages and artifacts, as far as they were requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Task {
    pub id: String,
    pub context_id: String,
    pub status: TaskStatus,
    /// `None` when there are none, or when they were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A state change of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct StatusUpdate {
    pub task_id: String,
    pub context_id: String,
    pub status: TaskStatus,
}

/// A new artifact, or further parts of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    pub task_id: String,
    /// Context of the task.
    pub context_id: String,
    /// The artifact, or the parts to append to it.
    pub artifact: Artifact,
    /// Whether the parts are appended to those sent before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub append: bool,
    /// Whether no more parts follow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub last_chunk: bool,
}

/// Data that an agent sends about a task: the response to a message, and each event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    /// The complete task.
    Task(Task),
    /// A response without a task.
    Message(Message),
    /// The state of the task changed.
    StatusUpdate(StatusUpdate),
    /// A new artifact, or further parts of one.
    ArtifactUpdate(ArtifactUpdate),
}

impl StreamResponse {
    /// The state of the task; `None` for messages and artifact updates.
    pub const fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::StatusUpdate(update) => Some(update.status.state),
            Self::Message(_) | Self::ArtifactUpdate(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Artifact, Part, StreamResponse, read_task_state, task_state_name};
    use cleveragents_domain::TaskState;
    use serde_json::json;

    #[test]
    fn states_are_read_by_name_and_number() {
        for known in TaskState::ALL {
            let name = json!(task_state_name(known));
            assert_eq!(read_task_state(&name).expect("a state"), Some(known));
        }
        assert_eq!(
            read_task_state(&json!(3)).expect("a state"),
            Some(TaskState::Completed)
        );
        assert_eq!(read_task_state(&json!(0)).expect("none"), None);
        assert!(read_task_state(&json!("completed")).is_err());
        assert!(read_task_state(&json!(9)).is_err());
    }

    #[test]
    fn appended_text_continues_the_text_before_it() {
        let mut artifact = Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            parts: vec![Part::text("a")],
        };
        artifact.append(&[Part::text("b")]);
        assert_eq!(
            json!(artifact),
            json!({"artifactId": "a", "parts": [{"text": "ab"}]})
        );
        let mut named = Part::text("c");
        named.filename = Some("c.txt".to_owned());
        artifact.append(&[Part::data(json!(1)), named.clone(), Part::text("d")]);
        assert_eq!(
            artifact.parts[1..],
            [Part::data(json!(1)), named, Part::text("d")]
        );
    }

    /// Updates stored by an earlier version.
    #[test]
    fn stored_updates_are_read_back_unchanged() {
        for stored in [
            r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED","timestamp":"2026-01-31T12:00:00.000000Z","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"which?"}],"contextId":"c","taskId":"t"}}}}"#,
            r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"answer","name":"answer","parts":[{"text":"hi"}]},"append":true,"lastChunk":true}}"#,
            r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"artifact-1","parts":[{"data":{"key":"value"}}]}}}"#,
            r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-31T12:00:00.000000Z"},"artifacts":[{"artifactId":"diff","name":"diff","parts":[{"data":{}}]}],"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}],"metadata":{"planId":"p"}}}"#,
        ] {
            let update: StreamResponse = serde_json::from_str(stored).expect("an update");
            assert_eq!(serde_json::to_string(&update).expect("JSON"), stored);
        }
    }
}
