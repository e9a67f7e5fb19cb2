//! What people see of models while a plan is driven with `--stream`.

use cleveragents_testkit::Answer;
use serde_json::{Value, json};

use super::world::World;

/// What the reviewer answers, for the program.
const VERDICT: &str =
    r#"{"criteria": [{"number": 1, "met": true, "evidence": "one.txt is there"}]}"#;

/// A world with an action whose strategist and reviewer answer in JSON, the executor in words.
fn spoken() -> World {
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
            {"when": "^Judge", "text": VERDICT},
            {"text": "I have no plan yet."},
            {"text": strategy},
        ]}),
        &json!({"at_end": "repeat_last", "answers": [
            {"when": "^Carry out step 1 of ", "text": "I write it.", "calls": [
                {"name": "builtin/file-write", "arguments": {"path": "one.txt", "content": "one\n"}},
            ]},
            {"text": "It is {written}."},
        ]}),
        "one.txt is as it should be",
    );
    world
}

/// Makes a plan and carries it out, in a format; what each command said.
fn driven(world: &World, format: &str) -> [Answer; 2] {
    let run = |arguments: &[&str]| {
        let answer = world
            .agents
            .run(&[&["--format", format], arguments].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer
    };
    // A model has a form to keep to: what is none is corrected.
    let model = "scripted/strategist.yaml";
    let made = run(&[
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
    [made, run(&["plan", "execute", "--stream"])]
}

#[test]
fn what_is_meant_for_the_program_is_shown_as_what_it_means() {
    let world = spoken();
    let [made, carried_out] = driven(&world, "plain");
    for line in [
        "  Write it at once",
        "  1. Write one.txt",
        "  2. Look at it",
    ] {
        assert!(made.err.lines().any(|told| told == line), "{made:?}");
    }
    assert!(made.err.contains("I have no plan yet."), "{made:?}");
    assert!(carried_out.err.contains("I write it."), "{carried_out:?}");
    assert!(
        carried_out.err.contains("It is {written}."),
        "{carried_out:?}"
    );
    assert!(
        carried_out
            .err
            .contains("✓ one.txt is as it should be — one.txt is there"),
        "{carried_out:?}"
    );
    for answer in [made, carried_out] {
        for mark in ["\"summary\"", "\"criteria\"", "```", "\"evidence\""] {
            assert!(!answer.err.contains(mark), "{mark}: {answer:?}");
        }
    }
}

#[test]
fn programs_are_told_nothing_beside_the_document() {
    let world = spoken();
    for answer in driven(&world, "json") {
        assert_eq!(answer.err, "", "{answer:?}");
        assert_ne!(answer.json()["data"], Value::Null);
    }
}
