//! Many concurrent processes with one session.

use cleveragents_testkit::{Answer, Gate, TestDatabase};
use serde_json::Value;

use super::world::{ConversationFixture, READ, SHELL, agents};

const PROCESSES: usize = 16;

/// Answers of the model to message `number`: two calls, then a text.
fn script(number: usize) -> String {
    format!(
        "answers:\n\
         - when: '^question {number}$'\n  calls:\n  \
         - {{id: read, name: {READ}, arguments: {{path: notes.txt}}}}\n  \
         - {{id: add, name: {SHELL}, arguments: {{command: 'echo {number} >> log.txt'}}}}\n\
         - {{when: '.', text: 'answer {number}'}}\n"
    )
}

#[test]
fn sixteen_processes_use_one_session_and_every_turn_is_complete() {
    for database in TestDatabase::each() {
        let kind = database.kind;
        let fixture = ConversationFixture::new(agents().on(&database.url), "scripted/unused.yaml");
        let gate = Gate::default();
        let children: Vec<_> = (0..PROCESSES)
            .map(|number| {
                let file = format!("script-{number}.yaml");
                let path = fixture.agents.cwd().join(&file);
                std::fs::write(path, script(number)).expect("a file");
                let prompt = format!("question {number}");
                let model = format!("scripted/{file}");
                let arguments = fixture.arguments(&["--actor", &model, &prompt]);
                fixture.agents.behind(&gate, &arguments)
            })
            .collect();
        gate.open();
        for (number, child) in children.into_iter().enumerate() {
            let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
            assert_eq!(answer.code, Some(0), "{kind}, {number}: {answer:?}");
            let data = &answer.json()["data"];
            assert_eq!(data["response"], format!("answer {number}"), "{kind}");
            let calls = data["tool_calls"].as_array().expect("calls");
            assert!(
                calls.iter().all(|call| call["outcome"] == "succeeded"),
                "{kind}: {calls:?}"
            );
        }
        let messages = fixture.messages();
        assert_eq!(messages.len(), 5 * PROCESSES, "{kind}");
        let mut order = Vec::new();
        for turn in messages.chunks(5) {
            let roles: Vec<&Value> = turn.iter().map(|message| &message["role"]).collect();
            assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
            let reported = |index: usize| turn[index]["content"].as_str().expect("text");
            let number = reported(0).strip_prefix("question ").expect("a question");
            assert_eq!(reported(4), format!("answer {number}"), "{kind}");
            order.push(number.to_owned());
        }
        // The tools ran in the order of the turns, one turn after the other.
        let log = fixture.file("log.txt").expect("written");
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines, order, "{kind}");
        order.sort_by_key(|number| number.parse::<usize>().expect("a number"));
        assert_eq!(
            order,
            (0..PROCESSES).map(|n| n.to_string()).collect::<Vec<_>>()
        );
        let states = database.ask("SELECT state, count(*) FROM turns GROUP BY state");
        assert_eq!(states, [["complete".to_owned(), PROCESSES.to_string()]]);
    }
}
