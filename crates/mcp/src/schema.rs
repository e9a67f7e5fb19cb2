//! The JSON schema of a file that describes a server, for editors.

use serde_json::Value;

use crate::definition::ServerDefinition;

/// The schema of one server.
pub fn schema() -> Value {
    schemars::schema_for!(ServerDefinition).to_value()
}

#[cfg(test)]
mod tests {
    use super::schema;

    #[test]
    fn the_schema_knows_the_fields_and_refuses_others() {
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], serde_json::json!(["name"]));
        assert!(schema["properties"]["tool_filter"].is_object());
    }
}
