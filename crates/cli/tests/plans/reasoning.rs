//! Answers and reasoning of an actor are stored with its decisions.

use serde_json::{Value, json};

use super::world::World;

const KEY: &str = "sk-planted-0123456789abcdef";

/// A strategy of one step, with one choice.
fn strategy() -> String {
    json!({
        "summary": "Write it at once",
        "decisions": [{"question": "Which file?", "chosen": "one.txt", "rationale": "it is the first"}],
        "steps": [{"title": "Write one.txt", "description": "Write it."}],
    })
    .to_string()
}

/// Creates a plan and executes it with models that return this reasoning. Returns the plan id.
fn executed_plan(world: &World, reasoning: &str) -> String {
    world.scripted_action(
        "local/thinks",
        &json!({"at_end": "repeat_last", "answers": [{"reasoning": reasoning, "text": strategy()}]}),
        &json!({"at_end": "repeat_last", "answers": [
            {"reasoning": "A file is best written whole.", "calls": [
                {"name": "builtin/file-write", "arguments": {"path": "one.txt", "content": "one\n"}},
            ]},
            {"text": "It is written."},
        ]}),
        "one.txt is there",
    );
    world.executed("local/thinks")
}

/// Id of the decision with this choice.
fn decision(world: &World, plan: &str, chosen: &str) -> String {
    let rows = world.ask(&format!(
        "SELECT decision_id FROM plan_decisions WHERE plan_id = '{plan}' AND chosen = '{chosen}'"
    ));
    assert_eq!(rows.len(), 1, "decisions that chose {chosen}");
    rows[0][0].clone()
}

fn explain(world: &World, id: &str) -> Value {
    world
        .agents
        .data(&["plan", "explain", id, "--show-reasoning"])
}

#[test]
fn answers_and_reasoning_of_an_actor_are_shown_on_request() {
    let mut world = World::new();
    world.agents = world.agents.with("OPENAI_API_KEY", KEY);
    let plan = executed_plan(&world, &format!("Two ways; {KEY} helps with neither."));
    for chosen in ["Write it at once", "one.txt", "Write one.txt"] {
        let id = decision(&world, &plan, chosen);
        let reported = explain(&world, &id);
        let reasoning = reported["reasoning"].as_str().expect("a text");
        assert!(reasoning.starts_with("Thought:\nTwo ways; "), "{reasoning}");
        assert!(reasoning.ends_with(&strategy()), "{reasoning}");
        assert!(!reasoning.contains(KEY), "{reasoning}");
        let without_reasoning = world.agents.data(&["plan", "explain", &id]);
        assert!(
            without_reasoning.get("reasoning").is_none(),
            "{without_reasoning:#}"
        );
    }
    let id = decision(&world, &plan, "It is written.");
    assert_eq!(
        explain(&world, &id)["reasoning"],
        "Thought:\nA file is best written whole.\n\nSaid:\nIt is written."
    );
    for (flag, is_shown) in [(Some("--show-reasoning"), true), (None, false)] {
        let mut arguments = vec!["--format", "plain", "plan", "explain", &id];
        arguments.extend(flag);
        let answer = world.agents.run(&arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let text = "A file is best written whole.";
        assert_eq!(answer.out.contains(text), is_shown, "{answer:?}");
    }
    // Decisions of the program itself have no reasoning.
    let root = explain(&world, &plan);
    assert_eq!(root["type"], "prompt_definition");
    assert_eq!(root["reasoning"], Value::Null);
}

#[test]
fn the_end_of_long_reasoning_is_kept() {
    let world = World::new();
    let plan = executed_plan(&world, &"very long ".repeat(20_000));
    let reported = explain(&world, &decision(&world, &plan, "Write it at once"));
    let reasoning = reported["reasoning"].as_str().expect("a text");
    assert!(reasoning.starts_with("[the first "), "{reasoning:.80}");
    assert!(reasoning.ends_with(&strategy()));
    assert!(
        (64_000..66_000).contains(&reasoning.len()),
        "{}",
        reasoning.len()
    );
}
