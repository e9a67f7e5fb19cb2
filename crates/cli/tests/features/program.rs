//! Steps that run the program: output, configuration, diagnostics.

use cleveragents_testkit::{Agents, Answer, Gate, TestDatabase};
use cucumber::{given, then, when};

use crate::world::World;

/// Settings that programs change at the same time, one each.
const SETTINGS: [(&str, &str); 4] = [
    ("store.connections", "5"),
    ("cleanup.events-days", "7"),
    ("session.max-message-bytes", "4096"),
    ("store.busy-timeout-seconds", "12"),
];

#[given("a new home")]
fn a_new_home(world: &mut World) {
    world.new_home();
}

#[given("a home below a regular file")]
fn a_home_below_a_file(world: &mut World) {
    world.new_home();
    let file = world.agents().cwd().join("file");
    std::fs::write(&file, "a file").expect("a file");
    let agents = world.agents.take().expect("a home");
    world.agents = Some(agents.at_home(file.join("home")));
}

#[when(expr = "I run {string}")]
fn i_run(world: &mut World, command: String) {
    let arguments: Vec<&str> = ["--format", "json"]
        .into_iter()
        .chain(command.split(' '))
        .collect();
    world.answer = Some(world.agents().run(&arguments));
}

#[then(expr = "the command succeeds and mentions {string}")]
fn it_succeeds(world: &mut World, text: String) {
    let answer = world.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains(&text), "{answer:?}");
}

#[then(expr = "the command fails with exit code {int}")]
fn it_fails(world: &mut World, exit: i32) {
    let answer = world.answer();
    assert_eq!(answer.code, Some(exit), "{answer:?}");
}

#[then(expr = "the command fails with exit code {int} and error {word}")]
fn it_fails_with(world: &mut World, exit: i32, code: String) {
    let answer = world.answer();
    assert_eq!(answer.code, Some(exit), "{answer:?}");
    let document = last_document(answer);
    assert_eq!(document["exit_code"], exit, "{answer:?}");
    assert_eq!(document["data"]["error"]["code"], code, "{answer:?}");
}

/// The envelope: the only document, or the last line of a stream.
pub(crate) fn last_document(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(&answer.out)
        .or_else(|_| serde_json::from_str(answer.out.lines().last().unwrap_or_default()))
        .unwrap_or_else(|_| panic!("standard output ends with a document: {answer:?}"))
}

#[then(expr = "the hint mentions {string}")]
fn the_hint_mentions(world: &mut World, text: String) {
    let document = last_document(world.answer());
    let hint = document["data"]["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains(&text), "{hint}");
}

#[then(expr = "the report mentions {string}")]
fn the_report_mentions(world: &mut World, text: String) {
    let answer = world.answer();
    assert!(answer.out.contains(&text), "{answer:?}");
}

#[then(expr = "it names line {int}")]
fn it_names_the_line(world: &mut World, line: u64) {
    let document = last_document(world.answer());
    assert_eq!(
        document["data"]["error"]["details"]["line"], line,
        "{document:#}"
    );
}

// --- configuration

#[then(expr = "{string} is {int}, set by {word}")]
fn a_key_is(world: &mut World, key: String, value: u64, level: String) {
    let setting = world.agents().data(&["config", "get", &key]);
    assert_eq!(setting["value"], value, "{setting:#}");
    assert_eq!(setting["level"], level, "{setting:#}");
}

#[given(expr = "the variable {word} is {string}")]
fn a_variable(world: &mut World, name: String, value: String) {
    let agents = world.agents.take().expect("a home");
    world.agents = Some(agents.with(&name, value));
}

#[given("a configuration file that is broken in line 3")]
fn a_broken_configuration(world: &mut World) {
    let agents = world.agents();
    std::fs::create_dir_all(agents.home()).expect("a folder");
    std::fs::write(agents.config_file(), "[core]\n# fine\nformat = \n").expect("a file");
}

#[when("4 programs each set another key at the same time")]
fn programs_set_keys(world: &mut World) {
    let agents = world.agents();
    let gate = Gate::default();
    let started: Vec<_> = SETTINGS
        .iter()
        .map(|(key, value)| agents.behind(&gate, &["config", "set", key, value]))
        .collect();
    gate.open();
    for child in started {
        let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
}

#[then("every one of these keys is set")]
fn every_key_is_set(world: &mut World) {
    for (key, value) in SETTINGS {
        let setting = world.agents().data(&["config", "get", key]);
        assert_eq!(setting["value"].to_string(), value, "{setting:#}");
        assert_eq!(setting["level"], "global", "{setting:#}");
    }
}

// --- the database file

#[given("the database file is overwritten with invalid bytes")]
fn the_database_is_overwritten(world: &mut World) {
    world.bytes = b"this is no database\n".repeat(500);
    std::fs::write(world.agents().database(), &world.bytes).expect("a file");
}

#[then("the invalid file is kept unchanged next to the new database")]
fn the_invalid_file_is_kept(world: &mut World) {
    let has_copy = std::fs::read_dir(world.agents().home())
        .expect("a home")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.display().to_string().contains(".damaged-"))
        .any(|path| std::fs::read(path).expect("a file") == world.bytes);
    assert!(has_copy, "an unchanged copy of the damaged file exists");
}

#[given("the database was created by a newer program")]
fn a_newer_database(world: &mut World) {
    // No process has the database open: copy it to a test database, edit it there, and copy it back.
    let database = TestDatabase::sqlite();
    let path = world.agents().database();
    std::fs::copy(&path, database.file()).expect("a copy");
    database.execute_sql(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES (9000, '9000_future', 0)",
    );
    std::fs::copy(database.file(), &path).expect("a copy");
    world.bytes = std::fs::read(&path).expect("a file");
}

#[then("the database file has not changed")]
fn the_database_has_not_changed(world: &mut World) {
    let now = std::fs::read(world.agents().database()).expect("a file");
    assert!(now == world.bytes, "the bytes are unchanged");
}

/// A home on the database of the scenario.
pub(crate) fn home_on(database: &TestDatabase) -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents")).on(&database.url)
}
