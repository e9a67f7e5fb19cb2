//! The language of expressions and templates: Jinja, without what has no end or no bound.
//!
//! Steps are counted (`fuel`), texts and values that come out have a largest size, and filters whose
//! answer can be much larger than what they are given are our own, with that bound. Nothing looks
//! at files, the clock, the environment or at chance.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value as Jinja};
use serde_json::{Map, Number, Value};

/// What one evaluation may take.
const FUEL: u64 = 100_000;

/// The largest text, in bytes, that a filter or a template makes.
pub(super) const LARGEST_TEXT: usize = 1 << 20;

/// How many values an answer may have in it.
const MOST_PARTS: usize = 200_000;

/// How many bytes of text an answer may have in it.
const MOST_BYTES: usize = 16 << 20;

/// How deep lists and maps may stand inside each other.
const DEEPEST: usize = 100;

/// What expressions and templates are made with.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    // These show the inside of the engine, or have no bound.
    for name in ["debug", "namespace"] {
        environment.remove_global(name);
    }
    for name in ["pprint", "format", "batch", "slice"] {
        environment.remove_filter(name);
    }
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment.add_filter("tojson", to_json_text);
    // As people who know Python write it.
    environment.add_function("len", length);
    environment.add_test("None", |value: &Jinja| value.is_none());
    environment.add_test("True", |value: &Jinja| is_bool(value) && value.is_true());
    environment.add_test("False", |value: &Jinja| is_bool(value) && !value.is_true());
    environment
}

fn is_bool(value: &Jinja) -> bool {
    value.kind() == ValueKind::Bool
}

fn wrong(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

fn too_large() -> Error {
    wrong(format!(
        "the result would be larger than {LARGEST_TEXT} bytes"
    ))
}

fn length(value: &Jinja) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => Ok(text.chars().count()),
        None => value
            .len()
            .ok_or_else(|| wrong(format!("{} has no length", value.kind()))),
    }
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let places = if from.is_empty() {
        text.len() + 1
    } else {
        text.matches(from).count()
    };
    let size = places.saturating_mul(to.len()).saturating_add(text.len());
    if size > LARGEST_TEXT {
        return Err(too_large());
    }
    Ok(text.replace(from, to))
}

fn join(list: &Jinja, between: Option<&str>) -> Result<String, Error> {
    let mut text = String::new();
    for (number, item) in list.try_iter()?.enumerate() {
        if number > 0 {
            text.push_str(between.unwrap_or_default());
        }
        match item.as_str() {
            Some(item) => text.push_str(item),
            None => text.push_str(&plain_text(&item)?),
        }
        if text.len() > LARGEST_TEXT {
            return Err(too_large());
        }
    }
    Ok(text)
}

/// A value as the engine writes it, after a look at how large it is.
fn plain_text(value: &Jinja) -> Result<String, Error> {
    to_json(value).map_err(wrong)?;
    Ok(value.to_string())
}

fn indent(text: &str, width: Option<usize>, first: Option<bool>) -> Result<String, Error> {
    let width = width.unwrap_or(4);
    let size = text
        .lines()
        .count()
        .saturating_mul(width)
        .saturating_add(text.len());
    if size > LARGEST_TEXT {
        return Err(too_large());
    }
    let margin = " ".repeat(width);
    let mut indented = String::with_capacity(size);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            indented.push('\n');
        }
        if !line.is_empty() && (number > 0 || first == Some(true)) {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands named arguments over"
)]
fn to_json_text(value: &Jinja, indent: Option<usize>, named: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => named.get::<Option<usize>>("indent")?,
    };
    named.assert_all_used()?;
    let value = to_json(value).map_err(wrong)?;
    let text = match indent {
        None => value.to_string(),
        Some(_) => format!("{value:#}"),
    };
    if text.len() > LARGEST_TEXT {
        return Err(too_large());
    }
    Ok(text)
}

/// A value of ours as one of the engine's.
pub(super) fn from_json(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(value) => Jinja::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Jinja::from(number),
            (None, Some(number)) => Jinja::from(number),
            (None, None) => Jinja::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(items) => items.iter().map(from_json).collect(),
        Value::Object(fields) => Jinja::from_pairs(
            fields
                .iter()
                .map(|(name, value)| (name.as_str(), from_json(value))),
        ),
    }
}

/// A value of the engine's as one of ours.
pub(super) fn to_json(value: &Jinja) -> Result<Value, String> {
    let mut left = Room {
        parts: MOST_PARTS,
        bytes: MOST_BYTES,
    };
    convert(value, 0, &mut left)
}

/// What an answer may still have in it.
struct Room {
    parts: usize,
    bytes: usize,
}

fn convert(value: &Jinja, depth: usize, left: &mut Room) -> Result<Value, String> {
    left.parts = left
        .parts
        .checked_sub(1)
        .ok_or_else(|| format!("the value has more than {MOST_PARTS} parts"))?;
    left.bytes = left
        .bytes
        .checked_sub(value.as_str().map_or(0, str::len))
        .ok_or_else(|| format!("the value has more than {MOST_BYTES} bytes"))?;
    if depth > DEEPEST {
        return Err(format!(
            "lists and maps stand more than {DEEPEST} deep inside each other"
        ));
    }
    match value.kind() {
        ValueKind::Undefined => Err("a value in it is undefined".to_owned()),
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number => number(value).map(Value::Number),
        ValueKind::String => Ok(Value::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Map => {
            let mut fields = Map::new();
            for name in items(value)? {
                let field = value.get_item(&name).map_err(|error| error.to_string())?;
                fields.insert(name.to_string(), convert(&field, depth + 1, left)?);
            }
            Ok(Value::Object(fields))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let mut list = Vec::new();
            for item in items(value)? {
                list.push(convert(&item, depth + 1, left)?);
            }
            Ok(Value::Array(list))
        }
        other => Err(format!("a {other} is no value that can be kept")),
    }
}

fn items(value: &Jinja) -> Result<impl Iterator<Item = Jinja>, String> {
    value.try_iter().map_err(|error| error.to_string())
}

fn number(value: &Jinja) -> Result<Number, String> {
    if value.is_integer() {
        return match (value.as_i64(), u64::try_from(value.clone())) {
            (Some(number), _) => Ok(number.into()),
            (None, Ok(number)) => Ok(number.into()),
            (None, Err(_)) => Err(format!("{value} is too large a number")),
        };
    }
    f64::try_from(value.clone())
        .ok()
        .and_then(Number::from_f64)
        .ok_or_else(|| format!("{value} is no number that can be kept"))
}
