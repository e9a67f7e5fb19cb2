//! Arguments of actions: allowed values, and the values that a user gives.
//!
//! No error message repeats a value, because it may be a password.

use std::fmt;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use super::Action;
use crate::{Code, Diagnose, Hint, Placeholder, hint, nearest, suggest};

/// Maximum length of a value.
const MAX_VALUE_BYTES: usize = 65_536;

/// Type of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionArgumentType {
    /// Text, possibly of several lines.
    String,
    /// A whole number.
    Integer,
    Number,
    /// True or false.
    Boolean,
    /// Path of a file or directory.
    Path,
    /// A URL with a scheme.
    Url,
    /// One of the texts that `choices` lists.
    Choice,
}

impl ActionArgumentType {
    /// Name of the type in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Path => "path",
            Self::Url => "url",
            Self::Choice => "choice",
        }
    }

    pub(super) const fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }

    pub(super) const fn is_text(self) -> bool {
        !matches!(self, Self::Integer | Self::Number | Self::Boolean)
    }
}

/// An argument that the user gives when creating a plan from an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionArgument {
    /// Name, as written in the file.
    pub name: String,
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: ActionArgumentType,
    /// Whether the argument must be given.
    pub required: bool,
    /// Purpose of the argument, for the user.
    pub description: Option<String>,
    /// Value when none is given.
    pub default: Option<Value>,
    /// Allowed values; any when empty.
    pub choices: Vec<Value>,
    /// Minimum of a number.
    pub minimum: Option<Number>,
    /// Maximum of a number.
    pub maximum: Option<Number>,
    /// A regular expression that the whole value must match.
    pub pattern: Option<String>,
}

/// Validated argument values for a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionValues {
    /// Value of each argument that has one, under the name in the file.
    pub values: Map<String, Value>,
    /// Names of the arguments that have a value, in the order of the file.
    pub order: Vec<String>,
}

/// One problem with the given arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentProblem {
    /// The action has no such argument.
    Unknown {
        /// Name as given.
        name: String,
        /// Most similar argument name.
        nearest: Option<String>,
    },
    /// The argument is given more than once.
    Twice(String),
    /// The argument is required and not given.
    Missing(String),
    /// The value is invalid.
    Wrong {
        name: String,
        /// Description of the allowed values.
        problem: String,
    },
}

impl fmt::Display for ArgumentProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, .. } => write!(formatter, "there is no argument `{name}`"),
            Self::Twice(name) => write!(formatter, "`{name}` is given twice"),
            Self::Missing(name) => write!(formatter, "`{name}` is missing"),
            Self::Wrong { name, problem } => write!(formatter, "`{name}` {problem}"),
        }
    }
}

/// All problems with the arguments given for an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid arguments of {action}: {}", join_problems(.problems))]
pub struct ActionArgumentError {
    /// Name of the action.
    pub action: String,
    /// The problems: unknown names first, then in the order of the file.
    pub problems: Vec<ArgumentProblem>,
}

fn join_problems(problems: &[ArgumentProblem]) -> String {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    all.join("; ")
}

impl Diagnose for ActionArgumentError {
    fn code(&self) -> Code {
        Code::InvalidActionArgument
    }

    fn hint(&self) -> Option<Hint> {
        let similar = self.problems.iter().find_map(|problem| match problem {
            ArgumentProblem::Unknown { nearest, .. } => nearest.as_deref(),
            _ => None,
        });
        let show = suggest::action_show(&self.action);
        Some(match similar {
            Some(similar) => hint!("did you mean `{}`? {} lists the arguments", similar, show),
            None => hint!(
                "give each as `{}`; {} lists the arguments",
                suggest::plan_use_with_argument(Placeholder("NAME=VALUE")).only_arguments(),
                show
            ),
        })
    }

    fn details(&self) -> Value {
        let names = |select: &dyn Fn(&ArgumentProblem) -> Option<&String>| -> Vec<String> {
            self.problems.iter().filter_map(select).cloned().collect()
        };
        json!({
            "action": self.action,
            "missing": names(&|problem| match problem {
                ArgumentProblem::Missing(name) => Some(name),
                _ => None,
            }),
            "unknown": names(&|problem| match problem {
                ArgumentProblem::Unknown { name, .. } => Some(name),
                _ => None,
            }),
            "wrong": names(&|problem| match problem {
                ArgumentProblem::Wrong { name, .. } | ArgumentProblem::Twice(name) => Some(name),
                _ => None,
            }),
        })
    }
}

/// Normalizes a name for comparison: hyphen and underscore are equivalent.
pub(super) fn key(name: &str) -> String {
    name.replace('-', "_")
}

pub(super) fn named<'a>(arguments: &'a [ActionArgument], name: &str) -> Option<&'a ActionArgument> {
    let normalized = key(name);
    arguments
        .iter()
        .find(|argument| key(&argument.name) == normalized)
}

/// Converts a value to text, for messages and rendered texts.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl ActionArgument {
    /// Parses a given value.
    fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            ActionArgumentType::Integer => text.parse::<i64>().ok().map(Value::from),
            ActionArgumentType::Number => {
                serde_json::from_str::<Number>(text).ok().map(Value::Number)
            }
            ActionArgumentType::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Some(true.into()),
                "false" | "no" | "0" => Some(false.into()),
                _ => None,
            },
            _ => Some(text.into()),
        };
        let value = value.ok_or_else(|| self.must_be())?;
        self.check(&value).map(|()| value)
    }

    /// Describes the allowed values for the user.
    fn must_be(&self) -> String {
        let expected = match self.kind {
            ActionArgumentType::String => "a text",
            ActionArgumentType::Integer => "a whole number",
            ActionArgumentType::Number => "a number",
            ActionArgumentType::Boolean => "true or false",
            ActionArgumentType::Path => "a path on one line",
            ActionArgumentType::Url => "an address such as https://host/path",
            ActionArgumentType::Choice => "one of its choices",
        };
        format!("must be {expected}")
    }

    /// Checks a value; the error describes the allowed values.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if !self.has_type_of(value) {
            return Err(self.must_be());
        }
        if let Some(text) = value.as_str() {
            check_text(text)?;
            if let Some(pattern) = &self.pattern
                && !whole_pattern(pattern)?.is_match(text)
            {
                return Err(format!("must match `{pattern}` as a whole"));
            }
        }
        if let Value::Number(number) = value {
            if let Some(minimum) = &self.minimum
                && is_less(number, minimum)
            {
                return Err(format!("must be at least {minimum}"));
            }
            if let Some(maximum) = &self.maximum
                && is_less(maximum, number)
            {
                return Err(format!("must be at most {maximum}"));
            }
        }
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| is_same(choice, value)) {
            let choices: Vec<String> = self.choices.iter().map(shown).collect();
            return Err(format!("must be one of: {}", choices.join(", ")));
        }
        Ok(())
    }

    fn has_type_of(&self, value: &Value) -> bool {
        match self.kind {
            ActionArgumentType::String | ActionArgumentType::Choice => value.is_string(),
            ActionArgumentType::Integer => value.is_i64(),
            ActionArgumentType::Number => value.is_number(),
            ActionArgumentType::Boolean => value.is_boolean(),
            ActionArgumentType::Path => value
                .as_str()
                .is_some_and(|text| !text.is_empty() && !text.contains(char::is_control)),
            ActionArgumentType::Url => value.as_str().is_some_and(is_url),
        }
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(format!("must have at most {MAX_VALUE_BYTES} bytes"));
    }
    let is_illegal = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    if text.contains(is_illegal) {
        return Err("must not contain control characters".to_owned());
    }
    Ok(())
}

/// Compiles a pattern that must match a value as a whole.
pub(super) fn whole_pattern(pattern: &str) -> Result<Regex, String> {
    let invalid = || format!("`{pattern}` is not a regular expression");
    // Compile the pattern on its own first: a lone parenthesis could close the group that is added
    // around it.
    Regex::new(pattern).map_err(|_| invalid())?;
    Regex::new(&format!("^(?:{pattern})$")).map_err(|_| invalid())
}

/// Compares numbers. Integers are compared exactly, because floating point cannot represent all of
/// them.
pub(super) fn is_less(left: &Number, right: &Number) -> bool {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left < right,
        _ => match (left.as_f64(), right.as_f64()) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        },
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            !is_less(left, right) && !is_less(right, left)
        }
        _ => left == right,
    }
}

fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(legal)
            && !rest.is_empty()
            && !rest.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    })
}

impl Action {
    /// Validates the given arguments and fills in defaults. An optional argument without default
    /// that is not given has no value.
    pub fn resolve(&self, given: &[(String, String)]) -> Result<ActionValues, ActionArgumentError> {
        let mut problems = Vec::new();
        for (name, _) in given {
            if self.argument(name).is_none() {
                let known = self.arguments.iter().map(|argument| argument.name.as_str());
                problems.push(ArgumentProblem::Unknown {
                    name: name.clone(),
                    nearest: nearest::best(name, known),
                });
            }
        }
        let mut resolved = ActionValues::default();
        for argument in &self.arguments {
            let normalized = key(&argument.name);
            let mut occurrences = given.iter().filter(|(name, _)| key(name) == normalized);
            let value = match (occurrences.next(), occurrences.next()) {
                (Some(_), Some(_)) => {
                    problems.push(ArgumentProblem::Twice(argument.name.clone()));
                    continue;
                }
                (Some((_, text)), None) => match argument.parse(text) {
                    Ok(value) => Some(value),
                    Err(problem) => {
                        problems.push(ArgumentProblem::Wrong {
                            name: argument.name.clone(),
                            problem,
                        });
                        continue;
                    }
                },
                _ => argument.default.clone(),
            };
            match value {
                Some(value) => {
                    resolved.values.insert(argument.name.clone(), value);
                    resolved.order.push(argument.name.clone());
                }
                None if argument.required => {
                    problems.push(ArgumentProblem::Missing(argument.name.clone()));
                }
                None => {}
            }
        }
        if problems.is_empty() {
            return Ok(resolved);
        }
        Err(ActionArgumentError {
            action: self.name.clone(),
            problems,
        })
    }
}
