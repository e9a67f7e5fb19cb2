//! Limits of a graph apply inside its nodes, and a failed run reports its usage.

use serde_json::{Value, json};

use super::world::World;

/// A model that requests file reads endlessly, at a dollar per thousand tokens.
const READER: &str = "
price: {input: 1000, output: 1000}
at_end: start_over
answers:
- calls: [{name: builtin_S_file-read, arguments: {path: notes.txt}}]
- calls: [{name: builtin_S_file-read, arguments: {path: notes.txt, offset: 1}}]
";

/// A world with an actor whose only node calls the model [`READER`], with these limits.
fn world_with_limits(limits: &str) -> World {
    let world = World::new();
    std::fs::write(world.agents.cwd().join("reader.yaml"), READER).expect("a file");
    world.add(&format!(
        "name: local/reading\ntype: graph\ndescription: d\nlimits: {limits}\nnodes:\n  \
         ask: {{model: scripted/reader.yaml, prompt: Read, tools: [builtin/file-read], max_output_tokens: 20}}\n"
    ));
    world
}

/// Runs the actor until it fails. Returns the error and the run.
fn run_until_failure(world: &World) -> (Value, Value) {
    let (sandbox, _) = world.sandbox();
    let answer = world.run(&["actor", "run", "local/reading", "x", "--sandbox", &sandbox]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let run = world.newest().expect("a run");
    (answer.json()["data"]["error"].clone(), run)
}

#[test]
fn model_calls_of_one_node_end_at_the_limit_and_are_counted() {
    let world = world_with_limits("{max_model_calls: 3}");
    let (error, run) = run_until_failure(&world);
    assert_eq!(error["code"], "CA-1023", "{error}");
    assert_eq!(error["details"]["limit"], "max_model_calls");
    assert_eq!(run["usage"]["model_calls"], 3);
    assert_eq!(run["usage"]["tool_calls"], 3);
    assert!(run["usage"]["cost_usd"].as_f64().expect("a number") > 0.0);
    let id = run["id"].as_str().expect("an id");
    let again = world.run(&["run", "resume", id]);
    assert_eq!(
        again.json()["data"]["error"]["code"],
        "CA-1023",
        "{again:?}"
    );
    let run = world.newest().expect("a run");
    assert_eq!(
        run["usage"]["model_calls"], 3,
        "the limit applies to all attempts together"
    );
}

#[test]
fn calls_of_tools_by_one_node_end_at_the_limit() {
    let world = world_with_limits("{max_tool_calls: 2}");
    let (error, run) = run_until_failure(&world);
    assert_eq!(error["details"]["limit"], "max_tool_calls", "{error}");
    assert_eq!(run["usage"]["tool_calls"], 2);
}

#[test]
fn the_cost_of_one_node_ends_at_the_limit() {
    let world = world_with_limits("{max_cost: 6}");
    let (error, run) = run_until_failure(&world);
    assert!(
        error["message"].as_str().expect("text").contains("budget"),
        "{error}"
    );
    let cost = run["usage"]["cost_usd"].as_f64().expect("a number");
    assert!(cost > 0.0 && cost <= 6.0, "{cost}");
}

#[test]
fn parallel_items_respect_the_limit() {
    let world = World::new();
    world.add(
        "name: local/items\ntype: graph\ndescription: d\nlimits: {max_model_calls: 4}\nnodes:\n  \
         all: {over: 'range(20)', concurrency: 10, each: {model: scripted/style.yaml, prompt: '{{ item }}'}}\n",
    );
    let answer = world.run(&["actor", "run", "local/items", "x"]);
    assert_eq!(
        answer.json()["data"]["error"]["details"],
        json!({"limit": "max_model_calls", "allowed": 4, "run": world.newest().expect("a run")["id"]})
    );
    let calls = world.newest().expect("a run")["usage"]["model_calls"].clone();
    assert!(calls.as_u64().expect("a number") <= 4, "{calls}");
}
