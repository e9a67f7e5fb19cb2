//! Many processes on one database: the first start, and message numbers (report 7326).
//!
//! Each test runs on an SQLite file and, if a server is available, on PostgreSQL.

#![expect(
    clippy::print_stdout,
    reason = "the tests print the number of messages"
)]

use std::collections::HashSet;
use std::io::Write as _;
use std::process::Stdio;

use cleveragents_testkit::{Agents, Answer, Gate, TestDatabase, at_once, proof_size};
use serde_json::Value;

/// A home that does not exist yet, for each kind of database. The PostgreSQL database must outlive
/// its home.
fn homes() -> Vec<(&'static str, Option<TestDatabase>, Agents)> {
    let fresh = || Agents::new(env!("CARGO_BIN_EXE_agents"));
    let server = TestDatabase::postgres().map(|database| {
        let agents = fresh().on(&database.url);
        ("postgres", Some(database), agents)
    });
    std::iter::once(("sqlite", None, fresh()))
        .chain(server)
        .collect()
}

/// First start of a home: the first process creates the database, the others open it.
#[test]
fn processes_started_at_once_on_a_new_home_create_one_database() {
    let count = proof_size(8, 32);
    for (kind, _database, agents) in homes() {
        let gate = Gate::default();
        let started: Vec<_> = (0..count)
            .map(|_| agents.behind(&gate, &["--format", "json", "session", "create"]))
            .collect();
        if kind == "sqlite" {
            assert!(!agents.home().exists(), "the home does not exist yet");
        }
        gate.open();
        let mut ids = HashSet::new();
        for child in started {
            let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
            assert_eq!(answer.code, Some(0), "{kind}: no process fails: {answer:?}");
            assert_eq!(answer.err, "", "{kind}: no errors");
            let id = answer.json()["data"]["session"]["id"].clone();
            assert!(
                ids.insert(id.as_str().expect("an id").to_owned()),
                "{kind}: {id} was assigned twice"
            );
        }
        let listed: HashSet<String> = agents.data(&["session", "list"])["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|session| session["id"].as_str().expect("an id").to_owned())
            .collect();
        assert_eq!(listed, ids, "{kind}: exactly the reported sessions exist");
        assert_migrated_once(&agents);
        agents.assert_sound();
    }
}

/// Asserts that every migration ran once, in order.
fn assert_migrated_once(agents: &Agents) {
    let status = agents.data(&["db", "status"]);
    let versions: Vec<u64> = status["applied"]
        .as_array()
        .expect("a list of migrations")
        .iter()
        .map(|migration| migration["version"].as_u64().expect("a number"))
        .collect();
    let newest = status["newest_version"].as_u64().expect("a number");
    assert_eq!(versions, (1..=newest).collect::<Vec<_>>());
}

/// Report 7326: the next number was read before it was written, so two writers got the same one.
#[test]
fn defect_7326_appends_of_many_processes_are_numbered_without_gap_or_duplicate() {
    let (writers, each) = (proof_size(8, 32), proof_size(10, 100));
    for (kind, _database, agents) in homes() {
        let session = agents.create_session();
        let printed: Vec<Vec<u64>> = at_once(writers, |writer| {
            (0..each)
                .map(|index| {
                    let text = content(writer, index);
                    let data = agents.data(&["session", "append", &session, &text]);
                    data["sequence"].as_u64().expect("a number")
                })
                .collect()
        });
        assert_numbered(kind, &agents, &session, &printed);
    }
}

/// Each process appends a stream of many messages.
#[test]
fn defect_7326_streams_of_many_processes_are_numbered_without_gap_or_duplicate() {
    let (writers, each) = (proof_size(8, 32), proof_size(50, 500));
    for (kind, _database, agents) in homes() {
        let session = agents.create_session();
        let printed: Vec<Vec<u64>> = at_once(writers, |writer| {
            let lines: String = (0..each)
                .map(|index| {
                    serde_json::json!({"content": content(writer, index)}).to_string() + "\n"
                })
                .collect();
            let mut child = agents
                .command(["session", "append", &session, "--jsonl", "-"])
                .stdin(Stdio::piped())
                .spawn()
                .expect("the program starts");
            let mut input = child.stdin.take().expect("a pipe");
            std::thread::scope(|scope| {
                scope.spawn(move || input.write_all(lines.as_bytes()).expect("a reader"));
                let answer =
                    Answer::from_output(&child.wait_with_output().expect("the program ends"));
                assert_eq!(answer.code, Some(0), "{kind}: no stream fails: {answer:?}");
                answer
                    .out
                    .lines()
                    .map(|line| {
                        let line: Value = serde_json::from_str(line).expect("one document a line");
                        line["sequence"].as_u64().expect("a number")
                    })
                    .collect()
            })
        });
        assert_numbered(kind, &agents, &session, &printed);
    }
}

fn content(writer: usize, index: usize) -> String {
    format!("writer {writer} message {index}")
}

/// Asserts that the messages are numbered 0, 1, 2…, that each number belongs to the message for
/// which a writer received it, and that the numbers of each writer increase.
fn assert_numbered(kind: &str, agents: &Agents, session: &str, printed: &[Vec<u64>]) {
    let contents = agents.contents(session);
    let total: usize = printed.iter().map(Vec::len).sum();
    assert_eq!(
        contents.len(),
        total,
        "{kind}: exactly the acknowledged messages are stored"
    );
    for (writer, numbers) in printed.iter().enumerate() {
        assert!(
            numbers.is_sorted(),
            "{kind}: writer {writer} kept its order"
        );
        for (index, number) in numbers.iter().enumerate() {
            let number = usize::try_from(*number).expect("a small number");
            assert_eq!(
                contents[number],
                content(writer, index),
                "{kind}: message {number} is the acknowledged message"
            );
        }
    }
    agents.assert_sound();
    println!(
        "{kind}: {total} messages of {} writers, numbered 0..{}",
        printed.len(),
        total - 1
    );
}

/// Reports 4709 and 11066: invariants were kept in the memory of one process, without
/// synchronization.
#[test]
fn defect_4709_invariants_persist_across_processes_and_none_is_lost() {
    let writers = proof_size(8, 32);
    for (kind, _database, agents) in homes() {
        agents.data(&["invariant", "add", "--global", "said by the first"]);
        let gate = Gate::default();
        // For each writer, one process adds a common invariant and one adds an invariant of its own.
        let started: Vec<_> = (0..writers)
            .flat_map(|writer| {
                let own = format!("own {writer}");
                [own.as_str(), "the same"].map(|text| {
                    let add = ["--format", "json", "invariant", "add", "--global", text];
                    agents.behind(&gate, &add)
                })
            })
            .collect();
        gate.open();
        let codes: Vec<Option<i32>> = started
            .into_iter()
            .map(|child| {
                child
                    .wait_with_output()
                    .expect("the program ends")
                    .status
                    .code()
            })
            .collect();
        let refused = codes.iter().filter(|code| **code == Some(4)).count();
        let succeeded = codes.iter().filter(|code| **code == Some(0)).count();
        assert_eq!(
            (succeeded, refused),
            (writers + 1, writers - 1),
            "{kind}: {codes:?}"
        );
        let listed = agents.data(&["invariant", "list"]);
        assert_eq!(listed["summary"]["total"], writers + 2, "{kind}");
        // For each invariant that only one writer added, two processes try to remove it, and one of them succeeds.
        let ids: Vec<String> = agents.data(&["invariant", "list", "^own"])["invariants"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|invariant| invariant["id"].as_str().expect("an id").to_owned())
            .collect();
        let gate = Gate::default();
        let started: Vec<_> = ids
            .iter()
            .flat_map(|id| [id, id])
            .map(|id| agents.behind(&gate, &["invariant", "remove", id, "--yes"]))
            .collect();
        gate.open();
        let succeeded = started
            .into_iter()
            .map(|child| {
                child
                    .wait_with_output()
                    .expect("the program ends")
                    .status
                    .code()
            })
            .filter(|code| *code == Some(0))
            .count();
        assert_eq!(succeeded, writers, "{kind}: each is removed once");
        let remaining = agents.data(&["invariant", "list"]);
        assert_eq!(remaining["summary"]["total"], 2, "{kind}");
        agents.assert_sound();
    }
}
