//! Steps about sessions, which all run the program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use cleveragents_testkit::{TestDatabase, at_once};
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use crate::program::{home_on, last_document};
use crate::world::World;

#[given("a session")]
fn a_session(world: &mut World) {
    world.new_home();
    world.session = Some(world.agents().create_session());
}

#[given("a session on a PostgreSQL server")]
fn a_session_on_a_server(world: &mut World) {
    let database = TestDatabase::postgres().expect("the runner skips this without a server");
    world.agents = Some(home_on(&database));
    world.database = Some(database);
    world.session = Some(world.agents().create_session());
}

#[given(expr = "a session called {string}")]
fn a_session_called(world: &mut World, name: String) {
    let created = world.agents().data(&["session", "create", "--name", &name]);
    world.session = created["session"]["id"].as_str().map(str::to_owned);
}

#[given(expr = "a session called {string} with {int} messages")]
fn a_session_with_messages(world: &mut World, name: String, count: usize) {
    a_session_called(world, name.clone());
    for index in 0..count {
        world
            .agents()
            .data(&["session", "append", &name, &format!("message {index}")]);
    }
}

#[when(expr = "I say {string} as {word} in {string}")]
fn i_say(world: &mut World, text: String, role: String, session: String) {
    let arguments = [
        "--format", "json", "session", "append", &session, "--role", &role, &text,
    ];
    world.answer = Some(world.agents().run(&arguments));
}

#[then(expr = "{string} reads")]
fn it_reads(world: &mut World, session: String, step: &Step) {
    let table = step.table.as_ref().expect("the step has a table");
    let messages: Vec<Vec<String>> = world
        .agents()
        .messages(&session)
        .iter()
        .map(|message| ["role", "content"].map(|key| text(&message[key])).to_vec())
        .collect();
    assert_eq!(messages, table.rows);
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

#[then(expr = "{string} holds {int} message(s)")]
fn it_holds(world: &mut World, session: String, count: usize) {
    assert_eq!(world.agents().contents(&session).len(), count);
}

#[when(expr = "I show the session by the first {int} characters of its id")]
fn i_show_by_prefix(world: &mut World, characters: usize) {
    let prefix = world.session()[..characters].to_owned();
    let arguments = ["--format", "json", "session", "show", &prefix];
    world.answer = Some(world.agents().run(&arguments));
}

#[then("both sessions are listed as candidates")]
fn candidates(world: &mut World) {
    let document = last_document(world.answer());
    let mut reported: Vec<String> = document["data"]["error"]["details"]["candidates"]
        .as_array()
        .expect("candidates")
        .iter()
        .map(|candidate| text(&candidate["id"]))
        .collect();
    let mut stored: Vec<String> = world.agents().data(&["session", "list"])["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| text(&session["id"]))
        .collect();
    reported.sort_unstable();
    stored.sort_unstable();
    assert_eq!((reported.len(), reported), (2, stored));
}

#[when(expr = "I stream these lines into {string}")]
fn i_stream(world: &mut World, session: String, step: &Step) {
    let lines = step.docstring.as_ref().expect("the step has lines");
    let arguments = [
        "--format", "json", "session", "append", &session, "--jsonl", "-",
    ];
    world.answer = Some(
        world
            .agents()
            .run_with(&arguments, lines.trim_start().as_bytes()),
    );
}

#[then(expr = "{int} messages are acknowledged")]
fn messages_are_acknowledged(world: &mut World, count: usize) {
    let out = &world.answer().out;
    let reported = out
        .lines()
        .filter(|line| line.starts_with("{\"sequence\":"))
        .count();
    assert_eq!(reported, count, "{out}");
}

#[when(expr = "I export {string} to {string}")]
fn i_export(world: &mut World, session: String, file: String) {
    world
        .agents()
        .data(&["session", "export", &session, "--output", &file]);
}

#[when(expr = "one byte of {string} is changed")]
fn one_byte_is_changed(world: &mut World, file: String) {
    let path = world.agents().cwd().join(file);
    let text = std::fs::read_to_string(&path).expect("a file");
    let changed = text.replacen("message 3", "message 8", 1);
    assert_ne!(changed, text);
    std::fs::write(&path, changed).expect("a file");
}

#[then(expr = "there are {int} sessions with the same messages")]
fn sessions_with_the_same_messages(world: &mut World, count: usize) {
    let sessions = world.agents().data(&["session", "list"])["sessions"].clone();
    let contents: Vec<Vec<String>> = sessions
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| world.agents().contents(&text(&session["id"])))
        .collect();
    assert_eq!(contents.len(), count);
    assert!(
        contents.windows(2).all(|pair| pair[0] == pair[1]),
        "{contents:?}"
    );
}

// --- many programs

#[when(expr = "{int} programs append {int} messages each at the same time")]
fn programs_append(world: &mut World, programs: usize, each: usize) {
    let (agents, session) = (world.agents(), world.session());
    at_once(programs, |program| {
        for index in 0..each {
            agents.data(&["session", "append", session, &format!("{program} {index}")]);
        }
    });
}

#[then(expr = "the session holds {int} messages numbered from 0 without a gap")]
fn numbered_without_a_gap(world: &mut World, count: usize) {
    let mut contents = world.agents().contents(world.session());
    assert_eq!(contents.len(), count);
    contents.sort_unstable();
    contents.dedup();
    assert_eq!(contents.len(), count, "no message is stored twice");
}

#[then("the messages of each program are in the order in which it sent them")]
fn in_order(world: &mut World) {
    let mut next: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for content in world.agents().contents(world.session()) {
        let (program, index) = content.split_once(' ').expect("two numbers");
        let expected = next.entry(program.to_owned()).or_default();
        assert_eq!(
            index,
            expected.to_string(),
            "the next message of program {program}"
        );
        *expected += 1;
    }
}

#[when(expr = "a program that streams messages is killed after {int} acknowledgements")]
fn a_stream_is_killed(world: &mut World, count: usize) {
    let mut child = world
        .agents()
        .command(["session", "append", world.session(), "--jsonl", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    world.acknowledged = std::thread::scope(|scope| {
        scope.spawn(move || {
            for index in 0.. {
                let line = json!({"content": format!("line {index}")}).to_string() + "\n";
                if input.write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let reported = output
            .lines()
            .take(count)
            .enumerate()
            .map(|(index, line)| {
                let ack: Value = serde_json::from_str(&line.expect("a line")).expect("a document");
                (
                    ack["sequence"].as_u64().expect("a number"),
                    format!("line {index}"),
                )
            })
            .collect();
        child.kill().expect("a running program can be killed");
        child.wait().expect("a killed program is reaped");
        reported
    });
}

#[then("every acknowledged message is there, as it was sent")]
fn acknowledged_messages_are_stored(world: &mut World) {
    let contents = world.agents().contents(world.session());
    for (number, content) in &world.acknowledged {
        let number = usize::try_from(*number).expect("a small number");
        assert_eq!(contents[number], *content);
    }
    for (index, content) in contents.iter().enumerate() {
        assert_eq!(
            *content,
            format!("line {index}"),
            "no message is stored partially"
        );
    }
}

#[then("the next message gets the next number")]
fn the_next_number(world: &mut World) {
    let count = world.agents().contents(world.session()).len();
    let next = world
        .agents()
        .data(&["session", "append", world.session(), "next"]);
    assert_eq!(next["sequence"], count);
}
