//! `docs/reference/operations.md` and `events.md`: the reference of requests, responses and events, written from
//! their types. `CLEVERAGENTS_WRITE_DOCS=1` writes them.

use std::fmt::Write as _;
use std::path::Path;

use cleveragents_application::{OperationEntry, operations};
use cleveragents_domain::EventKind;
use serde_json::Value;

const HEAD: &str = "# Operations

The requests and responses of all typed operations. `POST /api/v1/operations/NAME` and the A2A methods
`_cleveragents/NAME` take the request and return the response as `data`; commands print it as `data` with
`--format json`. `agents schema operations` prints the JSON schemas. The test
`crates/application/tests/operations_reference.rs` writes this page from the types.
";

/// The type of a property, as the text of a table cell.
fn kind(schema: &Value, root: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let target = &root["$defs"][name];
        return match target["enum"].as_array() {
            Some(_) => kind(target, root),
            None => name.to_owned(),
        };
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let mut kinds: Vec<String> = choices
                .iter()
                .map(|variant| match variant.get("const") {
                    Some(value) => format!("`{value}`"),
                    None => kind(variant, root),
                })
                .collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    let describe = |kind: &str| match kind {
        "array" => format!("list of {}", self::kind(&schema["items"], root)),
        "object" if schema["properties"].is_object() => {
            let names = schema["properties"].as_object().into_iter().flatten();
            let names: Vec<String> = names.map(|(name, _)| format!("`{name}`")).collect();
            format!("object: {}", names.join(", "))
        }
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => describe(kind),
        Value::Array(kinds) => {
            let kinds: Vec<String> = kinds
                .iter()
                .filter_map(Value::as_str)
                .map(describe)
                .collect();
            kinds.join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn table(schema: &Value, text: &mut String) {
    let properties = schema["properties"].as_object();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        text.push_str("No fields.\n");
        return;
    };
    text.push_str("| Field | Type | Present | Meaning |\n|---|---|---|---|\n");
    for (name, property) in properties {
        let need = if required.contains(&Value::from(name.as_str())) {
            "always"
        } else {
            ""
        };
        let about = property["description"].as_str().unwrap_or_default();
        let line = format!(
            "| `{name}` | {} | {need} | {} |",
            kind(property, schema).replace('|', "\\|"),
            about.replace('\n', " ").replace('|', "\\|")
        );
        let _written = writeln!(text, "{line}");
    }
}

fn section(entry: &OperationEntry) -> String {
    let role = entry.requirement.permission.least_role();
    let place = if entry.requirement.is_global {
        "on every namespace"
    } else {
        "on the namespaces that the request names"
    };
    let mut text = format!(
        "\n## `{}`\n\n{}. Needs the role {role} {place}.\n\nRequest:\n\n",
        entry.name,
        entry.summary.trim_end_matches('.')
    );
    table(&(entry.request)().to_value(), &mut text);
    text.push_str("\nResponse:\n\n");
    table(&(entry.response)().to_value(), &mut text);
    text
}

#[test]
fn the_reference_of_operations_is_up_to_date() {
    let text: String = std::iter::once(HEAD.to_owned())
        .chain(operations().map(section))
        .collect();
    check_page("operations.md", &text);
}

const EVENTS_HEAD: &str = "# Events

The event log stores every event with the change that caused it. `GET /api/v1/events` streams it, `plan log` shows
the events of a plan, and `audit list` the audited ones under the names of the last column. An event has `position`,
`kind`, `subject` (the id of what it concerns), `namespace`, `payload` and `occurred_at`. The test
`crates/application/tests/operations_reference.rs` writes this page from the code.

| Kind | Meaning | Audited as |
| --- | --- | --- |
";

#[test]
fn the_reference_of_events_is_up_to_date() {
    let mut text = EVENTS_HEAD.to_owned();
    for kind in EventKind::ALL {
        let meaning = kind.description().trim_end_matches('.');
        let audited = kind
            .audited()
            .map_or_else(String::new, |name| format!("`{name}`"));
        writeln!(text, "| `{kind}` | {meaning} | {audited} |")
            .expect("writing to a String succeeds");
    }
    check_page("events.md", &text);
}

/// Compares a page with the generated text; first writes the page if `CLEVERAGENTS_WRITE_DOCS` is set.
fn check_page(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var_os("CLEVERAGENTS_WRITE_DOCS").is_some() {
        std::fs::write(&file, text).expect("the file is written");
    }
    let documented = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        documented == text,
        "docs/reference/{name} is out of date; CLEVERAGENTS_WRITE_DOCS=1 writes it"
    );
}
