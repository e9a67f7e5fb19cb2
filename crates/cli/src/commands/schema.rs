//! `schema`: JSON schemas of file formats and operations, generated from their Rust types.

use cleveragents_application::definition_schema;
use cleveragents_domain::DefinitionKind;
use serde_json::{Value, json};

use crate::arguments::SchemaOf;
use crate::output::CommandError;

use super::write_document;

/// Writes a schema to standard output.
pub(super) fn run(of: SchemaOf) -> Result<(), CommandError> {
    let schema = match of {
        SchemaOf::Actor => definition_schema(DefinitionKind::Actor),
        SchemaOf::Action => definition_schema(DefinitionKind::Action),
        SchemaOf::Mcp => definition_schema(DefinitionKind::McpServer),
        SchemaOf::Pool => definition_schema(DefinitionKind::Pool),
        SchemaOf::Tool => definition_schema(DefinitionKind::Tool),
        SchemaOf::Skill => definition_schema(DefinitionKind::Skill),
        SchemaOf::Safety => definition_schema(DefinitionKind::SafetyProfile),
        SchemaOf::Validation => definition_schema(DefinitionKind::Validation),
        SchemaOf::AutomationProfile => definition_schema(DefinitionKind::AutomationProfile),
        SchemaOf::Models => cleveragents_models::file_schema(),
        SchemaOf::ResourceType => cleveragents_application::resource_type_schema(),
        SchemaOf::Operations => operations(),
    };
    write_document(format!("{schema:#}\n").as_bytes())
}

/// Schemas of all operations by name.
fn operations() -> Value {
    let entries = cleveragents_application::operations().map(|entry| {
        let schemas = json!({
            "summary": entry.summary,
            "role": entry.requirement.permission.least_role().as_str(),
            "request": (entry.request)(),
            "response": (entry.response)(),
        });
        (entry.name.to_owned(), schemas)
    });
    Value::Object(entries.collect())
}
