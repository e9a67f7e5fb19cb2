//! Output of models while a plan runs with `--stream`.

use cleveragents_testkit::Answer;
use serde_json::{Value, json};

use super::world::World;

/// JSON answer of the reviewer.
const VERDICT: &str =
    r#"{"criteria": [{"number": 1, "met": true, "evidence": "one.txt is there"}]}"#;

/// A world with an action whose strategist and reviewer answer in JSON, and whose executor answers
/// in text.
fn world_with_models() -> World {
    let world = World::new();
    let strategy = json!({
        "summary": "Write it at once",
        "steps": [
            {"title": "Write one.txt", "description": "Write it.", "files": ["one.txt"]},
            {"title": "Look at it", "description": "Read it.", "after": [1]},
        ],
    });
    let strategy = format!("```json\n{strategy:#}\n```");
    world.scripted_action(
        "local/talks",
        &json!({"at_end": "repeat_last", "answers": [
            {"when": "^Review the result", "text": VERDICT},
            {"text": "I have no plan yet."},
            {"text": strategy},
        ]}),
        &json!({"at_end": "repeat_last", "answers": [
            {"when": "^Execute step 1 of ", "text": "I write it.", "calls": [
                {"name": "builtin/file-write", "arguments": {"path": "one.txt", "content": "one\n"}},
            ]},
            {"text": "It is {written}."},
        ]}),
        "one.txt is as it should be",
    );
    world
}

/// Creates and executes a plan in an output format. Returns the output of each command.
fn create_and_execute(world: &World, format: &str) -> [Answer; 2] {
    let run = |arguments: &[&str]| {
        let answer = world
            .agents
            .run(&[&["--format", format], arguments].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer
    };
    // A model that is named instead of an actor must answer in a JSON schema, so an invalid answer
    // is corrected.
    let model = "scripted/strategist.yaml";
    let created = run(&[
        "plan",
        "use",
        "local/talks",
        "local/p",
        "--strategy-actor",
        model,
        "--review-actor",
        model,
        "--stream",
    ]);
    [created, run(&["plan", "execute", "--stream"])]
}

#[test]
fn json_answers_are_shown_as_their_content() {
    let world = world_with_models();
    let [created, executed] = create_and_execute(&world, "plain");
    for line in [
        "  Write it at once",
        "  1. Write one.txt",
        "  2. Look at it",
    ] {
        assert!(
            created.err.lines().any(|reported| reported == line),
            "{created:?}"
        );
    }
    assert!(created.err.contains("I have no plan yet."), "{created:?}");
    assert!(executed.err.contains("I write it."), "{executed:?}");
    assert!(executed.err.contains("It is {written}."), "{executed:?}");
    assert!(
        executed
            .err
            .contains("✓ one.txt is as it should be — one.txt is there"),
        "{executed:?}"
    );
    for answer in [created, executed] {
        for mark in ["\"summary\"", "\"criteria\"", "```", "\"evidence\""] {
            assert!(!answer.err.contains(mark), "{mark}: {answer:?}");
        }
    }
}

#[test]
fn machine_formats_print_only_the_document() {
    let world = world_with_models();
    for answer in create_and_execute(&world, "json") {
        assert_eq!(answer.err, "", "{answer:?}");
        assert_ne!(answer.json()["data"], Value::Null);
    }
}
