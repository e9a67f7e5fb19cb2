//! The JSON schema of skill files, generated from the types that parse them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::entries::{CollectionFile, WrappedDefinition};

/// The JSON schema of a skill file, with or without its wrapper, for editors.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let wrapped = generator.subschema_for::<WrappedDefinition>();
    let plain = generator.subschema_for::<CollectionFile>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CleverAgents skill",
        "anyOf": [wrapped, plain],
        "$defs": definitions,
    })
}
