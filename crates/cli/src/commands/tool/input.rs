//! Arguments of a call: JSON, a file, or KEY=VALUE pairs.

use cleveragents_domain::Code;
use cleveragents_tools::Registry;
use serde_json::{Map, Value};

use crate::arguments::ToolRun;
use crate::commands::read_definition;
use crate::output::CommandError;

/// Arguments as JSON text, as in a tool call of a model. They are validated when the tool is called.
pub(super) fn text(arguments: &ToolRun, registry: &Registry) -> Result<String, CommandError> {
    if let Some(text) = &arguments.input {
        return Ok(text.clone());
    }
    if let Some(file) = &arguments.input_file {
        return read_definition(file, "the tool input", Code::Usage);
    }
    let schema = registry
        .get(&arguments.tool.name)
        .map(|spec| &spec.input_schema)
        .ok();
    let mut fields = Map::new();
    for pair in &arguments.pairs {
        let invalid = |message: String| {
            CommandError::usage(message)
                .with_hint("use KEY=VALUE, each key once, or pass JSON with --input")
        };
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(invalid(format!("`{pair}` is not KEY=VALUE")));
        };
        let is_text = schema.is_some_and(|schema| takes_text(&schema["properties"][key]));
        if fields
            .insert(key.to_owned(), value_of(value, is_text))
            .is_some()
        {
            return Err(invalid(format!("`{key}` is given twice")));
        }
    }
    Ok(Value::Object(fields).to_string())
}

/// Whether a schema of one argument accepts only text.
fn takes_text(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => {
            kinds.iter().any(|kind| kind == "string")
                && kinds.iter().all(|kind| kind == "string" || kind == "null")
        }
        _ => schema["enum"]
            .as_array()
            .is_some_and(|values| values.iter().all(Value::is_string)),
    }
}

fn value_of(text: &str, is_text: bool) -> Value {
    let json = || serde_json::from_str(text).ok();
    (!is_text)
        .then(json)
        .flatten()
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{takes_text, value_of};
    use serde_json::json;

    #[test]
    fn values_are_parsed_as_json_unless_the_schema_accepts_only_text() {
        for (text, is_text, expected) in [
            ("12", true, json!("12")),
            ("12", false, json!(12)),
            ("true", false, json!(true)),
            ("[1, 2]", false, json!([1, 2])),
            ("plain words", false, json!("plain words")),
            ("", false, json!("")),
        ] {
            assert_eq!(value_of(text, is_text), expected, "{text}");
        }
    }

    #[test]
    fn schemas_of_text_only_are_detected() {
        for (schema, expected) in [
            (json!({"type": "string"}), true),
            (json!({"type": ["string", "null"]}), true),
            (json!({"enum": ["1", "2"]}), true),
            (json!({"type": ["string", "integer"]}), false),
            (json!({"type": "integer"}), false),
            (json!({"type": ["null"]}), false),
            (json!(null), false),
        ] {
            assert_eq!(takes_text(&schema), expected, "{schema}");
        }
    }
}
