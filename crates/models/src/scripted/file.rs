//! The file format of a script.

use std::fmt;

use regex::Regex;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;

use crate::error::ModelError;
use crate::event::{StopReason, Usage};
use crate::model::Capabilities;
use crate::price::{Price, WrittenPrice};
use crate::yaml;

/// A script: the answers, and the properties of the simulated model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    /// Capabilities of the model; all when not given.
    #[serde(default = "everything")]
    pub(super) capabilities: Capabilities,
    /// Price of the model; unknown when not given.
    #[serde(default)]
    pub(super) price: Option<WrittenPrice>,
    /// Behaviour when the answers are used up.
    #[serde(default)]
    pub(super) at_end: AtEnd,
    /// Rule that counts earlier answers of a request to find the next one.
    #[serde(default)]
    pub(super) count: AnswerCounting,
    pub(super) answers: Vec<ScriptedAnswer>,
}

fn everything() -> Capabilities {
    Capabilities {
        vision: true,
        reasoning: true,
        ..Capabilities::default()
    }
}

/// Behaviour when the answers are used up.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AtEnd {
    /// The call fails.
    #[default]
    Fail,
    /// The last answer is repeated.
    RepeatLast,
    /// The script starts over with the first answer.
    StartOver,
}

/// Rule that counts earlier answers of a request to find the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerCounting {
    /// All answers of the conversation.
    #[default]
    Conversation,
    /// Answers since the last user message: for an actor that continues the conversation of another actor.
    Turn,
}

/// One scripted answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedAnswer {
    /// With a pattern, the answer is used for every request whose last message matches, and for no other request.
    #[serde(default)]
    pub(super) when: Option<Pattern>,
    /// With this pattern, the answer is used only for requests whose instructions match: for scripts of several tasks
    /// whose prompts are equal.
    #[serde(default)]
    pub(super) task: Option<Pattern>,
    #[serde(default)]
    pub(super) reasoning: String,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) calls: Vec<ScriptedCall>,
    /// Token usage; one token per four bytes when not given.
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) stop: Option<StopReason>,
    /// Number of characters per streamed piece.
    #[serde(default = "usual_chunk")]
    pub(super) chunk: usize,
    /// Pause before each piece, in milliseconds.
    #[serde(default)]
    pub(super) delay_ms: u64,
    /// Pause before the first piece, in milliseconds.
    #[serde(default)]
    pub(super) first_delay_ms: Option<u64>,
    /// Failures that occur before the answer; each occurs once.
    #[serde(default)]
    pub(super) failures: Vec<ScriptedFailure>,
}

impl ScriptedAnswer {
    /// True for an answer without patterns, which is used in the order of the file.
    pub(super) const fn is_in_order(&self) -> bool {
        self.when.is_none() && self.task.is_none()
    }
}

const fn usual_chunk() -> usize {
    16
}

/// A tool call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    #[serde(default)]
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// Arguments as an object.
    #[serde(default)]
    arguments: Option<Value>,
    /// Arguments as text, for arguments that are not valid JSON.
    #[serde(default)]
    raw_arguments: Option<String>,
}

impl ScriptedCall {
    /// Arguments as the model writes them.
    pub(super) fn text(&self) -> String {
        match (&self.raw_arguments, &self.arguments) {
            (Some(raw), _) => raw.clone(),
            (None, Some(value)) => value.to_string(),
            (None, None) => "{}".to_owned(),
        }
    }
}

/// A simulated failure: an HTTP status, an interrupted answer, or a call that hangs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedFailure {
    /// HTTP status of the response. If neither `status`, `cut_after` nor `hang` is set, the call fails with a timeout.
    #[serde(default)]
    pub(super) status: Option<u16>,
    /// Wait requested by the provider, in seconds.
    #[serde(default)]
    pub(super) retry_after: Option<f64>,
    #[serde(default)]
    pub(super) message: Option<String>,
    /// Number of characters of the text after which the answer is interrupted.
    #[serde(default)]
    pub(super) cut_after: Option<usize>,
    /// Whether the call hangs until a limit or the caller ends it.
    #[serde(default)]
    pub(super) hang: bool,
}

/// A regular expression.
pub(super) struct Pattern(pub(super) Regex);

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text)
            .map(Self)
            .map_err(|_| D::Error::custom(format!("`{text}` is not a regular expression")))
    }
}

impl Script {
    /// Parses a script.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, ModelError> {
        let script: Self = yaml::read(file, text)?;
        if script.answers.is_empty() {
            return Err(yaml::broken(file, "the script has no `answers`"));
        }
        if script
            .price
            .is_some_and(|price| Price::read(&price).is_none())
        {
            return Err(yaml::broken(file, "the price is not a valid number"));
        }
        for (place, answer) in script.answers.iter().enumerate() {
            let number = place + 1;
            if answer.chunk == 0 {
                let message = format!("the `chunk` of answer {number} must be at least 1");
                return Err(yaml::broken(file, message));
            }
            let mut calls = answer.calls.iter();
            if calls.any(|call| call.arguments.is_some() && call.raw_arguments.is_some()) {
                let message = format!(
                    "a call of answer {number} has both `arguments` and `raw_arguments`; give one"
                );
                return Err(yaml::broken(file, message));
            }
        }
        Ok(script)
    }
}
