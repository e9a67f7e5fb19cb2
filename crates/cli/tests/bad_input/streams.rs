//! JSON lines: the error names the invalid line; earlier lines are stored and acknowledged, later
//! lines are not stored.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, agents_with_data, assert_error_document, refuse};

/// Feeds two valid lines, an invalid line and a valid line. The invalid line must end the stream.
fn feed_invalid_line(line: &[u8], code: &str) -> Value {
    let agents = agents();
    agents.data(&["session", "create", "--name", "one"]);
    let input = [
        b"{\"content\":\"before 1\"}\n{\"content\":\"before 2\",\"role\":\"tool\"}\n".as_slice(),
        line,
        b"\n{\"content\":\"after\"}\n",
    ]
    .concat();
    let arguments = ["session", "append", "one", "--jsonl", "-"];

    // Human formats: acknowledgements on standard output, the error on standard error.
    let human = agents.run_with(&arguments, &input);
    assert_eq!(human.code, Some(2), "{human:?}");
    assert_acknowledged(&human.out.lines().collect::<Vec<_>>(), 0);
    assert!(
        human.err.starts_with(&format!("error[{code}]: line 3")),
        "{human:?}"
    );
    assert!(human.err.contains("\nhint: "), "{human:?}");
    assert_eq!(agents.contents("one"), ["before 1", "before 2"]);

    // Machine formats: the envelope is one more line.
    let machine = agents.run_with(
        &[&["--format", "json"], arguments.as_slice()].concat(),
        &input,
    );
    assert_eq!(machine.code, Some(2), "{machine:?}");
    assert_eq!(machine.err, "");
    let lines: Vec<&str> = machine.out.lines().collect();
    assert_eq!(
        lines.len(),
        3,
        "two acknowledgements and the error: {machine:?}"
    );
    assert_acknowledged(&lines[..2], 2);
    let document: Value = serde_json::from_str(lines[2]).expect("one document a line");
    assert_error_document(&document, 2, code);
    assert_eq!(
        document["data"]["error"]["details"]["line"], 3,
        "{document:#}"
    );
    assert_eq!(agents.contents("one").len(), 4);
    agents.assert_sound();
    document["data"]["error"].clone()
}

fn assert_acknowledged(lines: &[&str], from: usize) {
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (index, line) in lines.iter().enumerate() {
        let line: Value = serde_json::from_str(line).expect("one document a line");
        assert_eq!(line["sequence"], from + index);
        assert_eq!(
            line["message_id"].as_str().map(str::len),
            Some(26),
            "{line}"
        );
    }
}

#[test]
fn an_invalid_line_ends_the_stream() {
    for line in [
        "{bad",
        "[]",
        "\"text\"",
        "{}",
        "{\"content\":1}",
        "{\"content\":null}",
        "{\"role\":\"user\"}",
        "{\"content\":\"x\",\"metadata\":[]}",
        "{\"content\":\"x\",\"metadata\":\"y\"}",
        "{\"content\":\"x\",\"contents\":\"y\"}",
        "{\"content\":\"x\",\"content\":\"y\"}",
        "{\"content\":\"x\"} {\"content\":\"y\"}",
        "{\"content\":\"\\ud800\"}",
    ] {
        feed_invalid_line(line.as_bytes(), "CA-0308");
    }
}

#[test]
fn a_line_with_an_invalid_message_is_named() {
    feed_invalid_line(b"{\"content\":\"\"}", "CA-0304");
    feed_invalid_line(b"{\"content\":\" \\n\"}", "CA-0304");
    feed_invalid_line(b"{\"content\":\"x\",\"role\":\"robot\"}", "CA-0303");
    feed_invalid_line(&json_of(&"x".repeat(1_048_577)), "CA-0305");
}

#[test]
fn a_nul_in_a_line_is_refused() {
    let error = feed_invalid_line(b"{\"content\":\"a\\u0000b\"}", "CA-0307");
    assert!(error["hint"].as_str().expect("a hint").contains("NUL"));
    // Unescaped control characters are not valid JSON.
    feed_invalid_line(b"{\"content\":\"a\0b\"}", "CA-0308");
}

/// One of the two databases cannot store a NUL in metadata.
#[test]
fn a_nul_in_the_metadata_is_stored_or_refused_alike_on_both_databases() {
    let line = "{\"content\":\"x\",\"metadata\":{\"k\":\"a\\u0000b\"}}\n";
    let outcomes: Vec<_> = cleveragents_testkit::TestDatabase::each()
        .into_iter()
        .map(|database| {
            let agents = agents().on(&database.url);
            agents.data(&["session", "create", "--name", "one"]);
            let answer = agents.run_with(
                &["session", "append", "one", "--jsonl", "-"],
                line.as_bytes(),
            );
            let stored: Vec<Value> = agents
                .messages("one")
                .iter()
                .map(|message| message["metadata"].clone())
                .collect();
            (answer.code, answer.err, stored)
        })
        .collect();
    for outcome in &outcomes {
        assert_eq!(*outcome, outcomes[0]);
        match outcome.0 {
            Some(0) => assert_eq!(outcome.2, [json!({"k": "a\0b"})]),
            code => assert_eq!((code, outcome.2.len()), (Some(2), 0), "{outcome:?}"),
        }
    }
}

#[test]
fn a_line_that_is_not_utf8_is_named() {
    let error = feed_invalid_line(b"{\"content\":\"caf\xe9\"}", "CA-0107");
    assert_eq!(error["details"], json!({"line": 3, "byte": 15}));
}

#[test]
fn empty_lines_are_counted_but_ignored() {
    let agents = agents_with_data();
    let input = "\n  \n{\"content\":\"x\"}\r\n\n{wrong\n";
    let answer = agents.run_with(
        &["session", "append", "two", "--jsonl", "-"],
        input.as_bytes(),
    );
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("line 5"), "{answer:?}");
    assert_eq!(agents.contents("two"), ["x"]);
}

#[test]
fn a_last_line_without_a_line_feed_counts() {
    let agents = agents_with_data();
    let answer = agents.run_with(
        &["session", "append", "two", "--jsonl", "-"],
        b"{\"content\":\"a\"}\n{\"content\":\"b\"}",
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(agents.contents("two"), ["a", "b"]);
}

#[test]
fn a_missing_file_of_lines_is_named() {
    let agents = agents_with_data();
    let error = refuse(
        &agents,
        &["session", "append", "one", "--jsonl", "missing.jsonl"],
    )
    .with(1, "CA-0105");
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("missing.jsonl")
    );
    refuse(&agents, &["session", "append", "one", "--jsonl", "."]).with(1, "CA-0105");
}

#[test]
fn a_long_stream_with_a_wrong_line_keeps_everything_before_it() {
    let agents: Agents = agents_with_data();
    let mut input: String = (0..3_000)
        .map(|index| json!({"content": format!("line {index}")}).to_string() + "\n")
        .collect();
    input.push_str("wrong\n{\"content\":\"after\"}\n");
    let answer = agents.run_with(
        &["session", "append", "two", "--jsonl", "-"],
        input.as_bytes(),
    );
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("line 3001 "), "{}", answer.err);
    assert_eq!(answer.out.lines().count(), 3_000);
    let contents = agents.contents("two");
    assert_eq!(contents.len(), 3_000);
    assert_eq!(contents[2_999], "line 2999");
}

fn json_of(content: &str) -> Vec<u8> {
    json!({"content": content}).to_string().into_bytes()
}
