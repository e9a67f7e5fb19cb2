//! `schema`: the JSON schemas of files that the program reads, made from the types that read them.

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
    };
    write_document(format!("{schema:#}\n").as_bytes())
}
