//! Tests of the files in `examples/actors`: each is valid, matches the schema, and can be drawn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_actors::{Actor, draw, schema};
use serde_json::Value;

use crate::support::actor;

fn files() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/actors");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a text");
            (path, text)
        })
        .collect();
    files.sort();
    assert!(files.len() >= 8, "only {} files", files.len());
    files
}

fn actors() -> Vec<Arc<Actor>> {
    files().iter().map(|(_, text)| actor(text)).collect()
}

#[test]
fn every_example_is_valid_without_warnings() {
    for actor in actors() {
        assert_eq!(actor.warnings, Vec::<String>::new(), "{}", actor.name);
    }
}

#[test]
fn every_example_matches_the_schema() {
    let schema = jsonschema::validator_for(&schema()).expect("a schema");
    for (path, text) in files() {
        let value: Value = serde_saphyr::from_str(&text).expect("YAML");
        let wrong: Vec<String> = schema
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
    }
    for wrong in [
        "{type: llm}",
        "{name: a, type: llm, sytem_prompt: x}",
        "{name: a, nodes: {b: {promt: x}}}",
    ] {
        let value: Value = serde_saphyr::from_str(wrong).expect("YAML");
        assert!(!schema.is_valid(&value), "{wrong}");
    }
}

#[test]
fn the_code_review_fits_forty_lines() {
    let (_, text) = files()
        .into_iter()
        .find(|(path, _)| path.ends_with("code-review.yaml"))
        .expect("the example");
    assert!(text.lines().count() <= 40);
}

#[test]
fn every_node_and_edge_is_in_every_drawing() {
    for actor in actors() {
        let text = draw::text(&actor);
        let mermaid = draw::mermaid(&draw::diagram(&actor));
        let svg = draw::svg(&draw::diagram(&actor));
        for (number, node) in actor.graph.nodes.iter().enumerate() {
            assert!(text.contains(&format!("{} (", node.id)), "{text}");
            assert!(mermaid.contains(&format!("    n{number}")), "{mermaid}");
            assert!(svg.contains(&format!(">{}</text>", node.id)), "{svg}");
        }
        assert!(svg.contains("role=\"img\""));
    }
}
