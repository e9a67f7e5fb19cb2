//! The JSON schema of tool definition files, generated from the types that parse them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::entries::{Definition, WrappedDefinition};

/// The JSON schema of tool definition files, with or without the wrapper, for editors.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let wrapped = generator.subschema_for::<WrappedDefinition>();
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
        "title": "CleverAgents tool",
        "anyOf": [wrapped, plain],
        "$defs": definitions,
    })
}
