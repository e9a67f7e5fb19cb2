//! The limits of OpenAI's strict mode.

use serde_json::Value;

/// Whether a closed schema is within the limits of OpenAI's strict mode: number of properties and enum values, their
/// total length, and nesting depth.
pub(super) fn fits_strict_mode(schema: &Value) -> bool {
    let mut size = StrictSize::default();
    size.add(schema, 0);
    size.properties <= 5000 && size.values <= 1000 && size.letters <= 15_000 && size.levels <= 10
}

#[derive(Default)]
struct StrictSize {
    properties: usize,
    values: usize,
    /// Total number of characters. OpenAI accepts 120,000, but only 15,000 in a long enum; the lower limit is used for
    /// all schemas.
    letters: usize,
    levels: usize,
}

impl StrictSize {
    fn add(&mut self, schema: &Value, level: usize) {
        let level = level + usize::from(is_of(schema, "object") || is_of(schema, "array"));
        self.levels = self.levels.max(level);
        for value in schema["enum"].as_array().into_iter().flatten() {
            self.values += 1;
            self.letters += value.as_str().map_or(0, str::len);
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            self.properties += 1;
            self.letters += name.len();
            self.add(inner, level);
        }
        for inner in schema["anyOf"].as_array().into_iter().flatten() {
            self.add(inner, level);
        }
        if let Some(items) = schema.get("items") {
            self.add(items, level);
        }
    }
}

/// Whether a schema allows a type.
fn is_of(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(all)) => all.iter().any(|other| other == name),
        _ => false,
    }
}
