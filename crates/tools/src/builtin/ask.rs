//! `builtin/ask-user`: a question to the person.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Description, Preparing, builtin, ready};
use crate::capability::Capability;
use crate::ports::{Question, Reply};
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Failure, FailureKind, Grounds, Tool};

/// What is stored of a question that nobody was there to answer. It may be asked again.
pub const NOBODY_TO_ANSWER: &str = "nobody is there to answer";

/// A person may think for a while.
const PATIENCE: Duration = Duration::from_hours(24);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The question.
    #[schemars(length(min = 1))]
    question: String,
    /// Answers to choose from; the user may always write another one.
    options: Option<Vec<String>>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "ask-user",
        about: "Asks the user a question and gives the answer. Only for what cannot be found out otherwise.",
        category: Category::Conversation,
        ground: Ground::Nothing,
        capability: Capability::reads(),
        timeout: PATIENCE,
    };
    builtin::<Arguments>(description, prepare)
}

fn prepare(arguments: Arguments, _grounds: Grounds<'_>) -> Preparing<'_> {
    Ok(ready(Vec::new(), move |call| {
        let question = Question {
            text: &arguments.question,
            options: &arguments.options.unwrap_or_default(),
        };
        match call.approver().question(&question) {
            Reply::Text(answer) => {
                call.output.text(&answer);
                Ok(Answer::written())
            }
            Reply::Declined => Err(Failure::new("the user does not want to answer")),
            Reply::NotAsked(why) => Err(Failure::new(why)),
            Reply::NobodyThere => Err(Failure::of(FailureKind::HumanNeeded, NOBODY_TO_ANSWER)),
        }
    }))
}
