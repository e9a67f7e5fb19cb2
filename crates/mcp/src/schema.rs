//! The JSON schema of a server definition file, for editors.

use serde_json::Value;

use crate::definition::ServerDefinition;

/// Schema of one server.
pub fn schema() -> Value {
    schemars::schema_for!(ServerDefinition).to_value()
}

#[cfg(test)]
mod tests {
    use super::schema;

    #[test]
    fn the_schema_rejects_unknown_fields() {
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], serde_json::json!(["name"]));
        assert!(schema["properties"]["tool_filter"].is_object());
    }
}
