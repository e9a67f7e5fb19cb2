//! What a remote agent tells: tasks, messages and updates, of both versions of the protocol, read without asking
//! for more than is needed.

use serde_json::Value;

use super::card::Version;

/// One thing that an agent tells.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// The whole task as it is.
    Task(TaskSeen),
    /// An answer without a task.
    Message {
        context: Option<String>,
        text: String,
    },
    /// The task came into a state.
    Status(Status),
    /// A result, or more of one.
    Artifact {
        task: Option<String>,
        context: Option<String>,
        artifact: Artifact,
        is_appended: bool,
    },
}

/// A task as it is.
#[derive(Debug, PartialEq)]
pub(super) struct TaskSeen {
    pub(super) status: Status,
    pub(super) artifacts: Vec<Artifact>,
}

/// The state of a task.
#[derive(Debug, PartialEq)]
pub(super) struct Status {
    pub(super) task: Option<String>,
    pub(super) context: Option<String>,
    pub(super) state: State,
    /// What the agent says about it.
    pub(super) text: String,
}

/// A result, as text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Artifact {
    pub(super) id: String,
    pub(super) text: String,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
    InputRequired,
    AuthRequired,
}

impl State {
    /// Whether nothing more comes before somebody does something.
    pub(super) const fn is_end(self) -> bool {
        !matches!(self, Self::Working)
    }
}

/// Reads what an agent told.
pub(super) fn read(value: &Value) -> Result<Told, String> {
    let kind = value["kind"].as_str();
    if let Some(task) = value.get("task").filter(|task| task.is_object()) {
        return Ok(Told::Task(read_task(task)?));
    }
    if let Some(message) = value.get("message").filter(|message| message.is_object())
        && value.get("status").is_none()
    {
        return Ok(read_message(message));
    }
    if let Some(update) = value.get("statusUpdate") {
        return Ok(Told::Status(read_status(update, &update["taskId"])?));
    }
    if let Some(update) = value.get("artifactUpdate") {
        return read_artifact_update(update);
    }
    match kind {
        Some("message") => Ok(read_message(value)),
        Some("status-update") => Ok(Told::Status(read_status(value, &value["taskId"])?)),
        Some("artifact-update") => read_artifact_update(value),
        _ if value["status"].is_object() => Ok(Told::Task(read_task(value)?)),
        _ => Err("it told something that is neither a task, a message nor an update".to_owned()),
    }
}

fn read_task(task: &Value) -> Result<TaskSeen, String> {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    Ok(TaskSeen {
        status: read_status(task, &task["id"])?,
        artifacts: artifacts.map(read_artifact).collect(),
    })
}

fn read_message(message: &Value) -> Told {
    Told::Message {
        context: text(&message["contextId"]),
        text: text_of(&message["parts"]),
    }
}

fn read_status(owner: &Value, task: &Value) -> Result<Status, String> {
    let status = &owner["status"];
    let word = status["state"].as_str().unwrap_or_default();
    let state = match word
        .trim_start_matches("TASK_STATE_")
        .replace('_', "-")
        .to_ascii_lowercase()
        .as_str()
    {
        "submitted" | "working" => State::Working,
        "completed" => State::Completed,
        "failed" => State::Failed,
        "canceled" | "cancelled" => State::Canceled,
        "rejected" => State::Rejected,
        "input-required" => State::InputRequired,
        "auth-required" => State::AuthRequired,
        _ => {
            let word: String = word.chars().take(40).collect();
            return Err(format!(
                "its task is in the state `{word}`, which is unknown"
            ));
        }
    };
    Ok(Status {
        task: text(task),
        context: text(&owner["contextId"]),
        state,
        text: text_of(&status["message"]["parts"]),
    })
}

fn read_artifact_update(update: &Value) -> Result<Told, String> {
    if !update["artifact"].is_object() {
        return Err("it told of a result without telling it".to_owned());
    }
    Ok(Told::Artifact {
        task: text(&update["taskId"]),
        context: text(&update["contextId"]),
        artifact: read_artifact(&update["artifact"]),
        is_appended: update["append"] == true,
    })
}

fn read_artifact(artifact: &Value) -> Artifact {
    Artifact {
        id: text(&artifact["artifactId"]).unwrap_or_default(),
        text: text_of(&artifact["parts"]),
    }
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Parts as text: what is no text is named, or written as JSON.
fn text_of(parts: &Value) -> String {
    let mut all = String::new();
    let mut was_text = true;
    for part in parts.as_array().into_iter().flatten() {
        let (piece, is_text) = match part["text"].as_str() {
            Some(text) => (text.to_owned(), true),
            None => (other(part), false),
        };
        // Texts go on where the one before ended; other things stand by themselves.
        let goes_on = is_text && was_text;
        if !all.is_empty() && !goes_on {
            all.push_str("\n\n");
        }
        all.push_str(&piece);
        was_text = is_text;
    }
    all
}

fn other(part: &Value) -> String {
    if let Some(data) = part.get("data") {
        let pretty = serde_json::to_string_pretty(data).unwrap_or_else(|_| data.to_string());
        return format!("```json\n{pretty}\n```");
    }
    let file = match part.get("file") {
        Some(file) => file,
        None => part,
    };
    let first = |names: &[&str]| names.iter().find_map(|name| file[*name].as_str());
    let name = first(&["filename", "name"]).unwrap_or("without a name");
    let media = first(&["mediaType", "mimeType"]).unwrap_or("of an unknown kind");
    match (first(&["url", "uri"]), first(&["raw", "bytes"])) {
        (Some(url), _) => format!("[file {name}, {media}: {url}]"),
        (None, Some(raw)) => format!("[file {name}, {media}, {} bytes]", raw.len() / 4 * 3),
        (None, None) => "[a part that this program does not know]".to_owned(),
    }
}

/// The message that asks, in the words of a version.
pub(super) fn message(
    version: Version,
    id: &str,
    text: &str,
    context: Option<&str>,
    task: Option<&str>,
) -> Value {
    let mut message = match version {
        Version::Current => serde_json::json!({
            "messageId": id, "role": "ROLE_USER", "parts": [{"text": text}],
        }),
        Version::Old => serde_json::json!({
            "kind": "message", "messageId": id, "role": "user", "parts": [{"kind": "text", "text": text}],
        }),
    };
    if let Some(context) = context {
        message["contextId"] = context.into();
    }
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{State, Told, read};

    fn state(value: &serde_json::Value) -> State {
        match read(value).expect("readable") {
            Told::Task(task) => task.status.state,
            Told::Status(status) => status.state,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_versions_say_the_same() {
        let current = json!({"statusUpdate": {"taskId": "t", "contextId": "c",
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": [{"text": "which?"}]}}}});
        let old = json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": true,
            "status": {"state": "input-required", "message": {"kind": "message", "parts": [{"kind": "text", "text": "which?"}]}}});
        assert_eq!(read(&current), read(&old));
        assert_eq!(state(&old), State::InputRequired);
        let current = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}});
        let old =
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}});
        assert_eq!(read(&current), read(&old));
        assert_eq!(state(&current), State::Working);
    }

    #[test]
    fn what_is_no_text_is_told_as_text() {
        let told = read(&json!({"message": {"contextId": "c", "parts": [
            {"text": "a"}, {"text": "b"}, {"data": {"n": 1}},
            {"url": "https://x.example/f", "filename": "f", "mediaType": "text/plain"},
            {"kind": "file", "file": {"bytes": "AAAA", "name": "g", "mimeType": "image/png"}},
        ]}}));
        let Ok(Told::Message { text, .. }) = told else {
            panic!("{told:?}");
        };
        assert_eq!(
            text,
            "ab\n\n```json\n{\n  \"n\": 1\n}\n```\n\n[file f, text/plain: https://x.example/f]\n\n[file g, image/png, 3 bytes]"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for value in [
            json!(null),
            json!({"task": {"id": "t"}}),
            json!({"status": {"state": "TASK_STATE_DREAMING"}}),
            json!({"artifactUpdate": {"taskId": "t"}}),
            json!({"kind": "nonsense"}),
        ] {
            assert!(read(&value).is_err(), "{value}");
        }
    }
}
