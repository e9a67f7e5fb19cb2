//! [`AgentAnswer`]: the answer of an agent, assembled from its responses.

use cleveragents_a2a::agent::readable_text;
use cleveragents_a2a::{Artifact, StreamResponse, TaskStatus};
use cleveragents_domain::TaskState;

/// The answer received so far.
#[derive(Debug, Default)]
pub(super) struct AgentAnswer {
    pub(super) task: Option<String>,
    pub(super) context: Option<String>,
    /// State of the task; `None` until the agent reports a state.
    pub(super) state: Option<TaskState>,
    /// The agent's message about that state.
    pub(super) status_message: String,
    artifacts: Vec<ArtifactText>,
    /// Whether the agent answered with a message instead of a task.
    is_message: bool,
    /// Text that was already forwarded to the caller.
    forwarded: String,
}

#[derive(Debug)]
struct ArtifactText {
    id: String,
    text: String,
}

impl From<Artifact> for ArtifactText {
    fn from(artifact: Artifact) -> Self {
        Self {
            text: readable_text(&artifact.parts),
            id: artifact.artifact_id,
        }
    }
}

/// New content of one response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerDelta {
    /// Further text of the answer.
    pub(super) text: String,
    /// Progress messages of the agent.
    pub(super) thought: String,
}

/// Whether the agent is still working on the task. Otherwise it sends nothing more without further input.
const fn is_open(state: TaskState) -> bool {
    matches!(state, TaskState::Submitted | TaskState::Working)
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl AgentAnswer {
    /// Creates an empty answer in a context of the agent.
    pub(super) fn in_context(context: Option<String>) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Whether the agent sends nothing more without further input.
    pub(super) fn is_over(&self) -> bool {
        self.is_message || self.state.is_some_and(|state| !is_open(state))
    }

    /// Clears the state of the task after a new message was sent to it.
    pub(super) fn reopen(&mut self) {
        self.state = None;
    }

    /// The answer: the artifacts, or the final message when there are none.
    pub(super) fn text(&self) -> String {
        let results: Vec<&str> = self
            .artifacts
            .iter()
            .map(|artifact| artifact.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        if results.is_empty() && (self.is_message || self.state == Some(TaskState::Completed)) {
            return self.status_message.clone();
        }
        results.join("\n\n")
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        let results = self.artifacts.iter().map(|artifact| artifact.text.len());
        results.sum::<usize>() + self.status_message.len()
    }

    pub(super) fn add(&mut self, response: StreamResponse) -> AnswerDelta {
        let mut delta = AnswerDelta::default();
        match response {
            StreamResponse::Message(message) => {
                self.context = message.context_id.or_else(|| self.context.take());
                self.status_message = readable_text(&message.parts);
                self.is_message = true;
            }
            StreamResponse::Task(task) => {
                let artifacts = task.artifacts.unwrap_or_default().into_iter();
                self.artifacts = artifacts.map(ArtifactText::from).collect();
                self.add_ids(task.id, task.context_id);
                delta.thought = self.add_status(&task.status);
            }
            StreamResponse::StatusUpdate(update) => {
                self.add_ids(update.task_id, update.context_id);
                delta.thought = self.add_status(&update.status);
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.add_ids(update.task_id, update.context_id);
                let artifact = ArtifactText::from(update.artifact);
                if let Some(piece) = self.add_artifact(artifact, update.append) {
                    self.forwarded.push_str(&piece);
                    delta.text = piece;
                    return delta;
                }
            }
        }
        delta.text = self.unforwarded_text();
        delta
    }

    fn add_ids(&mut self, task: String, context: String) {
        self.task = non_empty(task).or_else(|| self.task.take());
        self.context = non_empty(context).or_else(|| self.context.take());
    }

    fn add_status(&mut self, status: &TaskStatus) -> String {
        let status_message = match &status.message {
            Some(message) => readable_text(&message.parts),
            None => String::new(),
        };
        let is_new = self.status_message != status_message;
        self.state = Some(status.state);
        self.status_message = status_message;
        if is_new && is_open(status.state) && !self.status_message.is_empty() {
            return format!("{}\n", self.status_message);
        }
        String::new()
    }

    /// Adds an artifact. Returns its text when it only extends the end of the answer.
    fn add_artifact(&mut self, artifact: ArtifactText, is_appended: bool) -> Option<String> {
        let place = self
            .artifacts
            .iter()
            .position(|other| other.id == artifact.id);
        let Some(place) = place else {
            self.artifacts.push(artifact);
            return None;
        };
        let is_last = place + 1 == self.artifacts.len();
        let existing = self.artifacts.get_mut(place)?;
        if !is_appended {
            *existing = artifact;
            return None;
        }
        let was_empty = existing.text.is_empty();
        existing.text.push_str(&artifact.text);
        (is_last && !was_empty).then_some(artifact.text)
    }

    /// Returns the text that was not forwarded yet. Forwarded text cannot be withdrawn, so an answer with a different
    /// beginning is forwarded in full after it.
    fn unforwarded_text(&mut self) -> String {
        let text = self.text();
        if text.is_empty() || text == self.forwarded {
            return String::new();
        }
        let piece = match text.strip_prefix(self.forwarded.as_str()) {
            Some(added) => added.to_owned(),
            None => format!("\n\n{text}"),
        };
        self.forwarded = text;
        piece
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{AgentAnswer, AnswerDelta};
    use cleveragents_a2a::agent::read_response;

    fn add(answer: &mut AgentAnswer, value: &Value) -> AnswerDelta {
        answer.add(read_response(value).expect("readable"))
    }

    fn piece(id: &str, text: &str, is_appended: bool) -> Value {
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": is_appended,
            "artifact": {"artifactId": id, "parts": [{"text": text}]}}})
    }

    fn status(state: &str, text: &str) -> Value {
        json!({"statusUpdate": {"taskId": "t", "contextId": "c",
            "status": {"state": state, "message": {"parts": [{"text": text}]}}}})
    }

    #[test]
    fn each_piece_of_an_artifact_is_forwarded_once() {
        let mut answer = AgentAnswer::default();
        let mut received_events = String::new();
        let thought = add(&mut answer, &status("TASK_STATE_WORKING", "on it")).thought;
        assert_eq!(thought, "on it\n");
        for update in [
            piece("a", "one", false),
            piece("a", " two", true),
            piece("b", "three", false),
            piece("b", "!", true),
        ] {
            received_events.push_str(&add(&mut answer, &update).text);
        }
        // The complete task, as a later poll returns it, contains nothing new.
        let task = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "one two"}]}, {"artifactId": "b", "parts": [{"text": "three!"}]}]}});
        assert_eq!(add(&mut answer, &task), AnswerDelta::default());
        assert!(answer.is_over());
        assert_eq!(answer.text(), "one two\n\nthree!");
        assert_eq!(received_events, answer.text());
    }

    #[test]
    fn without_artifacts_the_last_message_is_the_answer() {
        let mut answer = AgentAnswer::default();
        assert_eq!(
            add(&mut answer, &status("TASK_STATE_WORKING", "hm")).text,
            ""
        );
        let last = add(&mut answer, &status("TASK_STATE_COMPLETED", "forty-two"));
        assert_eq!(last.text, "forty-two");
        assert_eq!(answer.text(), "forty-two");
    }

    #[test]
    fn a_replaced_artifact_is_not_part_of_the_answer() {
        let mut answer = AgentAnswer::default();
        add(&mut answer, &piece("a", "wrong", false));
        assert_eq!(
            add(&mut answer, &piece("a", "right", false)).text,
            "\n\nright"
        );
        add(&mut answer, &status("TASK_STATE_COMPLETED", ""));
        assert_eq!(answer.text(), "right");
    }

    #[test]
    fn a_question_is_not_an_answer() {
        let mut answer = AgentAnswer::default();
        let delta = add(&mut answer, &status("TASK_STATE_INPUT_REQUIRED", "which?"));
        assert_eq!(delta, AnswerDelta::default());
        assert!(answer.is_over());
        assert_eq!(
            (answer.text().as_str(), answer.status_message.as_str()),
            ("", "which?")
        );
        answer.reopen();
        assert!(!answer.is_over());
    }
}
