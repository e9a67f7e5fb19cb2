//! The language of expressions and templates: Jinja without unbounded features.
//!
//! The number of steps is limited (`fuel`), resulting texts and values have a maximum size, and bounded filters replace
//! the filters whose result can be much larger than their input. No function accesses files, the clock, the environment
//! or randomness.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value as Jinja};
use serde_json::{Map, Number, Value};

/// Maximum number of steps of one evaluation.
const FUEL: u64 = 100_000;

/// Maximum size of a text that a filter or a template creates, in bytes.
pub(super) const MAX_TEXT_SIZE: usize = 1 << 20;

/// Maximum number of values in a result.
const MAX_PARTS: usize = 200_000;

/// Maximum number of bytes of text in a result.
const MAX_BYTES: usize = 16 << 20;

/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 100;

/// Creates the environment for expressions and templates.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    // These functions expose internals of the Jinja engine, or their results have no size limit.
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
    // Python spellings.
    environment.add_function("len", length);
    environment.add_test("None", |value: &Jinja| value.is_none());
    environment.add_test("True", |value: &Jinja| is_bool(value) && value.is_true());
    environment.add_test("False", |value: &Jinja| is_bool(value) && !value.is_true());
    environment
}

fn is_bool(value: &Jinja) -> bool {
    value.kind() == ValueKind::Bool
}

fn invalid_operation(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

fn too_large() -> Error {
    invalid_operation(format!("the result would exceed {MAX_TEXT_SIZE} bytes"))
}

fn length(value: &Jinja) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => Ok(text.chars().count()),
        None => value
            .len()
            .ok_or_else(|| invalid_operation(format!("{} has no length", value.kind()))),
    }
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let places = if from.is_empty() {
        text.len() + 1
    } else {
        text.matches(from).count()
    };
    let size = places.saturating_mul(to.len()).saturating_add(text.len());
    if size > MAX_TEXT_SIZE {
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
        if text.len() > MAX_TEXT_SIZE {
            return Err(too_large());
        }
    }
    Ok(text)
}

/// Formats a value as the Jinja engine does, after checking its size.
fn plain_text(value: &Jinja) -> Result<String, Error> {
    to_json(value).map_err(invalid_operation)?;
    Ok(value.to_string())
}

fn indent(text: &str, width: Option<usize>, first: Option<bool>) -> Result<String, Error> {
    let width = width.unwrap_or(4);
    let size = text
        .lines()
        .count()
        .saturating_mul(width)
        .saturating_add(text.len());
    if size > MAX_TEXT_SIZE {
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
    reason = "the engine passes named arguments by value"
)]
fn to_json_text(value: &Jinja, indent: Option<usize>, named: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => named.get::<Option<usize>>("indent")?,
    };
    named.assert_all_used()?;
    let value = to_json(value).map_err(invalid_operation)?;
    let text = match indent {
        None => value.to_string(),
        Some(_) => format!("{value:#}"),
    };
    if text.len() > MAX_TEXT_SIZE {
        return Err(too_large());
    }
    Ok(text)
}

/// Converts JSON to a value of the engine.
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

/// Converts a value of the engine to JSON.
pub(super) fn to_json(value: &Jinja) -> Result<Value, String> {
    let mut remaining = SizeBudget {
        parts: MAX_PARTS,
        bytes: MAX_BYTES,
    };
    convert(value, 0, &mut remaining)
}

/// Remaining size budget of a result.
struct SizeBudget {
    parts: usize,
    bytes: usize,
}

fn convert(value: &Jinja, depth: usize, remaining: &mut SizeBudget) -> Result<Value, String> {
    remaining.parts = remaining
        .parts
        .checked_sub(1)
        .ok_or_else(|| format!("the result has more than {MAX_PARTS} values"))?;
    remaining.bytes = remaining
        .bytes
        .checked_sub(value.as_str().map_or(0, str::len))
        .ok_or_else(|| format!("the result has more than {MAX_BYTES} bytes"))?;
    if depth > MAX_DEPTH {
        return Err(format!(
            "lists and maps are nested more than {MAX_DEPTH} levels deep"
        ));
    }
    match value.kind() {
        ValueKind::Undefined => Err("the result contains an undefined value".to_owned()),
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number => number(value).map(Value::Number),
        ValueKind::String => Ok(Value::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Map => {
            let mut fields = Map::new();
            for name in items(value)? {
                let field = value.get_item(&name).map_err(|error| error.to_string())?;
                fields.insert(name.to_string(), convert(&field, depth + 1, remaining)?);
            }
            Ok(Value::Object(fields))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let mut list = Vec::new();
            for item in items(value)? {
                list.push(convert(&item, depth + 1, remaining)?);
            }
            Ok(Value::Array(list))
        }
        other => Err(format!("a {other} cannot be stored in the state")),
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
            (None, Err(_)) => Err(format!("{value} is too large")),
        };
    }
    f64::try_from(value.clone())
        .ok()
        .and_then(Number::from_f64)
        .ok_or_else(|| format!("{value} is not a number that can be stored"))
}
