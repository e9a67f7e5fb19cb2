//! Converts JSON schemas to the subset that each provider accepts.
//!
//! The caller's schema stays authoritative: a model's answer is validated against it. Lowering only loosens a schema,
//! so that every valid value remains possible. If a subset cannot express a schema without excluding valid answers, the
//! schema is not sent and only the prompt describes the format.

mod strict;

use serde_json::{Map, Value, json};

use self::strict::fits_strict_mode;
use super::{Dialect, Protocol, Target};
use crate::request::{ChatRequest, ResponseSchema};

/// The type names of JSON schema.
const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];

/// Maximum nesting; deeper schemas are truncated. OpenAI accepts ten levels in strict mode, and no tool needs more.
const DEEPEST: usize = 24;

/// Anthropic's limits for a whole answer schema.
const MAX_OPTIONAL: usize = 24;
const MAX_UNIONS: usize = 16;

/// The parameters of a tool in a form that the provider accepts: always an object at the top.
pub(super) fn tool_parameters(protocol: Protocol, schema: &Value) -> Value {
    let lowering = SchemaLowering {
        protocol,
        root: schema,
    };
    let mut top = lowering.node(schema, &mut Vec::new());
    if top.get("type") != Some(&json!("object")) {
        // Only objects are accepted at the top: the variants of a union are merged into one object.
        let mut merged = Map::new();
        merged.insert("type".to_owned(), "object".into());
        if let Some(description) = top.remove("description") {
            merged.insert("description".to_owned(), description);
        }
        let mut properties = Map::new();
        let variants = match top.remove("anyOf") {
            Some(Value::Array(variants)) => variants,
            _ => vec![Value::Object(top)],
        };
        for variant in variants {
            if let Some(Value::Object(variant_properties)) = variant.get("properties").cloned() {
                properties.extend(variant_properties);
            }
        }
        merged.insert("properties".to_owned(), properties.into());
        top = merged;
    }
    for refused in ["anyOf", "enum"] {
        top.remove(refused);
    }
    let is_empty = top
        .get("properties")
        .and_then(Value::as_object)
        .is_none_or(Map::is_empty);
    if is_empty && protocol == Protocol::Gemini {
        top.remove("properties");
    } else if is_empty {
        top.insert("properties".to_owned(), json!({}));
    }
    Value::Object(top)
}

/// Requested format of an answer.
pub(super) struct AnswerFormat {
    /// Letters, digits, `_` and `-`, at most 64.
    pub(super) name: String,
    pub(super) schema: Value,
    /// Whether the provider must enforce the schema exactly.
    pub(super) strict: bool,
}

/// Returns the answer format in a form that this provider accepts; `None` if only the prompt can request the format.
pub(super) fn answer_format(target: &Target, request: &ChatRequest) -> Option<AnswerFormat> {
    let requested = request.response_schema.as_ref()?;
    let is_combined = !request.tools.is_empty();
    let lowering = SchemaLowering {
        protocol: target.protocol,
        root: &requested.schema,
    };
    let lowered = Value::Object(lowering.node(&requested.schema, &mut Vec::new()));
    if lowered.get("type") != Some(&json!("object")) {
        return None;
    }
    let format = |schema, strict| {
        Some(AnswerFormat {
            name: format_name(requested),
            schema,
            strict,
        })
    };
    match target.protocol {
        Protocol::Anthropic => {
            if !supports_answer_schema(target.name.model()) {
                return None;
            }
            let mut closing = ClosedSchema::new(OptionalProperty::LeftOut);
            let closed = closing.close(lowered)?;
            let fits = closing.optional <= MAX_OPTIONAL && closing.unions <= MAX_UNIONS;
            fits.then_some(closed)
                .and_then(|schema| format(schema, true))
        }
        // Gemini rejects a response type together with functions; Ollama constrains every token, so that no tool can
        // be called.
        Protocol::Gemini | Protocol::Ollama if is_combined => None,
        Protocol::Gemini | Protocol::Ollama => format(lowered, false),
        Protocol::OpenaiResponses => strict_or_loose(requested, lowered, format),
        Protocol::OpenaiChat => {
            let is_own = matches!(target.dialect, Dialect::OpenAi | Dialect::Azure);
            // DeepSeek does not support answer schemas; Groq and others reject a schema together with tools.
            let is_refused = target.dialect == Dialect::DeepSeek || is_combined && !is_own;
            if is_refused {
                None
            } else {
                strict_or_loose(requested, lowered, format)
            }
        }
    }
}

/// Returns a strict format if it was requested and the strict subset can express the schema, otherwise a loose format.
fn strict_or_loose(
    requested: &ResponseSchema,
    lowered: Value,
    format: impl Fn(Value, bool) -> Option<AnswerFormat>,
) -> Option<AnswerFormat> {
    let closed = requested
        .strict
        .then(|| ClosedSchema::new(OptionalProperty::Null).close(lowered.clone()))
        .flatten()
        .filter(fits_strict_mode);
    match closed {
        Some(closed) => format(closed, true),
        None => format(lowered, false),
    }
}

fn format_name(requested: &ResponseSchema) -> String {
    let name: String = requested
        .name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '-' {
                letter
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    if name.is_empty() {
        "answer".to_owned()
    } else {
        name
    }
}

/// Whether a Claude model supports answer schemas, which version 4.5 introduced.
fn supports_answer_schema(model: &str) -> bool {
    let older = [
        "claude-2",
        "claude-3",
        "claude-instant",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-opus-4-2",
        "claude-sonnet-4-0",
        "claude-sonnet-4-2",
    ];
    let is_older = older.iter().any(|name| model.starts_with(name));
    !is_older && !matches!(model, "claude-opus-4" | "claude-sonnet-4")
}

/// Lowers a schema to the keywords that every provider supports.
struct SchemaLowering<'a> {
    protocol: Protocol,
    root: &'a Value,
}

impl<'a> SchemaLowering<'a> {
    /// Returns a schema without references and without keywords that some provider rejects. `path` contains the
    /// references that are being followed; a recursive reference becomes a schema that allows any value.
    fn node(&self, schema: &'a Value, path: &mut Vec<&'a str>) -> Map<String, Value> {
        let mut out = Map::new();
        let Some(fields) = schema.as_object() else {
            return out;
        };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            if !path.contains(&reference)
                && path.len() < DEEPEST
                && let Some(target) = reference
                    .strip_prefix('#')
                    .and_then(|pointer| self.root.pointer(pointer))
            {
                path.push(reference);
                out = self.node(target, path);
                path.pop();
            }
            if let Some(text) = fields.get("description").filter(|text| text.is_string()) {
                out.insert("description".to_owned(), text.clone());
            }
            return out;
        }
        if let Some(text) = fields.get("description").filter(|text| text.is_string()) {
            out.insert("description".to_owned(), text.clone());
        }
        if let Some(names) = types(fields) {
            out.insert("type".to_owned(), names);
        }
        self.choices(fields, &mut out);
        self.members(fields, &mut out, path);
        for union in ["anyOf", "oneOf"] {
            if let Some(variants) = fields.get(union).and_then(Value::as_array) {
                let variants: Vec<Value> = variants
                    .iter()
                    .map(|variant| Value::Object(self.node(variant, path)))
                    .collect();
                if !variants.is_empty() {
                    out.insert("anyOf".to_owned(), variants.into());
                }
            }
        }
        for part in fields
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            merge(&mut out, self.node(part, path));
        }
        infer_type(fields, &mut out);
        self.tidy(&mut out);
        out
    }

    /// Copies `enum` and `const`, of plain values only.
    fn choices(&self, fields: &Map<String, Value>, out: &mut Map<String, Value>) {
        let values = match (fields.get("enum"), fields.get("const")) {
            (Some(Value::Array(values)), _) => values.clone(),
            (_, Some(value)) => vec![value.clone()],
            _ => return,
        };
        let is_plain = |value: &Value| match self.protocol {
            Protocol::Gemini => value.is_string() || value.is_number(),
            _ => !value.is_object() && !value.is_array(),
        };
        if !values.is_empty() && values.iter().all(is_plain) {
            out.insert("enum".to_owned(), values.into());
        }
    }

    /// Copies properties, items and bounds.
    fn members(
        &self,
        fields: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        path: &mut Vec<&'a str>,
    ) {
        if let Some(Value::Object(properties)) = fields.get("properties") {
            let lowered: Map<String, Value> = properties
                .iter()
                .filter(|(name, _)| self.accepts_property(name))
                .map(|(name, schema)| (name.clone(), Value::Object(self.node(schema, path))))
                .collect();
            out.insert("properties".to_owned(), lowered.into());
        }
        if let Some(Value::Array(required)) = fields.get("required") {
            out.insert("required".to_owned(), required.clone().into());
        }
        match fields.get("additionalProperties") {
            Some(Value::Bool(is_open)) => {
                out.insert("additionalProperties".to_owned(), (*is_open).into());
            }
            Some(schema @ Value::Object(_)) => {
                let lowered = self.node(schema, path);
                out.insert("additionalProperties".to_owned(), lowered.into());
            }
            _ => {}
        }
        let elements = match (fields.get("items"), fields.get("prefixItems")) {
            (Some(items @ Value::Object(_)), None) => Some(self.node(items, path)),
            (Some(Value::Array(all)), _) | (_, Some(Value::Array(all))) => {
                let mut all: Vec<Value> = all
                    .iter()
                    .map(|item| Value::Object(self.node(item, path)))
                    .collect();
                all.dedup();
                match all.len() {
                    0 => None,
                    1 => all.pop().and_then(|item| item.as_object().cloned()),
                    _ => Some(Map::from_iter([("anyOf".to_owned(), all.into())])),
                }
            }
            _ => None,
        };
        if let Some(elements) = elements {
            out.insert("items".to_owned(), elements.into());
        }
        for bound in ["minimum", "maximum"] {
            if let Some(value) = fields.get(bound).filter(|value| value.is_number()) {
                out.insert(bound.to_owned(), value.clone());
            }
        }
        for bound in ["minItems", "maxItems"] {
            if let Some(value) = fields.get(bound).filter(|value| value.is_u64()) {
                out.insert(bound.to_owned(), value.clone());
            }
        }
    }

    /// Whether a property name is accepted. Anthropic rejects a tool with a property name of other characters or
    /// lengths, so the tool is offered without that property.
    fn accepts_property(&self, name: &str) -> bool {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        self.protocol != Protocol::Anthropic
            || (1..=64).contains(&name.len()) && name.chars().all(is_plain)
    }

    /// Removes keywords that do not fit the type, and adds keywords that providers require.
    fn tidy(&self, out: &mut Map<String, Value>) {
        let is = |out: &Map<String, Value>, name: &str| match out.get("type") {
            Some(Value::String(only)) => only == name,
            Some(Value::Array(all)) => all.iter().any(|other| other == name),
            _ => false,
        };
        let is_typed = out.contains_key("type");
        if is_typed && !is(out, "object") {
            for field in ["properties", "required", "additionalProperties"] {
                out.remove(field);
            }
        }
        if is_typed && !is(out, "array") {
            for field in ["items", "minItems", "maxItems"] {
                out.remove(field);
            }
        }
        if is_typed && !is(out, "number") && !is(out, "integer") {
            for field in ["minimum", "maximum"] {
                out.remove(field);
            }
        }
        if is(out, "array") && !out.contains_key("items") {
            out.insert("items".to_owned(), json!({"type": "string"}));
        }
        if is(out, "object") && self.protocol != Protocol::Gemini {
            out.entry("properties").or_insert_with(|| json!({}));
        }
        if self.protocol == Protocol::Gemini
            && out
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(Map::is_empty)
        {
            out.remove("properties");
        }
        let known: Vec<String> = out
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| properties.keys().cloned().collect())
            .unwrap_or_default();
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required.retain(|name| {
                name.as_str()
                    .is_some_and(|name| known.iter().any(|other| other == name))
            });
            if required.is_empty() {
                out.remove("required");
            }
        }
    }
}

/// The types that a schema names: a single type, or a list of types.
fn types(fields: &Map<String, Value>) -> Option<Value> {
    let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match fields.get("type")? {
        name @ Value::String(_) if known(name) => Some(name.clone()),
        Value::Array(names) => {
            let mut names: Vec<Value> = names.iter().filter(|name| known(name)).cloned().collect();
            names.dedup();
            match names.len() {
                0 => None,
                1 => names.pop(),
                _ => Some(names.into()),
            }
        }
        _ => None,
    }
}

/// Adds the implied type to a schema without a type.
fn infer_type(fields: &Map<String, Value>, out: &mut Map<String, Value>) {
    if out.contains_key("type") || out.contains_key("anyOf") {
        return;
    }
    let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
    let values = out.get("enum").and_then(Value::as_array);
    let implied = if has(&["properties", "required", "additionalProperties"])
        || out.contains_key("properties")
    {
        "object"
    } else if has(&["items", "prefixItems", "minItems", "maxItems"]) {
        "array"
    } else if values.is_some_and(|values| values.iter().all(Value::is_string))
        || has(&["pattern", "minLength", "maxLength", "format"])
    {
        "string"
    } else if has(&["minimum", "maximum", "multipleOf"]) {
        "number"
    } else {
        return;
    };
    out.insert("type".to_owned(), implied.into());
}

/// Merges the constraints of a part of `allOf`.
fn merge(out: &mut Map<String, Value>, part: Map<String, Value>) {
    for (name, value) in part {
        match (out.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                known.extend(more);
            }
            (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                known.extend(more);
            }
            (Some(_), _) => {}
            (None, value) => {
                out.insert(name, value);
            }
        }
    }
}

/// Representation of an optional property in a closed schema. A closed schema forbids properties that it does not list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionalProperty {
    /// The property is not in `required`.
    LeftOut,
    /// The property is required and may be null.
    Null,
}

/// Closes every object of a lowered schema, so that it forbids unlisted properties, and removes bounds such as
/// `minimum`.
struct ClosedSchema {
    optional_is: OptionalProperty,
    optional: usize,
    unions: usize,
}

impl ClosedSchema {
    fn new(optional_is: OptionalProperty) -> Self {
        Self {
            optional_is,
            optional: 0,
            unions: 0,
        }
    }

    /// Closes a schema. Returns `None` for a schema that a closed schema cannot express: an object with arbitrary
    /// properties, or an arbitrary value.
    fn close(&mut self, node: Value) -> Option<Value> {
        let Value::Object(mut node) = node else {
            return None;
        };
        if !node.contains_key("type") && !node.contains_key("anyOf") {
            return None;
        }
        for bound in ["minimum", "maximum", "minItems", "maxItems"] {
            node.remove(bound);
        }
        if let Some(items) = node.remove("items") {
            node.insert("items".to_owned(), self.close(items)?);
        }
        if let Some(Value::Array(variants)) = node.remove("anyOf") {
            self.unions += 1;
            let closed: Option<Vec<Value>> = variants
                .into_iter()
                .map(|variant| self.close(variant))
                .collect();
            // The variants of a union already define the types.
            node.remove("type");
            node.insert("anyOf".to_owned(), closed?.into());
            return Some(Value::Object(node));
        }
        let is_object = match node.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => false,
        };
        if is_object {
            self.close_object(&mut node)?;
        }
        Some(self.spread_types(node))
    }

    fn close_object(&mut self, node: &mut Map<String, Value>) -> Option<()> {
        let is_open = !matches!(
            node.get("additionalProperties"),
            None | Some(Value::Bool(_))
        );
        let Some(Value::Object(properties)) = node.remove("properties") else {
            return None;
        };
        if is_open || properties.is_empty() {
            return None;
        }
        let required: Vec<String> = match node.remove("required") {
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        let names: Vec<String> = match self.optional_is {
            OptionalProperty::Null => properties.keys().cloned().collect(),
            OptionalProperty::LeftOut => required.clone(),
        };
        let mut closed = Map::new();
        for (name, schema) in properties {
            let is_optional = !required.contains(&name);
            self.optional += usize::from(is_optional);
            let schema = self.close(schema)?;
            let schema = if is_optional && self.optional_is == OptionalProperty::Null {
                nullable(schema)
            } else {
                schema
            };
            closed.insert(name, schema);
        }
        node.insert("properties".to_owned(), closed.into());
        node.insert("required".to_owned(), names.into());
        node.insert("additionalProperties".to_owned(), false.into());
        Some(())
    }

    /// Converts a list of types to `anyOf`, which Anthropic requires.
    fn spread_types(&mut self, mut node: Map<String, Value>) -> Value {
        let is_list = matches!(node.get("type"), Some(Value::Array(_)));
        if !is_list || self.optional_is == OptionalProperty::Null {
            return Value::Object(node);
        }
        self.unions += 1;
        let Some(Value::Array(names)) = node.remove("type") else {
            return Value::Object(node);
        };
        let description = node.remove("description");
        let variants: Vec<Value> = names
            .into_iter()
            .map(|name| {
                let mut variant = node.clone();
                let kept_fields: &[&str] = match name.as_str() {
                    Some("object") => &["properties", "required", "additionalProperties"],
                    Some("array") => &["items"],
                    Some("null") => &[],
                    _ => &["enum"],
                };
                variant.retain(|field, _| kept_fields.contains(&field.as_str()));
                variant.insert("type".to_owned(), name);
                Value::Object(variant)
            })
            .collect();
        let mut union = Map::from_iter([("anyOf".to_owned(), variants.into())]);
        if let Some(description) = description {
            union.insert("description".to_owned(), description);
        }
        Value::Object(union)
    }
}

/// A schema that additionally allows null.
fn nullable(mut schema: Value) -> Value {
    if let Some(variants) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        let null = json!({"type": "null"});
        if !variants.contains(&null) {
            variants.push(null);
        }
        return schema;
    }
    let null = json!("null");
    let names = match schema.get("type") {
        Some(Value::Array(names)) if names.contains(&null) => names.clone(),
        Some(Value::Array(names)) => names.iter().cloned().chain([null]).collect(),
        Some(name) if *name == null => return schema,
        Some(name) => vec![name.clone(), null],
        None => return schema,
    };
    schema["type"] = names.into();
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    schema
}

/// Removes nulls that stand for omitted optional properties: in strict mode a model has to name every property of an
/// answer.
pub fn drop_optional_nulls(schema: &Value, answer: &mut Value) {
    drop_nulls(schema, schema, answer, 0);
}

fn drop_nulls(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    if depth > 4 * DEEPEST {
        return;
    }
    let schema = resolved(root, schema);
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            let required = schema.get("required").and_then(Value::as_array);
            let is_required =
                |name: &str| required.is_some_and(|all| all.iter().any(|other| other == name));
            fields.retain(|name, value| {
                let known = properties.get(name);
                !value.is_null()
                    || is_required(name)
                    || known.is_none_or(|known| allows_null(resolved(root, known)))
            });
            for (name, value) in fields {
                if let Some(known) = properties.get(name) {
                    drop_nulls(root, known, value, depth + 1);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = schema.get("items") {
                for element in elements {
                    drop_nulls(root, items, element, depth + 1);
                }
            }
        }
        _ => {}
    }
}

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    target.unwrap_or(schema)
}

fn allows_null(schema: &Value) -> bool {
    let null = json!("null");
    match schema.get("type") {
        Some(Value::Array(names)) => names.contains(&null),
        Some(name) => *name == null,
        None => match (schema.get("anyOf"), schema.get("enum")) {
            (Some(Value::Array(variants)), _) => variants.iter().any(allows_null),
            (_, Some(Value::Array(values))) => values.contains(&Value::Null),
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests;
