//! [`OpenQuestion`]: the question of a waiting run to the user. [`GivenAnswer`]: answers the question
//! when the run resumes without a terminal.

use std::sync::{Mutex, PoisonError};

use cleveragents_domain::{RunId, ToolInvocation};
use cleveragents_store::{Error, Reader, invocations, runs};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply, shortened};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::storable_json;
use crate::turn::needs_absent_user;

/// The tool whose calls are questions.
const ASK_USER: &str = "builtin/ask-user";

/// The question of a waiting run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OpenQuestion {
    /// A question of a model.
    Question {
        /// The question.
        text: String,
        /// Suggested answers; empty for any text.
        options: Vec<String>,
    },
    /// A call that the user must approve.
    Approval {
        tool: String,
        /// The arguments of the call, without secrets and with long texts shortened.
        arguments: Value,
        /// The reason why the call needs approval.
        reason: String,
    },
}

impl OpenQuestion {
    fn from_row(row: &ToolInvocation) -> Self {
        if row.tool != ASK_USER {
            return Self::Approval {
                tool: row.tool.clone(),
                arguments: row.arguments.clone(),
                reason: row.error.clone().unwrap_or_default(),
            };
        }
        let options = row.arguments["options"].as_array().into_iter().flatten();
        Self::Question {
            text: row.arguments["question"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            options: options
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }

    /// The question in one sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Question { text, options } if options.is_empty() => text.clone(),
            Self::Question { text, options } => format!("{text} ({})", options.join(", ")),
            Self::Approval {
                tool, arguments, ..
            } => format!("Call `{tool}` with {arguments}?"),
        }
    }
}

/// The unanswered questions of a run, oldest first.
pub(super) fn open_questions(
    reader: &mut dyn Reader,
    run: RunId,
) -> Result<Vec<OpenQuestion>, Error> {
    let mut open: Vec<ToolInvocation> = Vec::new();
    for session in runs::sessions(reader, run)? {
        for row in invocations::of_session(reader, session)? {
            // The later row of a repeated call replaces the earlier row.
            open.retain(|known| known.session != row.session || known.call_id != row.call_id);
            if needs_absent_user(&row) {
                open.push(row);
            }
        }
    }
    open.sort_by_key(|row| row.id);
    Ok(open.iter().map(OpenQuestion::from_row).collect())
}

/// Answers one open question of a run once. Passes every other question to another approver.
pub struct GivenAnswer<'a> {
    question: OpenQuestion,
    /// Whether the run has only this open question. The answer then also applies to a question with a
    /// different text.
    is_only: bool,
    answer: Mutex<Option<String>>,
    other: &'a dyn Approver,
}

impl<'a> GivenAnswer<'a> {
    /// Creates an approver that answers the last of the questions. `None` when there are no questions.
    pub fn new(questions: &[OpenQuestion], answer: &str, other: &'a dyn Approver) -> Option<Self> {
        Some(Self {
            question: questions.last()?.clone(),
            is_only: questions.len() == 1,
            answer: Mutex::new(Some(answer.to_owned())),
            other,
        })
    }

    fn take(&self, is_match: bool) -> Option<String> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if is_match || self.is_only {
            answer.take()
        } else {
            None
        }
    }
}

impl Approver for GivenAnswer<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let OpenQuestion::Approval {
            tool, arguments, ..
        } = &self.question
        else {
            return self.other.approve(request);
        };
        let request_arguments = storable_json(&shortened(request.arguments.clone()));
        let is_tool = *tool == request.tool.to_string();
        let is_match = is_tool && request_arguments == *arguments;
        let Some(answer) = is_tool.then(|| self.take(is_match)).flatten() else {
            return self.other.approve(request);
        };
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Approval::Once,
            "" | "n" | "no" => Approval::Refused(None),
            _ => Approval::Refused(Some(answer)),
        }
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        let OpenQuestion::Question { text, .. } = &self.question else {
            return self.other.question(question);
        };
        let question_text = storable_json(&shortened(question.text.into()));
        let is_match = question_text.as_str() == Some(text);
        let Some(answer) = self.take(is_match) else {
            return self.other.question(question);
        };
        let answer = answer.trim().to_owned();
        if answer.is_empty() {
            return Reply::Declined;
        }
        let chosen = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| question.options.get(number.checked_sub(1)?));
        Reply::Text(chosen.cloned().unwrap_or(answer))
    }
}
