//! Error messages for invalid arguments. They contain the argument, the expected value, the received value and an
//! example.

use std::fmt::Write as _;

use cleveragents_domain::nearest;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use crate::model_tools::properties_of;
use crate::ports::Redact;

/// Maximum number of errors in one message.
const MAX_ERRORS: usize = 5;

/// Maximum length of a value in a message, in bytes. Longer values are truncated.
const MAX_VALUE_LENGTH: usize = 60;

/// Validates a value against a schema and describes the errors, redacted; `None` when the value is valid.
pub(crate) fn schema_errors(
    validator: &Validator,
    schema: &Value,
    value: &Value,
    redactor: &dyn Redact,
) -> Option<String> {
    let errors = schema_errors_unredacted(validator, schema, value)?;
    let errors: Vec<String> = errors
        .iter()
        .map(|error| redactor.redact(error).chars().take(400).collect())
        .collect();
    Some(errors.join("; "))
}

/// Like [`schema_errors`], but the messages may contain secrets.
pub(crate) fn schema_errors_unredacted(
    validator: &Validator,
    schema: &Value,
    value: &Value,
) -> Option<Vec<String>> {
    let errors = validator.iter_errors(value).take(MAX_ERRORS);
    let messages: Vec<String> = errors.map(|error| describe(&error, schema)).collect();
    (!messages.is_empty()).then_some(messages)
}

/// Appends an example of valid arguments.
pub(crate) fn with_example(errors: String, schema: &Value) -> String {
    match example_arguments(schema) {
        Some(example) => format!("{errors}. Example: {example}"),
        None => errors,
    }
}

fn describe(error: &ValidationError<'_>, schema: &Value) -> String {
    let pointer = error.instance_path().to_string();
    let place = place(&pointer);
    let value = error.instance();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            format!("`{}` is missing", join_place(&place, name))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = properties_of(property_at(schema, &pointer));
            let messages = unexpected
                .iter()
                .map(|name| unknown_argument(name, &place, &known));
            messages.collect::<Vec<_>>().join("; ")
        }
        ValidationErrorKind::Type { .. } => {
            let expected = expected_types(property_at(schema, &pointer));
            format!(
                "{} must be {expected}; got {}",
                subject_of(&place),
                describe_value(value)
            )
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(|options| {
                let options = options.iter().filter(|option| !option.is_null());
                options.map(ToString::to_string).collect::<Vec<_>>()
            });
            let options = options.unwrap_or_default().join(", ");
            format!(
                "{} must be one of {options}; got {}",
                subject_of(&place),
                describe_value(value)
            )
        }
        ValidationErrorKind::Minimum { limit } => {
            format!(
                "{} must be at least {limit}; got {}",
                subject_of(&place),
                describe_value(value)
            )
        }
        ValidationErrorKind::Maximum { limit } => {
            format!(
                "{} must be at most {limit}; got {}",
                subject_of(&place),
                describe_value(value)
            )
        }
        ValidationErrorKind::MinLength { limit: 1 }
        | ValidationErrorKind::MinItems { limit: 1 } => {
            format!("{} is empty", subject_of(&place))
        }
        _ if place.is_empty() => error.to_string(),
        _ => format!("`{place}`: {error}"),
    }
}

fn unknown_argument(name: &str, place: &str, known: &[&str]) -> String {
    let path = join_place(place, name);
    let suggestion = nearest::best(name, known.iter().copied());
    match suggestion {
        Some(suggestion) => format!("unknown argument `{path}`; did you mean `{suggestion}`?"),
        None if known.is_empty() => format!("unknown argument `{path}`"),
        None => format!(
            "unknown argument `{path}`; the arguments are `{}`",
            known.join("`, `")
        ),
    }
}

/// Converts a JSON pointer to a readable path: `/edits/0/old_string` becomes `edits[0].old_string`.
fn place(pointer: &str) -> String {
    let mut place = String::new();
    for name in pointer.split('/').skip(1) {
        if name.chars().all(|letter| letter.is_ascii_digit()) {
            let _never_fails = write!(place, "[{name}]");
        } else {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(&name.replace("~1", "/").replace("~0", "~"));
        }
    }
    place
}

fn join_place(place: &str, name: &str) -> String {
    if place.is_empty() {
        name.to_owned()
    } else {
        format!("{place}.{name}")
    }
}

/// The place of a value, as the subject of an error message: "`edits[0].old_string`" or "the value".
fn subject_of(place: &str) -> String {
    if place.is_empty() {
        "the value".to_owned()
    } else {
        format!("`{place}`")
    }
}

/// The subschema of the value at a JSON pointer.
fn property_at<'s>(schema: &'s Value, pointer: &str) -> &'s Value {
    pointer.split('/').skip(1).fold(schema, |schema, name| {
        if name.chars().all(|letter| letter.is_ascii_digit()) {
            &schema["items"]
        } else {
            &schema["properties"][name]
        }
    })
}

fn expected_types(property: &Value) -> String {
    let phrase = |kind: &str| match kind {
        "string" => "a string",
        "integer" => "an integer, such as 10",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        _ => "null",
    };
    match &property["type"] {
        Value::String(kind) => phrase(kind).to_owned(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            let kinds = kinds.filter(|kind| *kind != "null").map(phrase);
            kinds.collect::<Vec<_>>().join(" or ")
        }
        _ => "of another type".to_owned(),
    }
}

/// Describes a value by its type and its start.
fn describe_value(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(flag) => return flag.to_string(),
        Value::Number(number) => return format!("the number {number}"),
        Value::String(_) => "the string",
        Value::Array(_) => "the list",
        Value::Object(_) => "the object",
    };
    let text = value.to_string();
    if text.len() <= MAX_VALUE_LENGTH {
        return format!("{kind} {text}");
    }
    let end = text.floor_char_boundary(MAX_VALUE_LENGTH);
    format!("{kind} {}…", &text[..end])
}

/// A valid sample object for a schema, with all required properties. `None` when no property is required, or a type
/// is unknown.
pub fn example_arguments(schema: &Value) -> Option<Value> {
    let required = schema["required"].as_array()?;
    let mut fields = serde_json::Map::new();
    for name in required {
        let name = name.as_str()?;
        fields.insert(name.to_owned(), sample(name, &schema["properties"][name])?);
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn sample(name: &str, property: &Value) -> Option<Value> {
    if let Some(option) = property["enum"].get(0) {
        return Some(option.clone());
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.iter().find_map(Value::as_str)?,
        _ => return None,
    };
    Some(match kind {
        "string" => match name {
            "path" | "from" => "src/main.py",
            "to" => "src/app.py",
            "pattern" => "TODO",
            "command" => "ls",
            "content" => "first line\n",
            "question" => "Which database should I use?",
            "patch" => "*** Begin Patch\n*** Delete File: old.txt\n*** End Patch",
            "old_text" | "old_string" => "x = 1",
            "new_text" | "new_string" => "x = 2",
            _ => "…",
        }
        .into(),
        "integer" | "number" => property["minimum"].as_u64().unwrap_or(1).into(),
        "boolean" => true.into(),
        "object" => example_arguments(property).unwrap_or_else(|| json!({})),
        "array" => {
            let item = &property["items"];
            let item = example_arguments(item).or_else(|| sample("", item));
            json!([item?])
        }
        _ => return None,
    })
}

/// Describes a JSON syntax error, with the text just before it.
pub(crate) fn not_json(text: &str, error: &serde_json::Error, redactor: &dyn Redact) -> String {
    let before = excerpt(text, error.line(), error.column(), redactor);
    if error.is_eof() {
        return format!(
            "they are not valid JSON: they are truncated{before}. Send the whole call again; if it is too long for one \
             response, write the file in parts: builtin/file-write for the first, builtin/file-edit for the others"
        );
    }
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or(&message);
    format!("they are not valid JSON: {problem}{before}")
}

/// The text just before the place of an error. Redaction precedes truncation, so that no part of a secret remains.
fn excerpt(text: &str, line: usize, column: usize, redactor: &dyn Redact) -> String {
    const MAX_LENGTH: usize = 40;
    let Some(line) = line.checked_sub(1).and_then(|line| text.lines().nth(line)) else {
        return String::new();
    };
    let end = line.floor_char_boundary(column.min(line.len()));
    let before = redactor.redact(&line[..end]);
    let start = before.floor_char_boundary(before.len().saturating_sub(MAX_LENGTH));
    if before.is_empty() {
        return String::new();
    }
    format!(", just after `{}`", &before[start..])
}
