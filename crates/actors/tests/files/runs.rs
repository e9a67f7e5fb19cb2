//! Tests that run the example actors, with a stub in place of models and tools.

use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, NoLog, NoObserver, StepUsage, ToolStep,
};
use cleveragents_actors::{Executor, Outcome, Run, State};
use cleveragents_process::Cancel;
use serde_json::{Map, Value, json};

use crate::support::actor;

/// Answers depending on the request.
struct StubExecutor;

impl Executor for StubExecutor {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        let has = |text: &str| call.prompt.contains(text);
        let value = if has("Should it be merged") {
            json!({"merge": has("Review 3"), "reason": "three reviews"})
        } else if has("Is this good") {
            json!(if has("second") { "good" } else { "more" })
        } else if has("Last time the judge said: more") {
            json!("second")
        } else if has("Write one sentence") {
            json!("first")
        } else {
            json!(format!("{} said: {}", call.agent.name, call.prompt))
        };
        Ok(Answer {
            value,
            usage: StepUsage::default(),
        })
    }

    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        let value = match step.tool {
            "builtin/ask-user" => json!("Yes"),
            tool => json!(format!("{tool} {}", step.arguments)),
        };
        Ok(Answer {
            value,
            usage: StepUsage::default(),
        })
    }
}

fn run(text: &str, input: &str) -> Outcome {
    let actor = actor(text);
    let mut values = Map::new();
    values.insert("input".to_owned(), json!(input));
    let run = Run {
        actor: &actor,
        input: State::new(values),
        context: Map::new(),
        limits: None,
        executor: &StubExecutor,
        log: &NoLog,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    };
    run.execute()
        .unwrap_or_else(|error| panic!("{}: {error}", actor.name))
}

#[test]
fn the_examples_return_the_documented_results() {
    macro_rules! example {
        ($name:literal) => {
            include_str!(concat!("../../../../examples/actors/", $name, ".yaml"))
        };
    }
    for (text, input, output) in [
        (example!("assistant"), "why?", json!("assistant said: why?")),
        (
            example!("read-file"),
            "a.txt",
            json!("builtin/file-read {\"path\":\"a.txt\"}"),
        ),
        (
            example!("code-review"),
            "x = 1",
            json!({"merge": true, "reason": "three reviews"}),
        ),
        (example!("draft-until-good"), "Rust", json!("second")),
        (
            example!("three-deep"),
            "a friend",
            json!("I was in house/floor/room/table with a friend"),
        ),
        (
            example!("each-line"),
            "ab\ncde",
            json!("2 lines, 5 letters"),
        ),
        (
            example!("front-desk"),
            "/fix the door",
            json!("engineer said: You are an engineer. Fix this: the door"),
        ),
        (
            example!("front-desk"),
            "hello",
            json!("Say `/fix …`, or ask a question."),
        ),
        (
            example!("ask-first"),
            "a book",
            json!("It is called propose said: Propose a title for: a book."),
        ),
        (
            example!("panel"),
            "Soup?",
            json!("lawyer said: Soup? / cook said: Soup?"),
        ),
    ] {
        let outcome = run(text, input);
        assert_eq!(outcome.output, output, "{text}");
    }
}

#[test]
fn every_function_can_be_called() {
    for (function, input, output) in [
        ("identity", json!("Ab"), json!("Ab")),
        ("uppercase", json!("Ab"), json!("AB")),
        ("lowercase", json!("Ab"), json!("ab")),
        ("title", json!("ab cd"), json!("Ab Cd")),
        ("trim", json!(" a "), json!("a")),
        ("length", json!([1, 2]), json!(2)),
        ("first", json!([1, 2]), json!(1)),
        ("last", json!([1, 2]), json!(2)),
        ("reverse", json!([1, 2]), json!([2, 1])),
        ("sort", json!([2, 1]), json!([1, 2])),
        ("unique", json!([1, 1]), json!([1])),
        ("sum", json!([1, 2]), json!(3)),
        ("min", json!([1, 2]), json!(1)),
        ("max", json!([1, 2]), json!(2)),
        ("lines", json!("a\nb"), json!(["a", "b"])),
        ("join", json!(["a", "b"]), json!("a\nb")),
        ("json", json!([1]), json!("[1]")),
        ("not", json!(true), json!(false)),
    ] {
        let set: Value = input.clone();
        let text = format!(
            "name: local/f\ntype: graph\nnodes:\n  begin: {{set: {{given: {set}}}, next: f}}\n  f: {{function: {function}, input: given}}\n"
        );
        assert_eq!(run(&text, "").output, output, "{function}");
    }
}
