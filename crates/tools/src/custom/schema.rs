//! The JSON schema of the files of tools, made from the types that read them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::entries::{Definition, Wrapped};

/// The JSON schema of the file of a tool, with or without its wrapper, for editors.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let wrapped = generator.subschema_for::<Wrapped>();
    let plain = generator.subschema_for::<Definition>();
    let mut definitions = generator.take_definitions(true);
    // The name is optional only inside a skill.
    if let Some(Value::Array(required)) = definitions
        .get_mut("Definition")
        .and_then(|definition| definition.get_mut("required"))
    {
        required.insert(0, Value::from("name"));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a tool of CleverAgents",
        "anyOf": [wrapped, plain],
        "$defs": definitions,
    })
}
