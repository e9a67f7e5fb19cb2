//! [`Hint`]: advice on an error, as text and suggested operations.
//!
//! Only the command line writes commands. A hint names operations, and each front end renders them in its own way.
//! [`Hint::neutral`] is for network clients, which know operations and their parameters; the command line renders the
//! same hint with its own commands (`cli/src/output/suggestion.rs`).

use std::collections::BTreeMap;
use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Advice on an error. Made of a text, of a [`Suggestion`], or of both by [`hint!`](crate::hint!).
///
/// It does not implement `Display`, because each front end renders operations differently.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hint(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Operation(Suggestion),
    /// Only the arguments of an operation that the surrounding text already names.
    Arguments(Suggestion),
}

/// An operation that a hint suggests. All are created in `suggest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// Operation, such as `plan/execute`; the words of the command, such as `config/set`, where there is no operation.
    pub operation: String,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, ArgumentValue>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgumentValue {
    /// A switch.
    Flag(bool),
    Text(String),
    /// A value that only the caller knows.
    Placeholder {
        /// Description in capital letters, such as `FILE`.
        placeholder: String,
    },
}

/// Creates an [`ArgumentValue`] that only the caller knows, such as `Placeholder("FILE")`.
#[derive(Debug, Clone, Copy)]
pub struct Placeholder(pub &'static str);

impl From<Placeholder> for ArgumentValue {
    fn from(placeholder: Placeholder) -> Self {
        Self::Placeholder {
            placeholder: placeholder.0.to_owned(),
        }
    }
}

impl<T: Display> From<T> for ArgumentValue {
    fn from(value: T) -> Self {
        Self::Text(value.to_string())
    }
}

impl ArgumentValue {
    fn neutral(&self) -> String {
        match self {
            Self::Flag(is_set) => is_set.to_string(),
            Self::Text(text) => text.clone(),
            Self::Placeholder { placeholder } => placeholder.clone(),
        }
    }
}

impl Suggestion {
    pub(crate) fn new(operation: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            arguments: BTreeMap::new(),
        }
    }

    pub(crate) fn with(mut self, parameter: &str, value: impl Into<ArgumentValue>) -> Self {
        self.arguments.insert(parameter.to_owned(), value.into());
        self
    }

    pub(crate) fn with_flag(mut self, parameter: &str) -> Self {
        let value = ArgumentValue::Flag(true);
        self.arguments.insert(parameter.to_owned(), value);
        self
    }

    /// The operation with its arguments for network clients: `` `plan/execute` (reference=01J…) ``.
    pub fn neutral(&self) -> String {
        if self.arguments.is_empty() {
            return format!("`{}`", self.operation);
        }
        format!("`{}` ({})", self.operation, self.neutral_arguments())
    }

    fn neutral_arguments(&self) -> String {
        let all = self.arguments.iter();
        let all: Vec<String> = all
            .map(|(name, value)| format!("{name}={}", value.neutral()))
            .collect();
        all.join(", ")
    }

    /// A hint that shows only the arguments, because its text already names the operation.
    pub fn only_arguments(self) -> Hint {
        Hint(vec![Part::Arguments(self)])
    }
}

impl<T: Display> From<T> for Hint {
    fn from(text: T) -> Self {
        [Part::Text(text.to_string())].into_iter().collect()
    }
}

impl From<Suggestion> for Hint {
    fn from(suggestion: Suggestion) -> Self {
        Self(vec![Part::Operation(suggestion)])
    }
}

impl Hint {
    /// Number of `{}` in a template. [`hint!`](crate::hint!) compares it with the number of parts.
    #[doc(hidden)]
    pub const fn places(template: &str) -> usize {
        let bytes = template.as_bytes();
        let (mut at, mut count) = (1, 0);
        while at < bytes.len() {
            if bytes[at - 1] == b'{' && bytes[at] == b'}' {
                count += 1;
            }
            at += 1;
        }
        count
    }

    /// Fills the `{}` of a template; [`hint!`](crate::hint!) ensures that their number matches the parts.
    #[doc(hidden)]
    pub fn fill<const PARTS: usize>(template: &str, parts: [Self; PARTS]) -> Self {
        let mut texts = template.split("{}").map(Self::from);
        let mut filled = texts.next().into_iter().collect::<Vec<_>>();
        for (part, text) in parts.into_iter().zip(texts) {
            filled.extend([part, text]);
        }
        filled.into_iter().collect()
    }

    /// Joins hints with a separator.
    pub fn join(hints: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut all = Vec::new();
        for hint in hints {
            if !all.is_empty() {
                all.push(Self::from(between));
            }
            all.push(hint);
        }
        all.into_iter().collect()
    }

    /// The text for network clients.
    pub fn neutral(&self) -> String {
        self.render(Suggestion::neutral, Suggestion::neutral_arguments)
    }

    /// Renders the text with the given functions for operations, and for arguments without their operation.
    pub fn render(
        &self,
        operation: impl Fn(&Suggestion) -> String,
        arguments: impl Fn(&Suggestion) -> String,
    ) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Operation(suggestion) => operation(suggestion),
            Part::Arguments(suggestion) => arguments(suggestion),
        });
        parts.collect()
    }

    /// The suggestions, in the order of the text.
    pub fn suggestions(&self) -> Vec<Suggestion> {
        let suggestions = self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Operation(suggestion) | Part::Arguments(suggestion) => Some(suggestion.clone()),
        });
        suggestions.collect()
    }

    /// Rebuilds a hint from a neutral text and its suggestions, as received over the network. A suggestion that the
    /// text does not contain is dropped.
    pub fn from_neutral(text: &str, suggestions: Vec<Suggestion>) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        for suggestion in suggestions {
            let (operation_text, arguments) =
                (suggestion.neutral(), suggestion.neutral_arguments());
            let operation_at = rest.find(&operation_text);
            let arguments_at = rest.find(&arguments).filter(|_| !arguments.is_empty());
            let (at, length, part) = match (operation_at, arguments_at) {
                // The arguments of the operation itself follow its name.
                (Some(at), other) if other.is_none_or(|other| at < other) => {
                    (at, operation_text.len(), Part::Operation(suggestion))
                }
                (_, Some(at)) => (at, arguments.len(), Part::Arguments(suggestion)),
                _ => continue,
            };
            let (before, after) = (&rest[..at], &rest[at + length..]);
            parts.extend([Part::Text(before.to_owned()), part]);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.into_iter().collect()
    }
}

/// Concatenates hints.
impl FromIterator<Self> for Hint {
    fn from_iter<I: IntoIterator<Item = Self>>(hints: I) -> Self {
        hints.into_iter().flat_map(|hint| hint.0).collect()
    }
}

/// Merges adjacent texts, so that hints that read the same are equal.
impl FromIterator<Part> for Hint {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        let mut all: Vec<Part> = Vec::new();
        for part in parts {
            match (all.last_mut(), part) {
                (_, Part::Text(text)) if text.is_empty() => {}
                (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
                (_, part) => all.push(part),
            }
        }
        Self(all)
    }
}

/// Creates a [`Hint`] from a text with a `{}` for each part that follows: texts, suggestions or other hints.
///
/// ```
/// use cleveragents_domain::{hint, suggest};
///
/// let hint = hint!("did you mean `{}`? {} shows all", "weekly", suggest::session_list());
/// assert_eq!(hint.neutral(), "did you mean `weekly`? `session/list` shows all");
/// ```
#[macro_export]
macro_rules! hint {
    ($template:literal $(, $part:expr)* $(,)?) => {
        $crate::Hint::fill(
            const {
                assert!(
                    $crate::Hint::places($template) == <[&str]>::len(&[$(stringify!($part)),*]),
                    "a hint must have one part per placeholder",
                );
                $template
            },
            [$($crate::Hint::from($part)),*],
        )
    };
}

#[cfg(test)]
mod tests {
    use super::{Hint, Placeholder, Suggestion};
    use proptest::prelude::*;
    use serde_json::json;

    fn execute() -> Suggestion {
        Suggestion::new("plan/execute").with("reference", 7)
    }

    #[test]
    fn parts_replace_the_placeholders_of_the_template() {
        let set = Suggestion::new("config/set").with("value", Placeholder("N"));
        let update = execute().with_flag("redo").only_arguments();
        let hint = crate::hint!("run {}, or {}; {} with {}", execute(), set, "{}", update);
        assert_eq!(
            hint.neutral(),
            "run `plan/execute` (reference=7), or `config/set` (value=N); {} with redo=true, reference=7"
        );
        assert_eq!(Hint::from("a {} b").neutral(), "a {} b");
    }

    #[test]
    fn suggestions_are_objects_with_operation_and_arguments() {
        let suggestion = execute()
            .with_flag("redo")
            .with("answer", Placeholder("TEXT"));
        let written = json!(suggestion);
        assert_eq!(
            written,
            json!({
                "operation": "plan/execute",
                "arguments": {"answer": {"placeholder": "TEXT"}, "redo": true, "reference": "7"},
            })
        );
        let read: Suggestion = serde_json::from_value(written).expect("a suggestion");
        assert_eq!(read, suggestion);
    }

    #[test]
    fn a_suggestion_that_is_not_in_the_text_is_left_out() {
        let hint = Hint::from_neutral("ask again", vec![execute()]);
        assert_eq!(
            (hint.neutral().as_str(), hint.suggestions().len()),
            ("ask again", 0)
        );
    }

    proptest! {
        /// A hint sent as text and suggestions is the same hint after it is received.
        #[test]
        fn hints_are_unchanged_after_transmission(
            parts in prop::collection::vec(("[a-z ]{0,8}", "[a-z]{1,4}/[a-z]{1,4}", prop::option::of("[A-Z]{1,5}"), any::<bool>()), 0..5),
        ) {
            let mut hints = Vec::new();
            for (text, operation, value, is_whole) in &parts {
                hints.push(Hint::from(text));
                let mut suggestion = Suggestion::new(operation);
                if let Some(value) = value {
                    suggestion = suggestion.with("value", value);
                }
                hints.push(if *is_whole || value.is_none() { suggestion.into() } else { suggestion.only_arguments() });
            }
            let hint: Hint = hints.into_iter().collect();
            let read = Hint::from_neutral(&hint.neutral(), hint.suggestions());
            prop_assert_eq!(read, hint);
        }
    }
}
