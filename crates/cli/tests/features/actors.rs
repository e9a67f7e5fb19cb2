//! Steps about actors and their runs, including interrupted runs.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cleveragents_testkit::model_server::{ModelServer, openai};
use cleveragents_testkit::{Answer, Gate};
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::Value;

use crate::program::last_document;
use crate::tools::{docstring, in_sandbox};
use crate::world::World;

/// Limit for waiting, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);

fn data(world: &World) -> Value {
    let answer = world.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    last_document(answer)["data"].clone()
}

/// The newest run.
fn last_run(world: &World) -> Value {
    world.agents().data(&["run", "list", "--limit", "1"])["runs"][0].clone()
}

fn on_last_run(world: &mut World, command: &str, options: &[&str]) {
    let run = last_run(world);
    let id = run["id"].as_str().expect("there is a run");
    let arguments = [&["--format", "json", "run", command, id], options].concat();
    world.answer = Some(world.agents().run(&arguments));
}

// --- results of runs

#[when(expr = "I run the actor {string} with")]
fn i_run_the_actor(world: &mut World, actor: String, step: &Step) {
    let input = docstring(step);
    let arguments = [
        "--format", "json", "actor", "run", &actor, "--input", &input,
    ];
    world.answer = Some(world.agents().run(&arguments));
}

#[then(expr = "the actor answers {string}")]
fn the_actor_answers(world: &mut World, text: String) {
    let data = data(world);
    assert_eq!(data["response"]["text"], text, "{data:#}");
}

#[then(expr = "the state has {string} as")]
fn the_state_has(world: &mut World, key: String, step: &Step) {
    let expected: Value = serde_json::from_str(&docstring(step)).expect("JSON");
    let data = data(world);
    assert_eq!(data["response"]["state"][&key], expected, "{data:#}");
}

#[then(regex = r"^(\d+) steps? (?:was|were) done before$")]
fn steps_were_done_before(world: &mut World, count: u64) {
    assert_eq!(data(world)["usage"]["steps_done_before"], count);
}

#[then(regex = r"^the last run is (\w+) with (\d+) steps?$")]
fn the_last_run_is(world: &mut World, state: String, steps: u64) {
    let run = last_run(world);
    let reported = (run["state"].as_str(), run["steps"].as_u64());
    assert_eq!(reported, (Some(state.as_str()), Some(steps)), "{run:#}");
}

#[when("I resume the last run")]
fn i_resume(world: &mut World) {
    on_last_run(world, "resume", &[]);
}

#[when(expr = "I resume the last run with {string}")]
fn i_resume_with(world: &mut World, option: String) {
    on_last_run(world, "resume", &[&option]);
}

#[when("I replay the last run")]
fn i_replay(world: &mut World) {
    on_last_run(world, "replay", &[]);
}

// --- interrupted runs

/// Starts a run, and waits until it has written a file in the sandbox.
fn start(world: &World, command: &str, file: &str, sandbox: &str) -> Child {
    let arguments = ["--format", "json"].into_iter().chain(command.split(' '));
    let child = world
        .agents()
        .command(arguments)
        .stdin(Stdio::null())
        .spawn()
        .expect("the program starts");
    let file = in_sandbox(world, sandbox, file);
    let started = Instant::now();
    while !std::fs::read(&file).is_ok_and(|bytes| bytes.ends_with(b"\n")) {
        assert!(started.elapsed() < TIMEOUT, "{} is written", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[when(expr = "{string} is killed while {string} of the sandbox {string} is written")]
fn it_is_killed(world: &mut World, command: String, file: String, sandbox: String) {
    let mut child = start(world, &command, &file, &sandbox);
    child.kill().expect("a program that is not reaped");
    child.wait().expect("a killed program is reaped");
}

#[when(expr = "{string} is cancelled while {string} of the sandbox {string} is written")]
fn it_is_cancelled(world: &mut World, command: String, file: String, sandbox: String) {
    let child = start(world, &command, &file, &sandbox);
    on_last_run(world, "cancel", &[]);
    assert_eq!(data(world)["is_over"], false, "a process still runs it");
    let output = child.wait_with_output().expect("the program ends");
    world.answer = Some(Answer::from_output(&output));
}

// --- concurrent programs, and providers

#[when("4 programs list the actors at the same time")]
fn programs_list(world: &mut World) {
    let agents = world.agents();
    let gate = Gate::default();
    let started: Vec<_> = (0..4)
        .map(|_| agents.behind(&gate, &["--format", "json", "actor", "list"]))
        .collect();
    gate.open();
    world.answers = started
        .into_iter()
        .map(|child| Answer::from_output(&child.wait_with_output().expect("the program ends")))
        .collect();
}

#[then("all of them saw the same actors, each once")]
fn they_saw_the_same(world: &mut World) {
    let names = |answer: &Answer| -> Vec<String> {
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let data = last_document(answer)["data"].clone();
        let actors = data["actors"].as_array().expect("actors").iter();
        actors
            .map(|actor| actor["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let lists: Vec<Vec<String>> = world.answers.iter().map(names).collect();
    let mut unique = lists[0].clone();
    unique.sort();
    unique.dedup();
    assert!(
        unique.len() > 5 && unique.len() == lists[0].len(),
        "{lists:?}"
    );
    assert!(lists.iter().all(|names| *names == lists[0]), "{lists:?}");
}

#[given(expr = "a model provider that always answers {string}")]
fn a_provider(world: &mut World, text: String) {
    let server = ModelServer::answering(move |_| openai::text(&[&text]));
    let agents = world.agents.take().expect("a home");
    let agents = agents
        .with("OPENAI_BASE_URL", server.url())
        .with("OPENAI_API_KEY", "sk-test-0123456789abcdefghij");
    world.agents = Some(agents);
    world.provider = Some(server);
}

#[then(expr = "the provider was given a schema that requires {string}")]
fn it_was_given_a_schema(world: &mut World, field: String) {
    let received = world.provider.as_ref().expect("a provider").received();
    assert!(!received.is_empty(), "the provider received a request");
    for request in received {
        let format = request.json()["response_format"].clone();
        assert_eq!(
            format["json_schema"]["schema"]["required"][0], field,
            "{format}"
        );
    }
}
