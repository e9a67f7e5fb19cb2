//! `schema`: the JSON schemas of files that the program reads and of operations, from the types that read them.

use serde_json::{Value, json};

use crate::arguments::SchemaOf;
use crate::output::CommandError;

use super::write_document;

/// Writes a schema to standard output, and nothing else.
pub(super) fn run(of: SchemaOf) -> Result<(), CommandError> {
    let schema = match of {
        SchemaOf::Actor => cleveragents_actors::schema(),
        SchemaOf::Action => cleveragents_domain::Action::schema(),
        SchemaOf::Mcp => cleveragents_mcp::schema(),
        SchemaOf::Tool => cleveragents_tools::custom::schema(),
        SchemaOf::Skill => cleveragents_skills::collection::schema(),
        SchemaOf::Models => cleveragents_models::file_schema(),
        SchemaOf::ResourceType => cleveragents_application::resource_type_schema(),
        SchemaOf::Safety => cleveragents_tools::Safety::schema(),
        SchemaOf::Validation => cleveragents_application::validation_schema(),
        SchemaOf::AutomationProfile => cleveragents_application::automation_profile_schema(),
        SchemaOf::Operations => operations(),
    };
    write_document(format!("{schema:#}\n").as_bytes())
}

/// The schemas of every operation by its name.
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
