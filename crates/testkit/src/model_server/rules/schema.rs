//! Rules about JSON schemas that several providers share.

use serde_json::Value;

use super::{CheckResult, ensure, known_fields, list};

const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];

/// Whether a schema allows a type.
pub(super) fn is_of(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    }
}

/// Calls `check` with each nested schema, starting with the outermost.
pub(super) fn each(schema: &Value, check: &mut dyn FnMut(&Value) -> CheckResult) -> CheckResult {
    check(schema)?;
    for group in ["properties", "$defs", "definitions"] {
        for inner in schema
            .get(group)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|group| group.values())
        {
            each(inner, check)?;
        }
    }
    for union in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for inner in list(schema, union) {
            each(inner, check)?;
        }
    }
    for single in ["items", "additionalProperties", "not"] {
        match schema.get(single) {
            Some(inner @ Value::Object(_)) => each(inner, check)?,
            Some(Value::Array(all)) => {
                for inner in all {
                    each(inner, check)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Nesting depth of objects and arrays.
pub(super) fn depth(schema: &Value) -> usize {
    let mut deepest = 0;
    for group in ["properties", "$defs", "definitions"] {
        for inner in schema
            .get(group)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|group| group.values())
        {
            deepest = deepest.max(depth(inner));
        }
    }
    for union in ["anyOf", "oneOf", "allOf"] {
        for inner in list(schema, union) {
            deepest = deepest.max(depth(inner));
        }
    }
    if let Some(items) = schema.get("items") {
        deepest = deepest.max(depth(items));
    }
    deepest + usize::from(is_of(schema, "object") || is_of(schema, "array"))
}

/// Checks the types of a schema's keywords by draft 2020-12, and that its references resolve.
pub(super) fn is_valid(schema: &Value) -> CheckResult {
    each(schema, &mut |node| {
        if node.is_boolean() {
            return Ok(());
        }
        ensure(node.is_object(), || format!("{node} is not a schema"))?;
        let names: Vec<&Value> = match node.get("type") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().collect(),
            Some(name) => vec![name],
        };
        for name in names {
            ensure(
                name.as_str().is_some_and(|name| TYPES.contains(&name)),
                || format!("{name} is not valid under any of the given schemas"),
            )?;
        }
        for object in ["properties", "$defs", "definitions"] {
            ensure(node.get(object).is_none_or(Value::is_object), || {
                format!("`{object}` is not of type 'object'")
            })?;
        }
        ensure(
            node.get("items").is_none_or(|items| !items.is_array()),
            || "`items` is not of type 'object', 'boolean'".to_owned(),
        )?;
        if let Some(required) = node.get("required") {
            let names = required.as_array();
            ensure(
                names.is_some_and(|names| names.iter().all(Value::is_string)),
                || "`required` is not an array of strings".to_owned(),
            )?;
        }
        for bound in ["exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum"] {
            ensure(node.get(bound).is_none_or(Value::is_number), || {
                format!("`{bound}` is not of type 'number'")
            })?;
        }
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            let found = reference
                .strip_prefix('#')
                .and_then(|pointer| schema.pointer(pointer));
            ensure(found.is_some(), || {
                format!("{reference} cannot be resolved")
            })?;
        }
        Ok(())
    })
}

/// Checks that all nested schemas use only the keywords in `known`.
pub(super) fn has_only(schema: &Value, known: &[&str]) -> CheckResult {
    each(schema, &mut |node| {
        known_fields(node, known, |name| format!("'{name}' is not permitted"))
    })
}
