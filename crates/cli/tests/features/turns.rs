//! Steps about messages to scripted models: answers, tool calls and cost.

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use crate::program::last_document;
use crate::tools::docstring;
use crate::world::World;

/// Model of the scenario.
const MODEL: &str = "scripted/answers.yaml";

/// More messages than any budget of the scenarios allows.
const MANY: usize = 50;

#[given("a model that answers")]
fn a_model(world: &mut World, step: &Step) {
    let file = world.agents().cwd().join("answers.yaml");
    std::fs::write(file, docstring(step)).expect("a file");
}

#[given(expr = "{string} holds {int} messages of {int} characters")]
fn it_holds_long_messages(world: &mut World, session: String, count: usize, length: usize) {
    let line = |number: usize| {
        let role = if number.is_multiple_of(2) {
            "user"
        } else {
            "assistant"
        };
        let content = format!("{number} {}", "x".repeat(length));
        format!("{}\n", json!({"role": role, "content": content}))
    };
    let lines: String = (0..count).map(line).collect();
    let arguments = ["session", "append", &session, "--jsonl", "-"];
    let answer = world.agents().run_with(&arguments, lines.as_bytes());
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

fn ask(world: &mut World, session: &str, question: &str, model: &str, options: &[&str]) {
    let base = ["--format", "json", "session", "tell", "--session", session];
    let arguments = [&base[..], &["--actor", model], options, &[question]].concat();
    world.answer = Some(world.agents().run(&arguments));
}

#[when(expr = "I ask {string} in {string}")]
fn i_ask(world: &mut World, question: String, session: String) {
    ask(world, &session, &question, MODEL, &[]);
}

#[when(expr = "I ask {string} of {string} in {string}")]
fn i_ask_of(world: &mut World, question: String, model: String, session: String) {
    ask(world, &session, &question, &model, &[]);
}

#[when(expr = "I ask {string} in {string} and record it in {string}")]
fn i_ask_and_record(world: &mut World, question: String, session: String, file: String) {
    ask(world, &session, &question, MODEL, &["--record", &file]);
}

#[when(expr = "I ask {string} in {string} and the sandbox {string}")]
fn i_ask_in_a_sandbox(world: &mut World, question: String, session: String, sandbox: String) {
    ask(world, &session, &question, MODEL, &["--sandbox", &sandbox]);
}

#[when(expr = "I ask {string} in {string} with the skill {string} and the sandbox {string}")]
fn i_ask_with_a_skill(
    world: &mut World,
    question: String,
    session: String,
    skill: String,
    sandbox: String,
) {
    let options = ["--skill", &skill, "--sandbox", &sandbox];
    ask(world, &session, &question, MODEL, &options);
}

#[when(expr = "I ask {string} in {string} and the sandbox {string} under the rule {string}")]
fn i_ask_under_a_rule(
    world: &mut World,
    question: String,
    session: String,
    sandbox: String,
    rule: String,
) {
    let options = ["--sandbox", &sandbox, "--rule", &rule];
    ask(world, &session, &question, MODEL, &options);
}

#[when(expr = "I ask until the budget is exceeded, in {string}")]
fn i_ask_until(world: &mut World, session: String) {
    let answers = ask_until_refused(world, &session);
    assert!(answers > 0, "the budget does not suffice for one answer");
}

#[when(expr = "I ask until a call is refused, in {string}")]
fn i_ask_until_refused(world: &mut World, session: String) {
    ask_until_refused(world, &session);
}

/// Asks until the budget is exceeded. Returns the number of answers.
fn ask_until_refused(world: &mut World, session: &str) -> usize {
    for number in 0..MANY {
        ask(world, session, "One more?", MODEL, &[]);
        let answer = world.answer();
        if answer.code != Some(0) {
            let document = last_document(answer);
            assert_eq!(document["data"]["error"]["code"], "CA-0910", "{answer:?}");
            return number;
        }
    }
    panic!("the budget is never exceeded");
}

/// Data of the last command. Asserts that the command succeeded.
fn data(world: &World) -> Value {
    let answer = world.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    last_document(answer)["data"].clone()
}

#[then(expr = "the answer is {string}")]
fn the_answer_is(world: &mut World, text: String) {
    assert_eq!(data(world)["response"], text);
}

#[then("its calls ended as follows")]
fn its_calls_ended_as_follows(world: &mut World, step: &Step) {
    let calls = data(world)["tool_calls"].as_array().expect("calls").clone();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let outcomes: Vec<Vec<String>> = calls
        .iter()
        .map(|call| vec![text(&call["tool"]), text(&call["outcome"])])
        .collect();
    let table = step.table.as_ref().expect("the step has a table");
    assert_eq!(outcomes, table.rows, "{calls:#?}");
}

#[then("some messages were left out")]
fn some_were_left_out(world: &mut World) {
    let data = data(world);
    assert!(data["messages_left_out"].as_u64() > Some(0), "{data:#}");
}

#[then(expr = "the model received {string} in {string}")]
fn the_model_received(world: &mut World, text: String, session: String) {
    let messages = world.agents().messages(&session);
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let reported: Vec<&str> = results
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert!(
        reported.iter().any(|reported| reported.contains(&text)),
        "{reported:?}"
    );
}

#[then(expr = "message {int} of {string} is marked as failed")]
fn a_message_is_marked(world: &mut World, number: usize, session: String) {
    let message = world.agents().messages(&session)[number].clone();
    assert_eq!(message["state"], "failed", "{message:#}");
    let reason = message["metadata"]["turn_error"].as_str();
    assert!(
        reason.is_some_and(|reason| !reason.is_empty()),
        "{message:#}"
    );
}

/// Converts dollars to millionths of a dollar, which must be an integer.
fn millionths(dollars: &Value) -> u64 {
    let sum = dollars.as_f64().expect("a sum") * 1e6;
    assert!((sum - sum.round()).abs() < 1e-3, "{dollars}");
    format!("{sum:.0}").parse().expect("a whole number")
}

fn cost(world: &World, session: &str) -> u64 {
    let data = world.agents().data(&["session", "show", session]);
    millionths(&data["token_usage"]["estimated_cost"])
}

#[then(expr = "the answer cost {int} millionths of a dollar")]
fn the_answer_cost(world: &mut World, sum: u64) {
    assert_eq!(millionths(&data(world)["usage"]["cost_usd"]), sum);
}

#[then("the answer cost an unknown amount")]
fn the_cost_is_unknown(world: &mut World) {
    assert_eq!(data(world)["usage"]["cost_usd"], Value::Null);
}

#[then(expr = "{string} has cost {int} millionths of a dollar")]
fn it_has_cost(world: &mut World, session: String, sum: u64) {
    assert_eq!(cost(world, &session), sum);
}

#[then(expr = "{string} has cost at most {int} millionths of a dollar")]
fn it_has_cost_at_most(world: &mut World, session: String, sum: u64) {
    assert!(cost(world, &session) <= sum, "{}", cost(world, &session));
}

#[then(expr = "{string} and {string} together have cost at most {int} millionths of a dollar")]
fn they_have_cost_at_most(world: &mut World, session: String, other: String, sum: u64) {
    let total = cost(world, &session) + cost(world, &other);
    assert!(total <= sum, "{total}");
}

#[then(expr = "{string} has cost what its answers cost")]
fn it_has_cost_its_answers(world: &mut World, session: String) {
    let messages = world.agents().messages(&session);
    let answers = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count() as u64;
    // Each answer uses 3000 input and 2000 output tokens at a millionth of a dollar each.
    assert_eq!(cost(world, &session), answers * 5000);
}
