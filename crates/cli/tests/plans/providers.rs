//! A whole plan with models of every wire format, against an endpoint that refuses what the real
//! provider refuses.

use std::collections::HashMap;
use std::sync::Mutex;

use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest, Response, WireFormat};
use serde_json::{Value, json};

use super::world::World;

const READ: &str = "builtin_S_file-read";
const WRITE: &str = "builtin_S_file-write";

/// Maximum size of the tool definitions of a request of a plan, with their wrappers: about 1,000
/// tokens.
const DECLARED_BYTES: usize = 4_000;

/// Size of the tool definitions in a request.
fn declarations(request: &ReceivedRequest) -> usize {
    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    body["tools"].to_string().len()
}

/// Phase of the plan that a request belongs to, from its text.
fn phase(request: &ReceivedRequest) -> &'static str {
    let phases = [
        ("Make the strategy", "strategize"),
        ("Execute step", "execute"),
        ("Review the result", "review"),
        ("Checks failed", "fix"),
    ];
    // A request also contains the texts of earlier phases, so the last match counts.
    let last = phases
        .iter()
        .filter_map(|(message, phase)| Some((request.body.rfind(message)?, *phase)))
        .max();
    last.map_or("execute", |(_, phase)| phase)
}

/// Answer number `number` of the model in a phase. Each phase first reads or writes a file. The
/// JSON of strategy and review is surrounded by text.
fn answer(format: WireFormat, phase: &str, number: usize) -> Response {
    let look = json!({"path": "a.txt"});
    let write = |content: &str| json!({"path": "a.txt", "content": content});
    match (phase, number) {
        ("strategize" | "review", 0) => format.calls(&[("look", READ, &look)]),
        ("strategize", _) => {
            let strategy = json!({"summary": "Write it", "steps": [
                {"title": "Write a.txt", "description": "Write `right`.", "files": ["a.txt"]}]});
            format.text_response(&format!("This is the strategy:\n```json\n{strategy}\n```"))
        }
        ("review", _) => {
            let review = json!({"criteria": [{"number": 1, "met": true, "evidence": "a.txt:1"}]});
            format.text_response(&format!("I looked. {review} That is all."))
        }
        ("fix", 0) => format.calls(&[("fix", WRITE, &write("right\n"))]),
        (_, 0) => format.calls(&[("work", WRITE, &write("wrong\n"))]),
        _ => format.text_response("It is written."),
    }
}

#[test]
fn no_provider_refuses_a_plan() {
    for format in WireFormat::ALL {
        let counts: Mutex<HashMap<&str, usize>> = Mutex::default();
        let server = ModelServer::answering(move |request| {
            let phase = phase(request);
            let mut counts = counts.lock().expect("no panic");
            let number = counts.entry(phase).or_default();
            *number += 1;
            answer(format, phase, *number - 1)
        });
        let mut world = World::new();
        for (name, value) in format.variables(&server.url()) {
            world.agents = world.agents.with(name, value);
        }
        world
            .agents
            .data(&["config", "set", "model.default", format.model()]);
        let action = json!({
            "name": "local/strict", "description": "Make a.txt right",
            "strategy_actor": "builtin/strategist", "execution_actor": "builtin/executor",
            "review_actor": "builtin/reviewer",
            "definition_of_done": "- check `grep -q right a.txt`\n- a.txt says what is right",
        });
        let file = world.file("strict.yaml", &action.to_string());
        world.agents.data(&["action", "create", "--config", &file]);
        let answer = world.run(&[
            "plan",
            "use",
            "local/strict",
            "local/p",
            "--automation-profile",
            "full-auto",
        ]);
        let refused = server.refused();
        assert!(refused.is_empty(), "{format:?}: {answer:?}\n{refused:#?}");
        assert_eq!(answer.code, Some(0), "{format:?}: {answer:?}");
        for request in server.received() {
            let declared = declarations(&request);
            assert!(
                declared <= DECLARED_BYTES,
                "{format:?}: {declared} bytes of tool definitions"
            );
        }
        let written = std::fs::read_to_string(world.repository().join("a.txt"));
        assert_eq!(
            written.expect("a file"),
            "right\n",
            "{format:?}: {answer:?}"
        );
        for expected in ["strategize", "execute", "fix", "review"] {
            let count = server
                .received()
                .iter()
                .filter(|request| phase(request) == expected)
                .count();
            assert_eq!(count, 2, "{format:?}: {expected}");
        }
    }
}
