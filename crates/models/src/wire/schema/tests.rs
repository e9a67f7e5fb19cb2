use serde_json::{Value, json};

use super::{ClosedSchema, OptionalProperty, SchemaLowering, drop_optional_nulls, tool_parameters};
use crate::wire::Protocol;

fn closed(schema: &Value, optional: OptionalProperty) -> Option<Value> {
    let lowering = SchemaLowering {
        protocol: Protocol::OpenaiChat,
        root: schema,
    };
    let lowered = lowering.node(schema, &mut Vec::new());
    ClosedSchema::new(optional).close(lowered.into())
}

#[test]
fn a_closed_answer_has_no_bounds_and_optional_properties_may_be_null() {
    let schema = json!({
        "type": "object", "required": ["summary"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "risk": {"type": ["number", "null"], "minimum": 0},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["title"], "properties": {"title": {"type": "string"}},
            }},
        },
    });
    let mut strict = closed(&schema, OptionalProperty::Null).expect("it can be closed");
    // The order of the properties is not defined.
    if let Some(required) = strict["required"].as_array_mut() {
        required.sort_by_key(ToString::to_string);
    }
    assert_eq!(
        strict,
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["kind", "risk", "steps", "summary"],
            "properties": {
                "summary": {"type": "string"},
                "risk": {"type": ["number", "null"]},
                "kind": {"type": ["string", "null"], "enum": ["a", "b", null]},
                "steps": {"type": ["array", "null"], "items": {
                    "type": "object", "additionalProperties": false, "required": ["title"],
                    "properties": {"title": {"type": "string"}},
                }},
            },
        })
    );
    let left_out = closed(&schema, OptionalProperty::LeftOut).expect("it can be closed");
    assert_eq!(left_out["required"], json!(["summary"]));
    assert_eq!(
        left_out["properties"]["risk"],
        json!({"anyOf": [{"type": "number"}, {"type": "null"}]})
    );
    let mut answer = json!({"summary": "s", "risk": null, "kind": null, "steps": [{"title": "t"}]});
    drop_optional_nulls(&schema, &mut answer);
    assert_eq!(
        answer,
        json!({"summary": "s", "risk": null, "steps": [{"title": "t"}]})
    );
}

/// A closed schema would exclude every answer that has a property.
#[test]
fn an_answer_with_any_properties_cannot_be_closed() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"all": {"type": "object", "additionalProperties": {"type": "string"}}}}),
        json!({"type": "object", "properties": {"any": {}}}),
    ] {
        assert_eq!(closed(&schema, OptionalProperty::Null), None, "{schema}");
        assert_eq!(closed(&schema, OptionalProperty::LeftOut), None, "{schema}");
    }
}

/// Schemas of the kinds that MCP servers send.
#[test]
fn parameters_of_a_tool_are_an_object_of_known_keywords() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "name": {"type": "string"}}},
        },
        "type": "object", "required": ["path", "missing"],
        "properties": {
            "path": {"type": "string", "pattern": "^/", "format": "uri", "default": "/", "description": "where"},
            "node": {"$ref": "#/$defs/node"},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "list": {"type": "array"},
            "any": true,
            "mode": {"const": "fast"},
            "odd name": {"type": "string"},
            "both": {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
        },
    });
    let lowered = tool_parameters(Protocol::Anthropic, &schema);
    assert_eq!(
        lowered,
        json!({
            "type": "object", "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "where"},
                "node": {"type": "object", "properties": {"next": {}, "name": {"type": "string"}}},
                "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                "list": {"type": "array", "items": {"type": "string"}},
                "any": {},
                "mode": {"type": "string", "enum": ["fast"]},
                "both": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        })
    );
    let lowered = tool_parameters(Protocol::OpenaiChat, &schema);
    assert!(lowered["properties"].get("odd name").is_some());
}

#[test]
fn a_union_at_the_top_becomes_one_object() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}},
    ]});
    for protocol in [Protocol::Anthropic, Protocol::OpenaiChat, Protocol::Gemini] {
        assert_eq!(
            tool_parameters(protocol, &schema),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
        );
    }
    for empty in [json!({}), json!(true), json!({"type": "null"})] {
        assert_eq!(
            tool_parameters(Protocol::OpenaiChat, &empty),
            json!({"type": "object", "properties": {}})
        );
    }
}
