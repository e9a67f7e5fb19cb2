//! The JSON schema of actor files, generated from the tables that the reader uses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::file::{Field, FieldUse, Form, Section, TOP};

/// The JSON schema of an actor file in any of its shapes, for editors.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let top = reference(&TOP, &mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CleverAgents actor",
        "allOf": [top, {"required": ["name"]}],
        "$defs": definitions,
    })
}

type Definitions = BTreeMap<String, Value>;

/// Returns a reference to the schema of a section. Adds the schema if it is missing.
fn reference(section: &'static Section, definitions: &mut Definitions) -> Value {
    let key: String = section
        .title
        .chars()
        .filter(|letter| *letter != '`')
        .map(|letter| if letter == ' ' { '_' } else { letter })
        .collect();
    if !definitions.contains_key(&key) {
        // Sections may be recursive.
        definitions.insert(key.clone(), Value::Null);
        let mut properties = Map::new();
        for field in section.fields() {
            let Some(property) = property(field, definitions) else {
                continue;
            };
            for name in std::iter::once(&field.name).chain(field.aliases) {
                properties.insert((*name).to_owned(), property.clone());
            }
        }
        let definition = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        definitions.insert(key.clone(), definition);
    }
    json!({"$ref": format!("#/$defs/{key}")})
}

/// The schema of a field; `None` for refused fields.
fn property(field: &Field, definitions: &mut Definitions) -> Option<Value> {
    if matches!(field.usage, FieldUse::Refused(..)) {
        return None;
    }
    let mut schema = form(&field.form, definitions);
    // A field without a value after the colon counts as missing.
    if !matches!(field.form, Form::Any) {
        schema = json!({"anyOf": [schema, {"type": "null"}]});
    }
    schema["description"] = field.about.into();
    Some(schema)
}

fn form(form: &Form, definitions: &mut Definitions) -> Value {
    let mut any = |forms: &[Form]| {
        let all: Vec<Value> = forms
            .iter()
            .map(|alternative| self::form(alternative, definitions))
            .collect();
        json!({"anyOf": all})
    };
    match form {
        Form::Text => json!({"type": ["string", "number"]}),
        Form::Texts => json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
        ]}),
        Form::Number => or_variable(&json!({"type": "number"})),
        Form::Count => or_variable(&json!({"type": "integer", "minimum": 0})),
        Form::Flag => or_variable(&json!({"type": "boolean"})),
        Form::Any => json!({}),
        Form::AnyMap => json!({"type": "object"}),
        Form::Words(words) => or_variable(&json!({"enum": words})),
        Form::Map(section) => reference(section, definitions),
        Form::Each(section) => {
            json!({"type": "array", "items": reference(section, definitions)})
        }
        Form::Named(section) => {
            json!({"type": "object", "additionalProperties": reference(section, definitions)})
        }
        Form::AnyOf(forms) => any(forms),
        Form::NamedAnyOf(forms) => json!({"type": "object", "additionalProperties": any(forms)}),
        Form::EachAnyOf(forms) => json!({"type": "array", "items": any(forms)}),
    }
}

/// Accepts a variable or a placeholder of a template in place of the value.
fn or_variable(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "string", "pattern": r"^(\$\{.*\}|\{\{.*\}\})$"}]})
}
