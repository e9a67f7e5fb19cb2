//! A conversation with tools, thoughts and pictures against an endpoint of every wire format that refuses what the real
//! provider refuses.

use cleveragents_testkit::model_server::{ModelServer, Response, WireFormat};
use serde_json::json;

use super::world::{READ, Talk, WRITE, agents};

/// The beginning of a PNG file of one pixel.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

fn answers(format: WireFormat) -> Vec<Response> {
    let picture = json!({"path": "a.png"});
    let file = json!({"path": "b.txt", "content": "A cat.\n"});
    let wrong = json!({"wrong": [1]});
    vec![
        format.calls(&[("look", READ, &picture), ("odd.id:1", READ, &wrong)]),
        // A name that nobody offered, and that no provider accepts back.
        format.calls(&[("lost", "rm -rf /; x", &json!({}))]),
        format.calls(&[("note", WRITE, &file)]),
        format.says("I noted what I saw."),
        format.says("Yes."),
    ]
}

#[test]
fn no_provider_refuses_a_conversation_with_tools_thoughts_and_pictures() {
    for format in WireFormat::ALL {
        let server = ModelServer::start(answers(format));
        let mut agents = agents();
        for (name, value) in format.variables(&server.url()) {
            agents = agents.with(name, value);
        }
        let talk = Talk::new(agents, "local/thinker");
        let actor = json!({
            "name": "local/thinker", "type": "llm", "description": "thinks", "model": format.model(),
            "system_prompt": "Work.", "tools": ["builtin/*"], "reasoning_effort": "medium",
        });
        let file = talk.agents.work().join("thinker.yaml");
        std::fs::write(&file, actor.to_string()).expect("a file");
        let file = file.to_str().expect("a path");
        talk.agents.data(&["actor", "add", "--config", file]);
        std::fs::write(talk.copy.join("a.png"), PNG).expect("a file");
        let told = talk.told(&["what is on a.png?"]);
        assert_eq!(told["response"], "I noted what I saw.", "{format:?}");
        assert_eq!(
            talk.file("b.txt").as_deref(),
            Some("A cat.\n"),
            "{format:?}"
        );
        assert_eq!(talk.told(&["sure?"])["response"], "Yes.", "{format:?}");
        assert_eq!(server.received().len(), 5, "{format:?}");
        assert!(server.refused().is_empty(), "{format:?}");
        let shown = server.received()[1].body.contains("iVBORw0KGgo");
        assert!(shown, "{format:?}: the picture is sent");
    }
}
