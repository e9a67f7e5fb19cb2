//! A conversation with tools, reasoning and pictures in every wire format. Each endpoint refuses
//! what the real provider refuses.

use cleveragents_testkit::model_server::{ModelServer, Response, WireFormat};
use serde_json::json;

use super::world::{ConversationFixture, READ, WRITE, agents};

/// The beginning of a PNG file of one pixel.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

const ANSWER: &str = "I noted what I saw.";

fn answers(format: WireFormat) -> Vec<Response> {
    let picture = json!({"path": "a.png"});
    let file = json!({"path": "b.txt", "content": "A cat.\n"});
    let wrong = json!({"wrong": [1]});
    vec![
        format.calls(&[("look", READ, &picture), ("odd.id:1", READ, &wrong)]),
        // This tool name was not offered, and no provider accepts it.
        format.calls(&[("lost", "rm -rf /; x", &json!({}))]),
        format.calls(&[("note", WRITE, &file)]),
        format.text_response(ANSWER),
    ]
}

#[test]
fn no_provider_refuses_a_conversation_with_tools_reasoning_and_pictures() {
    for format in WireFormat::ALL {
        let mut responses = answers(format);
        responses.extend(answers(format));
        responses.push(format.text_response("Yes."));
        let server = ModelServer::start(responses);
        let mut agents = agents();
        for (name, value) in format.variables(&server.url()) {
            agents = agents.with(name, value);
        }
        let fixture = ConversationFixture::new(agents, format.model());
        std::fs::write(fixture.sandbox_folder.join("a.png"), PNG).expect("a file");
        // An actor that requests reasoning.
        let actor = json!({
            "name": "local/thinker", "type": "llm", "description": "thinks", "model": format.model(),
            "system_prompt": "Work.", "tools": ["builtin/*"], "reasoning_effort": "medium",
        });
        let file = fixture.agents.cwd().join("thinker.yaml");
        std::fs::write(&file, actor.to_string()).expect("a file");
        let file = file.to_str().expect("a path");
        fixture.agents.data(&["actor", "add", "--config", file]);
        let question = "what is on a.png?";
        let run = [
            "actor",
            "run",
            "local/thinker",
            question,
            "--sandbox",
            "box",
        ];
        let result = fixture.agents.data(&run);
        assert_eq!(result["response"]["text"], ANSWER, "{format:?}");
        // In the session, the second message is sent with the whole history.
        assert_eq!(
            fixture.send_prompt_json(&[question])["response"],
            ANSWER,
            "{format:?}"
        );
        assert_eq!(
            fixture.file("b.txt").as_deref(),
            Some("A cat.\n"),
            "{format:?}"
        );
        assert_eq!(
            fixture.send_prompt_json(&["sure?"])["response"],
            "Yes.",
            "{format:?}"
        );
        let received = server.received();
        assert_eq!(received.len(), 9, "{format:?}");
        assert!(server.refused().is_empty(), "{format:?}");
        for number in [1, 5] {
            let is_shown = received[number].body.contains("iVBORw0KGgo");
            assert!(is_shown, "{format:?}: the picture is sent");
        }
    }
}
