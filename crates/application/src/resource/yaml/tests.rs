use super::{read, resource_type_schema};
use crate::ResourceError;
use cleveragents_domain::{
    Activation, ArgumentType, ResourceKind, ResourceType, SandboxStrategy, TypeName,
};
use std::fmt::Write as _;

fn variables(name: &str) -> Option<String> {
    (name == "TEAM").then(|| "blue".to_owned())
}

/// Whether the schema accepts a file.
fn is_valid(text: &str) -> bool {
    let schema = jsonschema::validator_for(&resource_type_schema()).expect("a schema");
    let value: serde_json::Value = serde_saphyr::from_str(text).expect("YAML");
    schema.is_valid(&value)
}

/// Parses a type; the schema must accept it too.
fn parse(text: &str) -> ResourceType {
    match read(text, &variables) {
        Ok(written) => {
            assert!(is_valid(text), "the schema refuses {text}");
            written.declared
        }
        Err(error) => panic!("{error}: {text}"),
    }
}

/// The message, the line and column, and the suggested field.
fn refusal(text: &str) -> (String, Option<(u64, u64)>, Option<String>) {
    match read(text, &variables).map(|written| written.declared) {
        Err(ResourceError::Malformed {
            message,
            place,
            nearest,
        }) => (message, place, nearest),
        other => panic!("{text} is malformed, not {other:?}"),
    }
}

/// The same type in each spelling that published descriptions of the format use.
#[test]
fn every_spelling_means_the_same_type() {
    let wrapped = "cleveragents:\n  version: \"3.0\"\nresource_type:\n  name: local/database\n  \
        physical_or_virtual: physical\n  cli_arguments:\n    - argument: --connection-string\n      \
        required: true\n      type: string\n  allowed_parent_types: [fs-directory]\n  child_types:\n    \
        - type: local/db-schema\n      auto_discover: true\n  sandbox_strategy: transaction_rollback\n  \
        handler: database\n  capabilities: {readable: true, writable: true, sandboxable: true, checkpointable: true}\n";
    let second = "resource_type:\n  name: local/database\n  classification: physical\n  cli_args:\n    \
        - {name: connection-string, required: true}\n  parent_types: [fs-directory]\n  child_types:\n    \
        - {type: local/db-schema, auto_discover: true}\n  sandbox_strategy: transaction_rollback\n  \
        handler: database\n  capabilities: {read: true, write: true, sandbox: true, checkpoint: true}\n";
    let flat = "name: local/database\nresource_kind: physical\ncli_args:\n  - {name: connection-string, \
        required: true, type: string}\nparent_types: [fs-directory]\nchild_types: [{type: local/db-schema, \
        auto_discover: true}]\nsandbox: {strategy: transaction_rollback, handler: database, checkpointable: true}\n\
        capabilities: {read: true, write: true}\n";
    let found = parse(wrapped);
    assert_eq!(found, parse(second));
    assert_eq!(found, parse(flat));
    assert_eq!(found.name.as_str(), "local/database");
    assert_eq!(found.kind, ResourceKind::Physical);
    assert!(found.user_addable);
    assert_eq!(found.arguments[0].name, "connection-string");
    assert_eq!(found.arguments[0].kind, ArgumentType::String);
    assert!(found.arguments[0].required && found.child_types[0].auto_discover);
    assert_eq!(
        found.sandbox_strategy,
        Some(SandboxStrategy::TransactionRollback)
    );
    assert!(found.capabilities.expect("declared").checkpoint);
}

#[test]
fn children_may_be_names_alone_and_discovery_may_be_nested() {
    let found = parse(
        "name: x\nchild_types: [fs-file, {type: git}]\nauto_discovery:\n  scan_depth: 2\n  \
         include_patterns: ['packages/*']\n  parent_types: [fs-directory]\n  detection: {scan_paths: [a.json], \
         activation: eager}\n",
    );
    let names: Vec<&TypeName> = found.child_types.iter().map(|child| &child.name).collect();
    assert_eq!(names.len(), 2);
    let discovery = found.auto_discovery.expect("declared");
    assert!(discovery.enabled);
    assert_eq!(discovery.scan_paths, ["a.json"]);
    assert_eq!(
        (discovery.scan_depth, discovery.activation),
        (2, Activation::Eager)
    );
}

#[test]
fn variables_in_texts_are_replaced() {
    let found = parse(
        "name: ${TEAM}/database\ndescription: of ${TEAM} and ${OTHER:green}, ${UNFINISHED\ncli_args:\n  \
         - {name: host, default: '${HOST:-localhost}'}\n",
    );
    assert_eq!(found.name.as_str(), "blue/database");
    assert_eq!(found.description, "of blue and green, ${UNFINISHED");
    assert_eq!(found.arguments[0].default.as_deref(), Some("localhost"));
    let (message, place, _) = refusal("name: x\ndescription: for ${NOBODY}\n");
    assert!(message.contains("NOBODY"), "{message}");
    assert_eq!(place, Some((2, 18)));
}

#[test]
fn defaults_are_single_values_of_their_type() {
    let found = parse(
        "name: x\ncli_args: [{name: a, type: integer, default: 5}, {name: b, type: boolean, default: true}]\n",
    );
    let defaults: Vec<_> = found
        .arguments
        .iter()
        .map(|argument| argument.default.as_deref())
        .collect();
    assert_eq!(defaults, [Some("5"), Some("true")]);
    for wrong in [
        "name: x\ncli_args: [{name: a, type: integer, default: five}]\n",
        "name: x\ncli_args: [{name: a, type: url, default: nowhere}]\n",
        "name: x\ncli_args: [{name: a, default: [1]}]\n",
        "name: x\ncli_args: [{name: a, default: B, validation_pattern: '[a-z]'}]\n",
    ] {
        assert_eq!(refusal(wrong).1.map(|place| place.0), Some(2), "{wrong}");
    }
}

#[test]
fn errors_have_a_position() {
    for (text, line, part) in [
        ("name: x\nhandlr: y\n", 2, "`handlr`"),
        ("name: x\nkind: magical\n", 2, "magical"),
        ("name: x\nsandbox_strategy: foo\n", 2, "foo"),
        ("name: x\n  description: y\n", 2, ""),
        ("name: [x]\n", 1, ""),
        ("name: a b\n", 1, "a b"),
        (
            "name: x\ncli_args:\n  - name: a\n    typ: path\n",
            4,
            "`typ`",
        ),
        (
            "name: x\ncli_args: [{name: a, validation_pattern: '('}]\n",
            2,
            "regular expression",
        ),
        ("name: x\nname: y\n", 2, "name"),
        ("name: x\nuser_addable: perhaps\n", 2, ""),
    ] {
        let (message, place, _) = refusal(text);
        assert_eq!(place.map(|place| place.0), Some(line), "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
        assert!(!message.contains('\n'), "one line: {message}");
    }
    let (_, _, nearest) = refusal("name: x\nhandlr: y\n");
    assert_eq!(nearest.as_deref(), Some("handler"));
    for text in [
        "",
        "[1, 2]\n",
        "just text\n",
        "description: nameless\n",
        "cleveragents: {version: '9.0'}\nname: x\n",
    ] {
        refusal(text);
    }
}

#[test]
fn yaml_aliases_cannot_multiply_the_size_of_a_file() {
    // Ten levels of ten references each: ten billion entries if expanded.
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        let entries = vec![below; 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{entries}]").expect("writing to a String succeeds");
    }
    refusal(&text);
}

#[test]
fn the_schema_rejects_the_same_files() {
    for text in [
        "description: without a name\n",
        "name: local/x\nkidn: physical\n",
        "name: local/x\nkind: mental\n",
        "name: local/x\ncli_args: [{required: true}]\n",
        "name: local/x\ncli_args: [{name: a, type: colour}]\n",
        "name: local/x\nchild_types: [{auto_discover: true}]\n",
        "name: local/x\ncapabilities: {fly: true}\n",
        "resource_type: {name: local/x}\nname: local/y\n",
        "- a list\n",
    ] {
        assert!(read(text, &variables).is_err(), "{text}");
        assert!(!is_valid(text), "{text}");
    }
}
