//! Parses the YAML files of users: every error gives line, column and the most similar valid word, and `${NAME}` is
//! replaced in values.
//!
//! The caller defines the fields of a file as a serde type that denies unknown fields. Variables are replaced after
//! parsing, so that the value of a variable can never become part of the file's structure.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::{Hint, hint, nearest};

/// Error in a file, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Description of the error.
    pub message: String,
    /// Line and column, from 1.
    pub place: Option<(u64, u64)>,
    /// Most similar valid word.
    pub nearest: Option<String>,
    /// Suggested fix; `None` when `nearest` is enough.
    pub fix: Option<Hint>,
}

impl Fault {
    /// Creates an error about the file as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            place: None,
            nearest: None,
            fix: None,
        }
    }

    /// Creates an error at a position in the file.
    pub fn at<T>(place: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            place: Some((place.referenced.line(), place.referenced.column())),
            nearest: None,
            fix: None,
        }
    }

    /// Sets line and column, from 1.
    #[must_use]
    pub const fn at_place(mut self, place: (u64, u64)) -> Self {
        self.place = Some(place);
        self
    }

    /// Sets the suggested fix.
    #[must_use]
    pub fn fixed_by(mut self, fix: impl Into<Hint>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Parses YAML.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    read_with(text, serde_saphyr::Options::default())
}

/// Parses YAML with the caller's limits on the file.
pub fn read_with<T: DeserializeOwned>(
    text: &str,
    options: serde_saphyr::Options,
) -> Result<T, Fault> {
    serde_saphyr::from_str_with_options(text, options).map_err(|error| fault(&error))
}

/// Converts a parser error.
fn fault(error: &serde_saphyr::Error) -> Fault {
    let error = error.without_snippet();
    let place = error.location();
    let text = error.to_string();
    // The position is reported separately from the message.
    let mut message = text
        .lines()
        .next()
        .unwrap_or("it cannot be read")
        .to_owned();
    if let Some(place) = place {
        for phrase in [
            format!(" at line {}, column {}", place.line(), place.column()),
            format!("line {} column {}: ", place.line(), place.column()),
            format!("error: line {} column {}: ", place.line(), place.column()),
        ] {
            message = message.replace(&phrase, "");
        }
    }
    let place = place.map(|place| (place.line(), place.column()));
    let (message, nearest, fix) = reword(&message);
    Fault {
        message,
        place,
        nearest,
        fix,
    }
}

/// Each entry: a message of the parser, the same message in plain words, and the suggested fix.
const PARSER_TERMS: &[(&str, &str, &str)] = &[
    (
        "multiple YAML documents",
        "a second document begins here",
        "move it to a separate file",
    ),
    (
        "budget breached: Depth",
        "values are nested too deeply",
        "use fewer levels",
    ),
    (
        "budget breached",
        "the file is too large after expanding aliases",
        "write less, and use fewer aliases",
    ),
    (
        "expected sequence start",
        "a list is expected here",
        "write a list, such as `[a, b]`",
    ),
    (
        "expected string scalar",
        "a text is expected here",
        "write a single text",
    ),
    (
        "expected mapping start",
        "a map is expected here",
        "write `field: value`, one per line",
    ),
];

/// Rewords a parser message. Returns it with the most similar valid word and a fix.
fn reword(message: &str) -> (String, Option<String>, Option<Hint>) {
    for (kind, phrase) in [
        ("field", "there is no field"),
        ("variant", "there is no value"),
    ] {
        let marker = format!("unknown {kind} `");
        if let Some((_, rest)) = message.split_once(&marker)
            && let Some((word, known)) = rest.split_once('`')
        {
            let known = known.rsplit("expected ").next().unwrap_or_default();
            let known: Vec<&str> = known
                .split(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)))
                .filter(|word| !matches!(*word, "" | "one" | "of" | "or"))
                .collect();
            let nearest = nearest::best(word, known.iter().copied());
            let fix = nearest
                .is_none()
                .then(|| hint!("it can be: {}", known.join(", ")));
            return (format!("{phrase} `{word}`"), nearest, fix);
        }
    }
    if let Some(field) = message
        .split("missing field `")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
    {
        let fix = hint!("add `{}: …`", field);
        return (format!("the field `{field}` is missing"), None, Some(fix));
    }
    if let Some((_, rest)) = message.split_once("duplicate field `") {
        let field = rest.split('`').next().unwrap_or(rest);
        let fix = "remove one of them".into();
        let phrase = format!("the field `{field}` occurs twice, under two of its names");
        return (phrase, None, Some(fix));
    }
    if let Some((_, rest)) = message.split_once("duplicate mapping key: ") {
        let field = rest.split(", set ").next().unwrap_or(rest);
        let fix = "remove one of them".into();
        return (format!("the field `{field}` occurs twice"), None, Some(fix));
    }
    match PARSER_TERMS
        .iter()
        .find(|(term, ..)| message.contains(term))
    {
        Some((_, phrase, fix)) => ((*phrase).to_owned(), None, Some((*fix).into())),
        None => (message.to_owned(), None, None),
    }
}

/// Refuses an unknown format version.
pub fn check_version(version: Option<&Spanned<Value>>) -> Result<(), Fault> {
    let Some(version) = version else {
        return Ok(());
    };
    let shown = match &version.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if shown == "3" || shown.starts_with("3.") {
        return Ok(());
    }
    let message = format!("the format version {shown} is not known; this program reads 3.0");
    Err(Fault::at(version, message).fixed_by("write `version: \"3.0\"`, or leave it out"))
}

/// Adds the aliases of fields to the JSON schema of a map. The generated schema contains only the first name of a
/// field.
pub fn add_aliases(schema: &mut serde_json::Map<String, Value>, aliases: &[(&str, &[&str])]) {
    for (name, others) in aliases {
        if let Some(Value::Object(properties)) = schema.get_mut("properties")
            && let Some(property) = properties.get(*name).cloned()
        {
            for other in *others {
                properties.insert((*other).to_owned(), property.clone());
            }
        }
        let Some(Value::Array(required)) = schema.get_mut("required") else {
            continue;
        };
        let count = required.len();
        required.retain(|field| field != name);
        if required.len() < count {
            // One of the names is required.
            let names = std::iter::once(name).chain(*others);
            let any: Vec<Value> = names
                .map(|name| serde_json::json!({"required": [name]}))
                .collect();
            let all = schema
                .entry("allOf")
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(all) = all {
                all.push(serde_json::json!({"anyOf": any}));
            }
        }
    }
}

/// Looks up the value of a variable by its name.
pub type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// Replaces variables in texts.
pub struct Expand<'e> {
    /// The complete file, to find the position of a variable.
    pub text: &'e str,
    /// Available variables.
    pub variables: Variables<'e>,
}

impl Expand<'_> {
    /// Replaces `${NAME}` and `${NAME:default}` in a text. `$${` is a literal `${`.
    pub fn text(&self, text: &mut String) -> Result<(), Fault> {
        let mut rest = text.as_str();
        let mut expanded = String::new();
        while let Some(start) = rest.find("${") {
            if let Some(before) = rest[..start].strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            let Some(end) = rest[start..].find('}').map(|end| start + end) else {
                break;
            };
            expanded.push_str(&rest[..start]);
            let inside = &rest[start + 2..end];
            let (variable, default) = match inside.split_once(':') {
                Some((variable, default)) => (variable, Some(default)),
                None => (inside, None),
            };
            let value = (self.variables)(variable)
                .or_else(|| default.map(|default| default.trim_start_matches('-').to_owned()));
            let Some(value) = value else {
                return Err(self.unset(variable));
            };
            expanded.push_str(&value);
            rest = &rest[end + 1..];
        }
        expanded.push_str(rest);
        *text = expanded;
        Ok(())
    }

    /// Replaces variables in every text of a JSON value. A text that consists only of a variable becomes the boolean or
    /// number that the variable contains.
    pub fn value(&self, value: &mut Value) -> Result<(), Fault> {
        match value {
            Value::String(text) => {
                let is_variable = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
                self.text(text)?;
                if is_variable && let Some(native) = native(text) {
                    *value = native;
                }
                Ok(())
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.value(item)),
            Value::Object(fields) => fields.values_mut().try_for_each(|field| self.value(field)),
            _ => Ok(()),
        }
    }

    fn unset(&self, variable: &str) -> Fault {
        // Variables in comments are not replaced.
        let written = format!("${{{variable}");
        let lines = self.text.lines().enumerate();
        let place = lines
            .filter(|(_, line)| !line.trim_start().starts_with('#'))
            .find_map(|(number, line)| {
                let column = line[..line.find(&written)?].chars().count();
                Some((number as u64 + 1, column as u64 + 1))
            });
        Fault {
            message: format!("the variable `{variable}` is not set"),
            place,
            nearest: None,
            fix: Some(hint!(
                "set it, or give a default: `{}`",
                format!("${{{variable}:default}}")
            )),
        }
    }
}

/// The boolean or number that a text represents.
fn native(text: &str) -> Option<Value> {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Expand, Fault, check_version, read};
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Sample {
        name: String,
        color: Option<Color>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    fn parse_error(text: &str) -> Fault {
        read::<Sample>(text).expect_err("an invalid file")
    }

    #[test]
    fn variables_are_replaced_unless_they_are_escaped() {
        let variables = |name: &str| (name == "A").then(|| "1".to_owned());
        let expand = Expand {
            text: "",
            variables: &variables,
        };
        for (text, expected) in [
            ("${A} ${B:2} $A $$ $5", "1 2 $A $$ $5"),
            ("$${A} $${B} ${A}", "${A} ${B} 1"),
            ("$$${A}", "$${A}"),
            ("$${", "${"),
        ] {
            let mut replaced = text.to_owned();
            expand.text(&mut replaced).expect("set");
            assert_eq!(replaced, expected, "{text}");
        }
    }

    #[test]
    fn an_error_names_its_position_and_the_most_similar_word() {
        let fault = parse_error("name: a\ncolour: red\n");
        assert_eq!(fault.message, "there is no field `colour`");
        assert_eq!(fault.place, Some((2, 1)));
        assert_eq!(fault.nearest.as_deref(), Some("color"));
        let fault = parse_error("name: a\ncolor: gren\n");
        assert_eq!(fault.message, "there is no value `gren`");
        assert_eq!(fault.nearest.as_deref(), Some("green"));
        assert_eq!(fault.place.map(|place| place.0), Some(2));
    }

    #[test]
    fn parser_errors_are_reworded() {
        for (text, message, fix) in [
            (
                "name: a\nname: b\n",
                "the field `name` occurs twice",
                "remove one of them",
            ),
            (
                "name: [a]\n",
                "a text is expected here",
                "write a single text",
            ),
            (
                "color: red\n",
                "the field `name` is missing",
                "add `name: …`",
            ),
            (
                "name: a\n---\nname: b\n",
                "a second document begins here",
                "move it to a separate file",
            ),
        ] {
            let fault = parse_error(text);
            assert_eq!(
                (fault.message.as_str(), fault.fix),
                (message, Some(fix.into()))
            );
        }
        let fault = parse_error("name: a\nzzzzzzzzz: b\n");
        let fix = fault.fix.map(|fix| fix.neutral());
        assert_eq!(fix.as_deref(), Some("it can be: name, color"));
    }

    #[test]
    fn variables_become_texts_numbers_and_booleans() {
        let variables = |name: &str| match name {
            "PORT" => Some("80".to_owned()),
            "ON" => Some("true".to_owned()),
            _ => None,
        };
        let expand = Expand {
            text: "x: 1\n# ${MISSING}\ny: ${MISSING}\n",
            variables: &variables,
        };
        let mut value =
            json!({"a": "${PORT}", "b": ["${ON}", "p${PORT}"], "c": "${NO:7}", "d": "80"});
        expand.value(&mut value).expect("all are set");
        assert_eq!(
            value,
            json!({"a": 80, "b": [true, "p80"], "c": 7, "d": "80"})
        );
        let fault = expand.value(&mut Value::String("${MISSING}".to_owned()));
        assert_eq!(fault.expect_err("not set").place, Some((3, 4)));
    }

    #[test]
    fn only_the_third_format_is_read() {
        let check = |text: &str| check_version(Some(&read(text).expect("a value")));
        for accepted in ["3", "\"3.0\"", "3.1"] {
            assert!(check(accepted).is_ok(), "{accepted}");
        }
        for refused in ["2", "\"4.0\"", "\"30\""] {
            assert!(check(refused).is_err(), "{refused}");
        }
    }
}
