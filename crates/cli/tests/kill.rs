//! `kill -9` at random instants: acknowledged data is present, other data is completely absent.

#![expect(
    clippy::print_stdout,
    reason = "the tests print the counts of the kills"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use cleveragents_testkit::{Agents, Answer, Dice, TestDatabase, proof_size};
use serde_json::{Value, json};

fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// Number of kills.
fn rounds() -> usize {
    proof_size(10, 100)
}

/// Pace at which a test sends lines to the program.
#[derive(Debug, Clone, Copy)]
enum Feed {
    /// Sends lines as fast as the program reads them.
    Flood,
    /// Sends the next line only after the previous line is acknowledged.
    OneByOne,
}

/// Moment at which the program is killed.
#[derive(Debug, Clone, Copy)]
enum Instant {
    /// This duration after the start of the program, possibly before it stores a message.
    AfterStart(Duration),
    /// This duration after the first acknowledgement.
    AfterFirst(Duration),
}

/// Appends a stream of lines until the program is killed. Returns the acknowledgements, (number,
/// message id), in the order of the lines.
fn kill_stream(
    agents: &Agents,
    session: &str,
    feed: Feed,
    instant: Instant,
    line: impl Fn(usize) -> String + Send + Sync,
) -> Vec<(u64, String)> {
    let mut child = agents
        .command(["session", "append", session, "--jsonl", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let (acknowledged, received) = std::sync::mpsc::channel();
    let (first_sender, first) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let line = &line;
        scope.spawn(move || {
            for index in 0.. {
                let text = json!({"content": line(index)}).to_string() + "\n";
                if input.write_all(text.as_bytes()).is_err() {
                    return;
                }
                if matches!(feed, Feed::OneByOne) && received.recv().is_err() {
                    return;
                }
            }
        });
        let reader = scope.spawn(move || {
            let mut reported = Vec::new();
            let mut text = String::new();
            while output.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
                // The last line may be incomplete. An incomplete line acknowledges nothing.
                if let Some(complete) = text.strip_suffix('\n') {
                    let ack: Value = serde_json::from_str(complete).expect("one document a line");
                    let id = ack["message_id"].as_str().expect("an id").to_owned();
                    reported.push((ack["sequence"].as_u64().expect("a number"), id));
                    // Ignore errors: a flooding feeder and the killing thread stop receiving early.
                    let _received = (acknowledged.send(()), first_sender.send(()));
                }
                text.clear();
            }
            reported
        });
        match instant {
            Instant::AfterStart(pause) => std::thread::sleep(pause),
            Instant::AfterFirst(pause) => {
                first.recv().expect("the stream acknowledges something");
                std::thread::sleep(pause);
            }
        }
        child.kill().expect("a running program can be killed");
        child.wait().expect("a killed program is reaped");
        reader.join().expect("the reader ends")
    })
}

#[test]
fn a_killed_stream_keeps_acknowledged_messages_and_no_partial_ones() {
    let mut dice = Dice::default();
    for database in TestDatabase::each() {
        let agents = agents().on(&database.url);
        let session = agents.create_session();
        let (mut stored, mut acknowledged, mut unacknowledged) = (0_usize, 0, 0);
        for round in 0..rounds() {
            let feed = [Feed::Flood, Feed::OneByOne][round % 2];
            let pause = Duration::from_micros(dice.roll(60_000));
            let instant = match round % 4 {
                0 | 1 => Instant::AfterFirst(pause),
                _ => Instant::AfterStart(pause),
            };
            let line = |index: usize| format!("round {round} line {index}");
            let reported = kill_stream(&agents, &session, feed, instant, line);
            // The next append succeeds and its number has no gap. On a server, it also waits until
            // the server has finished the work of the killed client.
            let next = agents.data(&["session", "append", &session, &format!("after {round}")]);
            let messages = messages_from(&agents, &session, stored);
            let context = format!("{}, round {round}, {feed:?}, {instant:?}", database.kind);
            for (index, message) in messages.iter().enumerate() {
                assert_eq!(message["sequence"], stored + index, "{context}: no gap");
            }
            let (last, of_stream) = messages.split_last().expect("the next append is stored");
            assert_eq!(
                next["sequence"], last["sequence"],
                "{context}: the append is last"
            );
            for (index, message) in of_stream.iter().enumerate() {
                assert_eq!(
                    message["content"],
                    line(index),
                    "{context}: the lines, in order"
                );
            }
            assert!(
                reported.len() <= of_stream.len(),
                "{context}: nothing acknowledged is lost"
            );
            for ((number, id), message) in reported.iter().zip(of_stream) {
                assert_eq!(message["sequence"], *number, "{context}: as acknowledged");
                assert_eq!(
                    message["message_id"],
                    id.as_str(),
                    "{context}: as acknowledged"
                );
            }
            agents.assert_sound();
            acknowledged += reported.len();
            unacknowledged += of_stream.len() - reported.len();
            stored += messages.len();
        }
        assert_eq!(
            agents.contents(&session).len(),
            stored,
            "no message is counted twice"
        );
        println!(
            "{}: {} streams killed, {acknowledged} messages acknowledged and all stored, \
             {unacknowledged} stored whole but not acknowledged",
            database.kind,
            rounds()
        );
    }
}

/// Messages of a session, starting at number `from`.
fn messages_from(agents: &Agents, session: &str, from: usize) -> Vec<Value> {
    let after = from.checked_sub(1).map(|after| after.to_string());
    let mut arguments = vec!["session", "messages", session];
    if let Some(after) = &after {
        arguments.extend(["--after", after]);
    }
    agents.data(&arguments)["messages"]
        .as_array()
        .expect("a list")
        .clone()
}

/// Runs a command and kills it at a random instant within 1.25 times its usual duration.
fn run_and_kill(
    agents: &Agents,
    arguments: &[&str],
    duration: Duration,
    dice: &mut Dice,
) -> Answer {
    let limit = u64::try_from(duration.as_micros()).expect("a short time");
    let mut child = agents
        .command(arguments)
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_micros(dice.roll(limit + limit / 4)));
    child
        .kill()
        .expect("a program that is not reaped can be killed");
    Answer::from_output(
        &child
            .wait_with_output()
            .expect("a killed program is reaped"),
    )
}

/// Runs a command to completion and returns its duration, from which the tests choose the time of a
/// kill.
fn measure(agents: &Agents, arguments: &[&str]) -> Duration {
    let started = std::time::Instant::now();
    agents.data(arguments);
    started.elapsed()
}

/// A session with `count` messages.
fn filled_session(agents: &Agents, count: usize) -> String {
    let session = agents.create_session();
    let lines: String = (0..count)
        .map(|index| json!({"content": format!("message {index}")}).to_string() + "\n")
        .collect();
    let answer = agents.run_with(
        &["session", "append", &session, "--jsonl", "-"],
        lines.as_bytes(),
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    session
}

/// Number of messages of every session.
fn sizes(agents: &Agents) -> Vec<u64> {
    agents.data(&["session", "list", "--sort", "created"])["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| session["messages"].as_u64().expect("a number"))
        .collect()
}

/// Repeatedly kills a command that creates a session of `count` messages, and asserts that the
/// session is complete or absent.
fn assert_whole_or_absent(agents: &Agents, arguments: &[&str], count: usize) {
    let mut dice = Dice::default();
    let duration = measure(agents, arguments);
    let mut before = sizes(agents).len();
    let mut absent = 0;
    for round in 0..rounds() {
        let answer = run_and_kill(agents, arguments, duration, &mut dice);
        agents.assert_sound();
        let sizes = sizes(agents);
        assert!(
            sizes.iter().all(|size| *size == count as u64),
            "round {round}: every session is whole: {sizes:?}"
        );
        assert!(sizes.len() <= before + 1, "round {round}: at most one more");
        if answer.code == Some(0) {
            assert_eq!(
                sizes.len(),
                before + 1,
                "round {round}: success has an effect"
            );
        }
        absent += usize::from(sizes.len() == before);
        before = sizes.len();
    }
    agents.data(arguments);
    assert_eq!(
        sizes(agents).len(),
        before + 1,
        "an undisturbed command works"
    );
    agents.assert_sound();
    println!(
        "{arguments:?}: {} killed, {absent} stored nothing, the others everything",
        rounds()
    );
}

#[test]
fn a_killed_import_is_whole_or_absent() {
    let agents = agents();
    let count = proof_size(3_000, 20_000);
    let session = filled_session(&agents, count);
    let file = agents.cwd().join("export.json");
    let file = file.to_str().expect("a path");
    agents.data(&["session", "export", &session, "--output", file]);
    assert_whole_or_absent(&agents, &["session", "import", "--input", file], count);
}

#[test]
fn a_killed_fork_is_whole_or_absent() {
    let agents = agents();
    let count = proof_size(3_000, 20_000);
    let session = filled_session(&agents, count);
    assert_whole_or_absent(&agents, &["session", "fork", &session], count);
}

#[test]
fn a_killed_change_of_the_configuration_is_whole_or_absent() {
    let agents = agents();
    let mut dice = Dice::default();
    agents.data(&["config", "set", "store.connections", "3"]);
    let duration = measure(&agents, &["config", "set", "cleanup.events-days", "1"]);
    let mut current = 1;
    for round in 0..rounds() * 3 {
        let next = round + 2;
        let value = next.to_string();
        let arguments = ["config", "set", "cleanup.events-days", &value];
        let answer = run_and_kill(&agents, &arguments, duration, &mut dice);
        let text = std::fs::read_to_string(agents.config_file()).expect("the file exists");
        let stored = agents.data(&["config", "get", "cleanup.events-days"])["value"].clone();
        assert!(
            stored == current || stored == next,
            "round {round}: {stored} is neither {current} nor {next}: {text}"
        );
        if answer.code == Some(0) {
            assert_eq!(stored, next, "round {round}: success has an effect");
        }
        assert_eq!(
            agents.data(&["config", "get", "store.connections"])["value"],
            3
        );
        current = usize::try_from(stored.as_u64().expect("a number")).expect("small");
    }
    agents.data(&["config", "set", "cleanup.events-days", "9"]);
    assert_eq!(
        agents.data(&["config", "get", "cleanup.events-days"])["value"],
        9
    );
}

#[test]
fn a_killed_first_start_is_finished_by_the_next_command() {
    let mut dice = Dice::default();
    let create = ["--format", "json", "session", "create"];
    let duration = measure(&agents(), &["session", "create"]);
    let mut unfinished = 0;
    for round in 0..rounds() * 2 {
        let agents = agents();
        let answer = run_and_kill(&agents, &create, duration, &mut dice);
        unfinished += usize::from(!agents.database().exists());
        let next = agents.create_session();
        let sizes = sizes(&agents);
        let minimum = if answer.code == Some(0) { 2 } else { 1 };
        assert!(
            (minimum..=2).contains(&sizes.len()),
            "round {round}: {} sessions after {answer:?}",
            sizes.len()
        );
        agents.data(&["session", "append", &next, "it works"]);
        let applied = agents.data(&["db", "status"])["applied"].clone();
        let applied = applied.as_array().expect("a list");
        for (index, migration) in applied.iter().enumerate() {
            assert_eq!(
                migration["version"],
                index + 1,
                "round {round}: each ran once"
            );
        }
        agents.assert_sound();
    }
    println!(
        "{} first starts killed, {unfinished} before there was a file",
        rounds() * 2
    );
}

/// On a database server, the schema is complete or absent after the kill.
#[test]
fn a_killed_first_start_on_a_server_is_finished_by_the_next_command() {
    let mut dice = Dice::default();
    for round in 0..rounds() / 2 {
        let Some(database) = TestDatabase::postgres() else {
            return;
        };
        let agents = agents().on(&database.url);
        let duration = Duration::from_millis(120);
        let answer = run_and_kill(
            &agents,
            &["--format", "json", "session", "create"],
            duration,
            &mut dice,
        );
        agents.create_session();
        let minimum = if answer.code == Some(0) { 2 } else { 1 };
        assert!(
            (minimum..=2).contains(&sizes(&agents).len()),
            "round {round}"
        );
        agents.assert_sound();
    }
}

#[test]
fn a_killed_export_leaves_the_whole_file_or_none() {
    let agents = agents();
    let mut dice = Dice::default();
    let session = filled_session(&agents, 2_000);
    let file = agents.cwd().join("export.json");
    let name = file.to_str().expect("a path");
    let arguments = ["session", "export", &session, "--output", name];
    let duration = measure(&agents, &arguments);
    let length = std::fs::metadata(&file).expect("the export exists").len();
    for round in 0..rounds() {
        std::fs::remove_file(&file).ok();
        let answer = run_and_kill(&agents, &arguments, duration, &mut dice);
        match std::fs::File::open(&file) {
            Ok(mut export) => {
                let mut text = Vec::new();
                export.read_to_end(&mut text).expect("the file can be read");
                assert_eq!(
                    text.len() as u64,
                    length,
                    "round {round}: the file is whole"
                );
            }
            Err(_) => assert_ne!(answer.code, Some(0), "round {round}: success has an effect"),
        }
    }
}
