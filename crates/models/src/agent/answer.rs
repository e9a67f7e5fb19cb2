//! [`Answer`]: what came of a question so far, put together from what an agent tells.

use super::told::{Artifact, State, Status, Told};

/// What came so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) task: Option<String>,
    pub(super) context: Option<String>,
    /// The state of the task; nothing before one was told.
    pub(super) state: Option<State>,
    /// What the agent said about that state.
    pub(super) about: String,
    artifacts: Vec<Artifact>,
    /// Whether the agent answered without a task.
    is_message: bool,
    /// What was handed on of the text.
    given: String,
}

/// What is new for whoever listens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// More of the answer.
    pub(super) text: String,
    /// What the agent says about its work.
    pub(super) thought: String,
}

impl Answer {
    /// Nothing yet, in a conversation.
    pub(super) fn in_context(context: Option<String>) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Whether nothing more comes by itself.
    pub(super) fn is_over(&self) -> bool {
        self.is_message || self.state.is_some_and(State::is_end)
    }

    /// Forgets where the task was: it was asked something new.
    pub(super) fn go_on(&mut self) {
        self.state = None;
    }

    /// The answer: the results, or what was said at the end when there are none.
    pub(super) fn text(&self) -> String {
        let results: Vec<&str> = self
            .artifacts
            .iter()
            .map(|artifact| artifact.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        if results.is_empty() && (self.is_message || self.state == Some(State::Completed)) {
            return self.about.clone();
        }
        results.join("\n\n")
    }

    /// How large it is.
    pub(super) fn len(&self) -> usize {
        let results = self.artifacts.iter().map(|artifact| artifact.text.len());
        results.sum::<usize>() + self.about.len()
    }

    /// Takes what was told.
    pub(super) fn take(&mut self, told: Told) -> News {
        let mut news = News::default();
        match told {
            Told::Message { context, text } => {
                self.context = context.or_else(|| self.context.take());
                self.about = text;
                self.is_message = true;
            }
            Told::Task(task) => {
                self.artifacts = task.artifacts;
                news.thought = self.take_status(task.status);
            }
            Told::Status(status) => news.thought = self.take_status(status),
            Told::Artifact {
                task,
                context,
                artifact,
                is_appended,
            } => {
                self.task = task.or_else(|| self.task.take());
                self.context = context.or_else(|| self.context.take());
                if let Some(piece) = self.take_artifact(artifact, is_appended) {
                    self.given.push_str(&piece);
                    news.text = piece;
                    return news;
                }
            }
        }
        news.text = self.not_given();
        news
    }

    fn take_status(&mut self, status: Status) -> String {
        self.task = status.task.or_else(|| self.task.take());
        self.context = status.context.or_else(|| self.context.take());
        let is_new = self.about != status.text;
        self.state = Some(status.state);
        self.about = status.text;
        if is_new && status.state == State::Working && !self.about.is_empty() {
            return format!("{}\n", self.about);
        }
        String::new()
    }

    /// Gives the piece when it only makes the text longer.
    fn take_artifact(&mut self, artifact: Artifact, is_appended: bool) -> Option<String> {
        let place = self.artifacts.iter().position(|one| one.id == artifact.id);
        let Some(place) = place else {
            self.artifacts.push(artifact);
            return None;
        };
        let is_last = place + 1 == self.artifacts.len();
        let known = self.artifacts.get_mut(place)?;
        if !is_appended {
            *known = artifact;
            return None;
        }
        let was_empty = known.text.is_empty();
        known.text.push_str(&artifact.text);
        (is_last && !was_empty).then_some(artifact.text)
    }

    /// What of the text was not handed on yet. What was cannot be taken back: a text that begins otherwise is
    /// handed on whole, after it.
    fn not_given(&mut self) -> String {
        let text = self.text();
        if text.is_empty() || text == self.given {
            return String::new();
        }
        let piece = match text.strip_prefix(self.given.as_str()) {
            Some(rest) => rest.to_owned(),
            None => format!("\n\n{text}"),
        };
        self.given = text;
        piece
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Answer, News};
    use crate::agent::told::read;

    fn take(answer: &mut Answer, value: &Value) -> News {
        answer.take(read(value).expect("readable"))
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
    fn pieces_make_the_text_and_each_is_handed_on_once() {
        let mut answer = Answer::default();
        let mut heard = String::new();
        let thought = take(&mut answer, &status("TASK_STATE_WORKING", "on it")).thought;
        assert_eq!(thought, "on it\n");
        for told in [
            piece("a", "one", false),
            piece("a", " two", true),
            piece("b", "three", false),
            piece("b", "!", true),
        ] {
            heard.push_str(&take(&mut answer, &told).text);
        }
        // The whole task, as somebody sees it who comes back to it, has nothing new.
        let whole = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "one two"}]}, {"artifactId": "b", "parts": [{"text": "three!"}]}]}});
        assert_eq!(take(&mut answer, &whole), News::default());
        assert!(answer.is_over());
        assert_eq!(answer.text(), "one two\n\nthree!");
        assert_eq!(heard, answer.text());
    }

    #[test]
    fn without_results_the_last_word_is_the_answer() {
        let mut answer = Answer::default();
        assert_eq!(
            take(&mut answer, &status("TASK_STATE_WORKING", "hm")).text,
            ""
        );
        let last = take(&mut answer, &status("TASK_STATE_COMPLETED", "forty-two"));
        assert_eq!(last.text, "forty-two");
        assert_eq!(answer.text(), "forty-two");
    }

    #[test]
    fn a_result_that_is_replaced_is_the_answer_alone() {
        let mut answer = Answer::default();
        take(&mut answer, &piece("a", "wrong", false));
        assert_eq!(
            take(&mut answer, &piece("a", "right", false)).text,
            "\n\nright"
        );
        take(&mut answer, &status("TASK_STATE_COMPLETED", ""));
        assert_eq!(answer.text(), "right");
    }

    #[test]
    fn a_question_is_no_answer() {
        let mut answer = Answer::default();
        let news = take(&mut answer, &status("TASK_STATE_INPUT_REQUIRED", "which?"));
        assert_eq!(news, News::default());
        assert!(answer.is_over());
        assert_eq!(
            (answer.text().as_str(), answer.about.as_str()),
            ("", "which?")
        );
        answer.go_on();
        assert!(!answer.is_over());
    }
}
