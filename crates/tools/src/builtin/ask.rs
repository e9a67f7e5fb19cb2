//! `builtin/ask-user`: asks the user a question.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Description, PrepareResult, builtin, ready};
use crate::capability::Capability;
use crate::ports::{Question, QuestionKind, Reply};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Failure, FailureKind, PrepareContext, Tool};

/// Error stored for a question that no user could answer. The question may be asked again.
const NO_USER_TO_ANSWER: &str = "no user is available to answer";

/// The text that earlier versions stored instead of [`NO_USER_TO_ANSWER`]; stored runs may contain it.
const NO_USER_TO_ANSWER_BEFORE: &str = "nobody is there to answer";

/// Returns whether the stored error of a question means that no user answered it.
pub fn is_unanswered(error: &str) -> bool {
    [NO_USER_TO_ANSWER, NO_USER_TO_ANSWER_BEFORE].contains(&error)
}

/// Time limit for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_hours(24);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskArguments {
    /// The question to ask.
    #[schemars(length(min = 1))]
    question: String,
    /// Answers to choose from; the user may always write another one.
    options: Option<Vec<String>>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "ask-user",
        about: "Asks the user a question and returns the answer. Use it only for information that you cannot find \
                      out otherwise.",
        category: Category::Conversation,
        workspace_need: WorkspaceNeed::None,
        capability: Capability::reads(),
        timeout: ANSWER_TIMEOUT,
    };
    builtin::<AskArguments>(description, prepare)
}

fn prepare(arguments: AskArguments, _context: PrepareContext<'_>) -> PrepareResult<'_> {
    Ok(ready(Vec::new(), move |call| {
        let question = Question {
            kind: QuestionKind::Information,
            text: &arguments.question,
            options: &arguments.options.unwrap_or_default(),
        };
        match call.approver().question(&question) {
            Reply::Text(answer) => {
                call.output.text(&answer);
                Ok(Answer::written())
            }
            Reply::Declined => Err(Failure::new("the user declined to answer")),
            Reply::NotAsked(why) => Err(Failure::new(why)),
            Reply::NoUser => Err(Failure::with_kind(
                FailureKind::HumanNeeded,
                NO_USER_TO_ANSWER,
            )),
        }
    }))
}
