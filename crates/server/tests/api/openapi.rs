//! The OpenAPI document.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Server;

/// Every `$ref` in a document.
fn references(document: &Value, targets: &mut BTreeSet<String>) {
    match document {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("$ref", Value::String(target)) => drop(targets.insert(target.clone())),
                    _ => references(field, targets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, targets)),
        _ => {}
    }
}

#[test]
fn every_described_path_and_every_reference_exists() {
    let server = Server::start();
    let document = server
        .local()
        .get("/api/v1/openapi.json")
        .expect(200)
        .json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut targets = BTreeSet::new();
    references(&document, &mut targets);
    assert!(!targets.is_empty());
    for target in targets {
        let pointer = target.strip_prefix('#').expect("in this document");
        assert!(document.pointer(pointer).is_some(), "{target} is missing");
    }
    let paths = document["paths"].as_object().expect("paths");
    for expected in [
        "/healthz",
        "/metrics",
        "/api/v1/events",
        "/api/v1/sessions/{session}/turns",
    ] {
        assert!(paths.contains_key(expected), "{expected}");
    }
    let mut names = BTreeSet::new();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(names.insert(id.to_owned()), "{id} exists twice");
            check_parameters(path, operation);
            check_answers(path, operation);
            // Where the document requires a token, requests without a token are rejected.
            let concrete_path = path
                .replace("{session}", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
                .replace("{plan}", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
                .replace("{name}", "plan/list");
            let stranger = crate::harness::Client::new(server.address, Some("ca_none".to_owned()));
            let status = stranger
                .ask(&method.to_uppercase(), &concrete_path, None)
                .status;
            if operation.get("security").is_some() {
                assert!(matches!(status, 401 | 429), "{method} {path}: {status}");
            } else {
                assert_ne!(status, 401, "{method} {path}");
            }
        }
    }
}

fn check_parameters(path: &str, operation: &Value) {
    let described: BTreeSet<&str> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|parameter| parameter["in"] == "path")
        .map(|parameter| parameter["name"].as_str().expect("a name"))
        .collect();
    let needed: BTreeSet<&str> = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .collect();
    assert_eq!(described, needed, "{path}");
}

fn check_answers(path: &str, operation: &Value) {
    let responses = operation["responses"].as_object().expect("responses");
    assert!(
        responses.keys().any(|status| status.starts_with('2')),
        "{path} never succeeds"
    );
    for (status, response) in responses
        .iter()
        .filter(|(status, _)| !status.starts_with('2'))
    {
        let schema = &response["content"]["application/problem+json"]["schema"];
        assert!(schema.is_object(), "{path} {status}");
    }
}
