//! `kill -9` at random instants of a turn with five calls. One call must not run twice.

use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, proof_size};
use serde_json::Value;

use super::world::{ConversationFixture, READ, SHELL, WRITE, agents, error_of};

/// The command continues for a while after its effect, so that many kills leave its outcome
/// unknown.
fn script() -> String {
    format!(
        "answers:\n\
         - calls:\n  \
         - {{id: one, name: {READ}, arguments: {{path: notes.txt}}}}\n  \
         - {{id: two, name: {WRITE}, arguments: {{path: a.txt, content: a}}}}\n  \
         - {{id: three, name: {SHELL}, arguments: {{command: 'echo x >> log.txt; sleep 0.1'}}}}\n\
         - calls:\n  \
         - {{id: four, name: {READ}, arguments: {{path: a.txt}}}}\n  \
         - {{id: five, name: {WRITE}, arguments: {{path: b.txt, content: b}}}}\n\
         - text: Done.\n"
    )
}

fn fixture() -> ConversationFixture {
    let fixture = ConversationFixture::scripted(agents(), &script());
    let after = "answers:\n- {when: '.', text: I see.}\n";
    std::fs::write(fixture.agents.cwd().join("after.yaml"), after).expect("a file");
    fixture
}

/// Starts a turn, runs `wait`, and kills the program.
fn kill_when(fixture: &ConversationFixture, wait: impl FnOnce()) {
    let mut child = fixture.start(&["go"]);
    wait();
    child.kill().expect("a program that is not reaped");
    child.wait().expect("a killed program is reaped");
}

/// Number of times that the command took effect.
fn effects(fixture: &ConversationFixture) -> usize {
    fixture.file("log.txt").map_or(0, |log| log.lines().count())
}

/// Asserts that every call in the history is followed by one result.
fn assert_consistent_history(fixture: &ConversationFixture, context: &str) {
    fixture.messages();
    let rows = fixture.ask("SELECT metadata FROM messages ORDER BY sequence");
    let mut pending: Vec<Value> = Vec::new();
    for row in rows {
        let metadata: Value = serde_json::from_str(&row[0]).expect("JSON");
        let text = metadata["chat"].to_string();
        if text.contains("\"call_id\"") {
            let id = find(&metadata["chat"], "call_id").expect("an id");
            let position = pending.iter().position(|call| *call == id);
            pending.remove(
                position.unwrap_or_else(|| panic!("{context}: a result without a call: {id}")),
            );
        } else {
            assert!(
                pending.is_empty(),
                "{context}: calls without results: {pending:?}"
            );
            if let Some(calls) = find(&metadata["chat"], "calls") {
                let calls = calls.as_array().expect("calls").clone();
                pending.extend(calls.into_iter().map(|call| call["id"].clone()));
            }
        }
    }
    assert!(
        pending.is_empty(),
        "{context}: calls without results: {pending:?}"
    );
    let running = fixture.ask("SELECT count(*) FROM turns WHERE state = 'running'");
    assert_eq!(running, [["0"]], "{context}");
    let running = fixture.ask("SELECT count(*) FROM tool_invocations WHERE outcome = 'running'");
    assert_eq!(running, [["0"]], "{context}");
}

/// Value of a field with this name at any depth.
fn find(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .cloned()
            .or_else(|| fields.values().find_map(|value| find(value, name))),
        Value::Array(items) => items.iter().find_map(|item| find(item, name)),
        _ => None,
    }
}

/// Stored state of the turn when it was killed.
struct KilledTurn {
    is_running: bool,
    /// Stored outcome of the command; empty if it has no row.
    command: String,
    /// Rows of the finished calls.
    finished: Vec<Vec<String>>,
}

fn read_killed_turn(fixture: &ConversationFixture) -> KilledTurn {
    let running = fixture.ask("SELECT count(*) FROM turns WHERE state = 'running'");
    let command = fixture.ask("SELECT outcome FROM tool_invocations WHERE call_id = 'three'");
    KilledTurn {
        is_running: running == [["1"]],
        command: command
            .first()
            .map(|row| row[0].clone())
            .unwrap_or_default(),
        finished: fixture.ask(
            "SELECT invocation_id, call_id, outcome, output_hash, finished_at \
             FROM tool_invocations WHERE outcome <> 'running' ORDER BY invocation_id",
        ),
    }
}

/// Continues after a kill, with `--resume` or with a new message, and checks the state.
fn resume_turn(fixture: &ConversationFixture, by_resume: bool, context: &str) {
    let killed = read_killed_turn(fixture);
    let before = effects(fixture);
    let context = &format!(
        "{context}, resume {by_resume}, command `{}`",
        killed.command
    );
    let reported = if by_resume {
        let answer = fixture.send_prompt(&["--resume"]);
        if killed.is_running {
            assert_eq!(answer.code, Some(0), "{context}: {answer:?}");
            let reported = answer.json()["data"].clone();
            assert_eq!(reported["response"], "Done.", "{context}");
            assert_eq!(fixture.file("b.txt").as_deref(), Some("b"), "{context}");
            reported
        } else {
            assert_eq!(
                error_of(&answer)["code"],
                "CA-0913",
                "{context}: {answer:?}"
            );
            fixture.send_prompt_json(&["--actor", "scripted/after.yaml", "and now?"])
        }
    } else {
        fixture.send_prompt_json(&["--actor", "scripted/after.yaml", "and now?"])
    };
    let interrupted = &reported["interrupted"];
    assert_eq!(
        interrupted.is_object(),
        killed.is_running,
        "{context}: {reported}"
    );
    let has_unknown_outcome = killed.command == "running";
    if killed.is_running {
        let expected = if has_unknown_outcome {
            vec!["builtin/shell"]
        } else {
            vec![]
        };
        assert_eq!(
            interrupted["doubtful"],
            serde_json::json!(expected),
            "{context}"
        );
        assert_eq!(interrupted["resumed"], by_resume, "{context}");
    }
    let runs = fixture.ask("SELECT count(*) FROM tool_invocations WHERE call_id = 'three'");
    let runs: usize = runs[0][0].parse().expect("a number");
    assert!(runs <= 1, "{context}: the command ran {runs} times");
    let after = effects(fixture);
    match killed.command.as_str() {
        // The command is not repeated, as its only row shows. It is killed shortly after the
        // program, so it may have taken effect after `before` was read.
        "running" => assert!(after >= before, "{context}"),
        "succeeded" => assert_eq!(after, before, "{context}"),
        _ if by_resume && killed.is_running => assert_eq!(after, 1, "{context}"),
        _ => assert_eq!(after, before, "{context}"),
    }
    assert!(after <= 1, "{context}: {after} lines");
    if killed.command == "succeeded" {
        assert_eq!(after, 1, "{context}");
    }
    for row in &killed.finished {
        let current = fixture.ask(&format!(
            "SELECT invocation_id, call_id, outcome, output_hash, finished_at \
             FROM tool_invocations WHERE call_id = '{}'",
            row[1]
        ));
        assert_eq!(
            current,
            std::slice::from_ref(row),
            "{context}: a stored result changed"
        );
    }
    assert_consistent_history(fixture, context);
}

#[test]
fn a_turn_killed_at_any_instant_is_resumed_and_repeats_nothing() {
    let fixture = fixture();
    let started = Instant::now();
    assert_eq!(fixture.send_prompt_json(&["go"])["response"], "Done.");
    let duration = started.elapsed();
    assert_eq!(effects(&fixture), 1);
    assert_consistent_history(&fixture, "without a kill");
    let mut dice = Dice::default();
    let limit = u64::try_from(duration.as_micros()).expect("a short time");
    for round in 0..proof_size(12, 100) {
        let fixture = self::fixture();
        let wait = Duration::from_micros(dice.roll(limit + limit / 10));
        kill_when(&fixture, || std::thread::sleep(wait));
        resume_turn(
            &fixture,
            round % 2 == 0,
            &format!("round {round}, {wait:?} of {duration:?}"),
        );
    }
}

#[test]
fn a_command_killed_after_its_effect_has_an_unknown_outcome_and_is_never_repeated() {
    for by_resume in [true, false] {
        let fixture = fixture();
        kill_when(&fixture, || {
            let deadline = Instant::now() + Duration::from_secs(20);
            while effects(&fixture) == 0 {
                assert!(Instant::now() < deadline, "the command takes effect");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(read_killed_turn(&fixture).command, "running");
        resume_turn(&fixture, by_resume, "after its effect");
        assert_eq!(effects(&fixture), 1);
        let messages = fixture.messages();
        let reported = messages.iter().find(|message| {
            let text = message["content"].as_str().unwrap_or_default();
            text.contains("Its outcome is unknown")
        });
        assert!(
            reported.is_some(),
            "the model receives the outcome: {messages:?}"
        );
    }
}
