//! Placeholders in commands: `{name}` is replaced by an argument, `{{name}}` is the literal text
//! `{name}`.
//!
//! The text of a shell command never contains the value of an argument: the placeholder becomes a
//! reference to an environment variable, with the quotes that its position requires. A value
//! therefore cannot add words or commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// A placeholder or an escaped placeholder. `${name}` is a shell variable, not a placeholder.
static PLACEHOLDER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\$?\{\{?([a-z][a-z0-9_-]*)\}\}?").ok());

/// The canonical name of an argument: hyphen and underscore are equivalent.
pub(super) fn canonical(name: &str) -> String {
    name.trim().replace('-', "_")
}

/// The meaning of a match of [`PLACEHOLDER`].
enum PlaceholderMatch {
    /// A placeholder for the argument of this name.
    Placeholder(String),
    /// Literal text.
    Text(String),
}

fn classify(captures: &Captures<'_>) -> PlaceholderMatch {
    let (whole, name) = (&captures[0], &captures[1]);
    if whole.starts_with('$') || whole.starts_with("{{") != whole.ends_with("}}") {
        // In `{a}}`, the second closing brace does not belong to the placeholder.
        if let Some(inner) = whole
            .strip_suffix('}')
            .filter(|inner| inner.starts_with('{') && inner.ends_with('}'))
        {
            return if inner.starts_with("{{") {
                PlaceholderMatch::Text(whole.to_owned())
            } else {
                PlaceholderMatch::Placeholder(canonical(name))
            };
        }
        return PlaceholderMatch::Text(whole.to_owned());
    }
    if whole.starts_with("{{") {
        PlaceholderMatch::Text(whole[1..whole.len() - 1].to_owned())
    } else {
        PlaceholderMatch::Placeholder(canonical(name))
    }
}

/// Replaces every placeholder. `fill` receives the name of the placeholder and its byte offset in the
/// text.
fn replace(text: &str, mut fill: impl FnMut(&str, usize) -> String) -> String {
    let Some(pattern) = PLACEHOLDER.as_ref() else {
        return text.to_owned();
    };
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        result.push_str(&text[end..whole.start()]);
        match classify(&captures) {
            PlaceholderMatch::Text(literal) => result.push_str(&literal),
            PlaceholderMatch::Placeholder(name) => {
                result.push_str(&fill(&name, whole.start()));
                if whole.as_str().ends_with("}}") {
                    result.push('}');
                }
            }
        }
        end = whole.end();
    }
    result.push_str(&text[end..]);
    result
}

/// The names of the placeholders in a text.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    replace(text, |name, _| {
        names.insert(name.to_owned());
        String::new()
    });
    names
}

/// The names of the placeholders in all texts of a JSON value.
pub(super) fn names_in(value: &Value) -> BTreeSet<String> {
    match value {
        Value::String(text) => names(text),
        Value::Array(items) => items.iter().flat_map(names_in).collect(),
        Value::Object(fields) => fields.values().flat_map(names_in).collect(),
        _ => BTreeSet::new(),
    }
}

/// Fills the placeholders in a text. Placeholders in the values are not replaced.
pub(super) fn fill(text: &str, arguments: &BTreeMap<String, String>) -> String {
    replace(text, |name, _| {
        arguments.get(name).cloned().unwrap_or_default()
    })
}

/// Fills the placeholders in all texts of a JSON value.
pub(super) fn fill_in(value: &Value, arguments: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, arguments)),
        Value::Array(items) => items.iter().map(|item| fill_in(item, arguments)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), fill_in(field, arguments)))
            .collect(),
        other => other.clone(),
    }
}

/// The name of the environment variable that passes an argument to a shell.
pub(super) fn variable(name: &str) -> String {
    format!("CLEVERAGENTS_ARGUMENT_{}", name.to_uppercase())
}

/// The quotes around a placeholder in a shell text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteStyle {
    None,
    Single,
    Double,
}

/// The quotes that are open at the end of a text.
fn quotes_before(text: &str) -> QuoteStyle {
    let mut quotes = QuoteStyle::None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        quotes = match (quotes, letter) {
            (QuoteStyle::None | QuoteStyle::Double, '\\') => {
                letters.next();
                quotes
            }
            (QuoteStyle::None, '\'') => QuoteStyle::Single,
            (QuoteStyle::None, '"') => QuoteStyle::Double,
            (QuoteStyle::Single, '\'') | (QuoteStyle::Double, '"') => QuoteStyle::None,
            _ => quotes,
        };
    }
    quotes
}

/// Replaces every placeholder in a shell text with a quoted variable.
pub(super) fn for_shell(text: &str) -> String {
    replace(text, |name, at| {
        let variable = format!("${{{}}}", variable(name));
        match quotes_before(&text[..at]) {
            QuoteStyle::None => format!("\"{variable}\""),
            QuoteStyle::Double => variable,
            QuoteStyle::Single => format!("'\"{variable}\"'"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{fill, for_shell, names};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn placeholders_differ_from_literal_braces() {
        for (text, expected) in [
            ("cargo test {crate}", vec!["crate"]),
            ("a {x}{y-z} {x}", vec!["x", "y_z"]),
            ("awk '{{print}}' {file}", vec!["file"]),
            ("echo ${HOME} ${name} {a,b} { x; } {A} {1}", vec![]),
            ("awk '{if(x){y}}'", vec!["y"]),
            ("", vec![]),
        ] {
            let found: Vec<String> = names(text).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
        let arguments = BTreeMap::from([("y".to_owned(), "{z}".to_owned())]);
        assert_eq!(fill("{if(x){y}} {{y}}", &arguments), "{if(x){z}} {y}");
    }

    /// The shell must pass every value as a single word and not interpret it.
    #[test]
    fn a_shell_passes_values_as_single_words_in_any_quotes() {
        let hostile = "a b; touch /nowhere/x $(echo c) `echo d` ' \" \\ *";
        for text in [
            "printf %s {value}",
            "printf %s \"{value}\"",
            "printf %s '{value}'",
            "printf %s \"\"{value}''",
        ] {
            let output = std::process::Command::new("sh")
                .args(["-c", &for_shell(text)])
                .env("CLEVERAGENTS_ARGUMENT_VALUE", hostile)
                .output()
                .expect("sh runs");
            assert!(output.status.success(), "{text}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), hostile, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_placeholders_is_unchanged(text in "[^{}]{0,40}") {
            prop_assert_eq!(fill(&text, &BTreeMap::new()), text.clone());
            prop_assert_eq!(for_shell(&text), text);
        }

        #[test]
        fn placeholders_in_values_are_not_filled(value in "\\PC{0,20}") {
            let arguments = BTreeMap::from([("a".to_owned(), value.clone())]);
            prop_assert_eq!(fill("<{a}>", &arguments), format!("<{value}>"));
        }
    }
}
