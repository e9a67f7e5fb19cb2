//! The JSON schema of the files of skills, made from the types that read them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::entries::{Definition, Wrapped};

/// The JSON schema of the file of a skill, with or without its wrapper, for editors.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let wrapped = generator.subschema_for::<Wrapped>();
    let plain = generator.subschema_for::<Definition>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a skill of CleverAgents",
        "anyOf": [wrapped, plain],
        "$defs": definitions,
    })
}
