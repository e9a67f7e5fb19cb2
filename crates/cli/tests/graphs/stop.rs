//! Ends of runs: limits, cancellation from another terminal, failing nodes, and calls with unknown
//! outcome.

use std::time::{Duration, Instant};

use cleveragents_testkit::Answer;
use serde_json::Value;

use super::world::World;

fn error(answer: &Answer) -> Value {
    answer.json()["data"]["error"].clone()
}

/// Waits until a condition holds for the newest run.
fn wait_for(world: &World, description: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        if let Some(run) = world.newest() {
            let shown = world.show(run["id"].as_str().expect("an id"));
            if condition(&shown) {
                return shown;
            }
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{description}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn defect_8656_the_limit_ends_an_endless_loop() {
    let world = World::new();
    world.add(
        "name: local/round\ntype: graph\ndescription: d\nlimits: {max_steps: 50}\nstate: {n: sum}\n\
         nodes:\n  a: {set: {n: 1}, next: b}\n  b: {set: {n: 1}, next: [{to: c, when: 'n > 1000000'}, a]}\n\
         \x20 c: {set: {output: x}}\n",
    );
    let answer = world.run(&["actor", "run", "local/round", "go"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let error = error(&answer);
    assert_eq!(error["code"], "CA-1023");
    assert_eq!(error["details"]["limit"], "max_steps");
    let run = world.newest().expect("a run");
    assert_eq!(
        (&run["state"], &run["steps"]),
        (&"failed".into(), &50.into())
    );
}

const SLOW: &str = "
name: local/slow
type: graph
description: d
nodes:
  first: {set: {a: 1}, next: wait}
  wait: {tool: builtin/shell, arguments: {command: 'sleep 300'}, next: last}
  last: {set: {output: done}}
";

/// Starts the slow run and waits for its first step; returns the id of the run.
fn start_slow(world: &World) -> (std::process::Child, String) {
    world.add(SLOW);
    let (name, _) = world.sandbox();
    let arguments = [
        "--format",
        "json",
        "actor",
        "run",
        "local/slow",
        "x",
        "--sandbox",
        &name,
    ];
    let child = world.start(&arguments.map(str::to_owned));
    let shown = wait_for(world, "the first step", |shown| {
        shown["steps"]
            .as_array()
            .is_some_and(|steps| !steps.is_empty())
    });
    (
        child,
        shown["run"]["id"].as_str().expect("an id").to_owned(),
    )
}

fn assert_cancelled(world: &World, run: &str) {
    let shown = world.show(run);
    assert_eq!(shown["run"]["state"], "cancelled");
    assert_eq!(shown["run"]["error_code"], "CA-1024");
    assert_eq!(shown["owner"], Value::Null);
}

#[test]
fn a_run_is_cancelled_from_another_terminal_with_its_child_processes() {
    let world = World::new();
    let (child, run) = start_slow(&world);
    let busy = world.run(&["run", "resume", &run]);
    assert_eq!(busy.code, Some(4), "{busy:?}");
    assert_eq!(error(&busy)["code"], "CA-1026");
    let cancelled = world.agents.data(&["run", "cancel", &run]);
    assert_eq!(cancelled["is_over"], false);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(1));
    assert_cancelled(&world, &run);
}

#[test]
fn a_run_that_a_signal_stops_exits_with_130() {
    use rustix::process::{Pid, Signal, kill_process};
    let world = World::new();
    let (child, run) = start_slow(&world);
    let number = i32::try_from(child.id()).expect("a number");
    let process = Pid::from_raw(number).expect("a process");
    kill_process(process, Signal::INT).expect("a process that is not reaped");
    let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.json()["exit_code"], 130, "{answer:?}");
    assert_eq!(error(&answer)["code"], "CA-1024", "{answer:?}");
    assert_cancelled(&world, &run);
}

#[test]
fn the_time_limit_of_a_node_ends_its_command() {
    let world = World::new();
    world.add(&SLOW.replace(
        "next: last}\n  last",
        "timeout_seconds: 0.5, on_error: last}\n  last",
    ));
    let (name, _) = world.sandbox();
    let data = world
        .agents
        .data(&["actor", "run", "local/slow", "x", "--sandbox", &name]);
    assert_eq!(data["response"]["text"], "done");
    let state = &data["response"]["state"];
    assert_eq!(state["error"]["node"], "wait", "{state}");
}

#[test]
fn a_failed_run_can_be_resumed_after_its_cause_is_fixed() {
    let world = World::new();
    world.add(
        "name: local/two\ntype: graph\ndescription: d\nnodes:\n  \
         first: {set: {n: 1}, next: ask}\n  \
         ask: {model: scripted/later.yaml, prompt: '{{ input }}'}\n",
    );
    let answer = world.run(&["actor", "run", "local/two", "x"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(error(&answer)["code"], "CA-1022");
    let run = error(&answer)["details"]["run"]
        .as_str()
        .expect("an id")
        .to_owned();
    let script = "answers:\n- text: now\n";
    std::fs::write(world.agents.cwd().join("later.yaml"), script).expect("a file");
    let answer = world.run(&["run", "resume", &run]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let data = answer.json()["data"].clone();
    assert_eq!(data["response"]["text"], "now");
    assert_eq!(data["usage"]["steps_done_before"], 1);
    assert_eq!(data["run"]["attempts"], 2);
}

#[test]
fn an_interrupted_call_needs_a_decision_and_is_never_repeated_automatically() {
    let world = World::new();
    world.add(
        "name: local/once\ntype: graph\ndescription: d\nnodes:\n  \
         act: {tool: builtin/shell, arguments: {command: 'echo x >> log.txt; sleep 300'}, next: last}\n  \
         last: {set: {output: done}}\n",
    );
    let (name, folder) = world.sandbox();
    let arguments = [
        "--format",
        "json",
        "actor",
        "run",
        "local/once",
        "x",
        "--sandbox",
        &name,
    ];
    let mut child = world.start(&arguments.map(str::to_owned));
    let started = Instant::now();
    while !folder.join("log.txt").exists() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "the command runs"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("a program that is not reaped");
    child.wait().expect("a killed program is reaped");
    let run = world.newest().expect("a run")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let interrupted = world.run(&["run", "show", &run]);
    assert_eq!(
        interrupted.json()["data"]["owner"],
        Value::Null,
        "{interrupted:?}"
    );
    assert_eq!(
        interrupted.json()["status"],
        "warn",
        "no process owns the run"
    );
    let refused = world.run(&["run", "resume", &run]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert_eq!(error(&refused)["code"], "CA-1027");
    assert_eq!(world.show(&run)["run"]["state"], "waiting");
    let skipped = world.run(&["run", "resume", &run, "--skip"]);
    assert_eq!(skipped.code, Some(0), "{skipped:?}");
    let log = std::fs::read_to_string(folder.join("log.txt")).expect("a file");
    assert_eq!(log, "x\n", "the call took effect once");
}

#[test]
fn an_answer_that_does_not_match_its_schema_is_requested_again() {
    let world = World::new();
    let script = "answers:\n- text: four\n- text: '{\"score\": 4}'\n";
    std::fs::write(world.agents.cwd().join("score.yaml"), script).expect("a file");
    world.add(
        "name: local/score\ntype: llm\ndescription: d\nmodel: scripted/score.yaml\nresponse_format:\n  \
         type: object\n  properties: {score: {type: integer}}\n  required: [score]\n",
    );
    let data = world.agents.data(&["actor", "run", "local/score", "x"]);
    assert_eq!(data["response"]["value"]["score"], 4);
    assert_eq!(data["usage"]["model_calls"], 2);
}

#[test]
fn a_run_that_failed_for_invalid_answers_asks_again_when_resumed() {
    let world = World::new();
    let script = world.agents.cwd().join("score.yaml");
    std::fs::write(&script, "answers:\n- {when: '.', text: four}\n").expect("a file");
    world.add(
        "name: local/score\ntype: llm\ndescription: d\nmodel: scripted/score.yaml\nresponse_format:\n  \
         type: object\n  properties: {score: {type: integer}}\n  required: [score]\n",
    );
    let answer = world.run(&["actor", "run", "local/score", "x"]);
    assert_eq!(error(&answer)["code"], "CA-1028", "{answer:?}");
    let run = world.newest().expect("a run");
    assert_eq!(run["usage"]["model_calls"], 3);
    std::fs::write(&script, "answers:\n- {when: '.', text: '{\"score\": 4}'}\n").expect("a file");
    let resumed = world.run(&["run", "resume", run["id"].as_str().expect("an id")]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let data = resumed.json()["data"].clone();
    assert_eq!(data["response"]["value"]["score"], 4);
    assert_eq!(
        data["usage"]["model_calls"], 4,
        "the calls of both attempts"
    );
}

#[test]
fn a_truncated_answer_is_reported() {
    let world = World::new();
    let script = "answers:\n- {when: '.', text: half of, stop: max_tokens}\n";
    std::fs::write(world.agents.cwd().join("half.yaml"), script).expect("a file");
    let answer = world.run(&["actor", "run", "scripted/half.yaml", "x"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.json()["status"], "warn");
    let reported = answer.json()["messages"][0]["text"].to_string();
    assert!(reported.contains("cut at the token limit"), "{reported}");
}
