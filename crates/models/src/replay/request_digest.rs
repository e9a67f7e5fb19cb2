//! Equality of requests: normalises, digests and compares them.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::redact::Redactor;
use crate::request::ChatRequest;

/// Text that differs from run to run without changing the request: generated ids, timestamps, and the random numbers in
/// the markers around tool output.
static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b01[0-9A-HJKMNP-TV-Z]{24}\b|\bdata-[0-9a-f]{8}(?:[0-9a-f]{16})?\b|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)",
    )
    .expect("the pattern is tested")
});

/// Start of the system message that describes the machine and the date. It is ignored, because recordings are also used
/// on other machines.
const ENVIRONMENT: &str = "<environment>";

/// Returns the request in the form that is recorded and compared: without secrets, without run-specific values and
/// ignored fields, and with sorted object fields.
pub(super) fn normalised(request: &ChatRequest, redactor: &Redactor) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    remove_ignored_fields(&mut value);
    ordered(&redactor.value(&value))
}

/// Removes fields that the comparison ignores. The output limit is ignored because its default depends on the model,
/// and a recording is replayed under a model name of its own. Recordings of older versions contain the limit. Returns
/// whether anything was removed.
pub(super) fn remove_ignored_fields(request: &mut Value) -> bool {
    let Value::Object(fields) = request else {
        return false;
    };
    let ignored_fields = ["stream", "cache", "max_output_tokens"];
    let removed = ignored_fields
        .iter()
        .filter(|field| fields.remove(**field).is_some())
        .count();
    let has_environment = match fields.get_mut("system") {
        Some(Value::Array(system)) => {
            let before = system.len();
            system.retain(|text| {
                !text
                    .as_str()
                    .is_some_and(|text| text.starts_with(ENVIRONMENT))
            });
            system.len() < before
        }
        _ => false,
    };
    removed > 0 || has_environment
}

pub(super) fn ordered(value: &Value) -> Value {
    match value {
        Value::String(text) => VOLATILE.replace_all(text, "[…]").into_owned().into(),
        Value::Array(items) => items.iter().map(ordered).collect(),
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let fields: Map<String, Value> = names
                .into_iter()
                .map(|name| (name.clone(), ordered(&fields[name])))
                .collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

/// Digest of a normalised request.
pub(super) fn digest(request: &Value) -> String {
    format!(
        "sha256:{}",
        hex::encode(Sha256::digest(request.to_string()))
    )
}

/// The first difference between two requests.
pub(super) struct RequestDifference {
    /// Number of parts that agree before the difference.
    pub(super) agreeing: usize,
    /// Description of the first part that differs.
    pub(super) place: String,
}

/// Compares two normalised requests, the conversation first, because its differences are the most useful.
pub(super) fn difference(recorded: &Value, current: &Value) -> RequestDifference {
    let list = |value: &Value| value["messages"].as_array().cloned().unwrap_or_default();
    let (old, new) = (list(recorded), list(current));
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    if same < old.len().max(new.len()) {
        let place = match (old.get(same), new.get(same)) {
            (Some(old), Some(new)) => {
                format!(
                    "message {}: it was {}, and is {}",
                    same + 1,
                    brief(old),
                    brief(new)
                )
            }
            _ => format!(
                "its length: it has {} messages, and not {}",
                old.len(),
                new.len()
            ),
        };
        return RequestDifference {
            agreeing: same * 2,
            place,
        };
    }
    for field in [
        "system",
        "tools",
        "response_schema",
        "temperature",
        "reasoning_effort",
        "options",
    ] {
        if recorded[field] != current[field] {
            return RequestDifference {
                agreeing: same * 2 + 1,
                place: format!(
                    "`{field}`: it was {}, and is {}",
                    brief(&recorded[field]),
                    brief(&current[field])
                ),
            };
        }
    }
    RequestDifference {
        agreeing: same * 2 + 1,
        place: "a part that an older version recorded differently".to_owned(),
    }
}

fn brief(value: &Value) -> String {
    const LONGEST: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
