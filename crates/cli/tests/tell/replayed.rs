//! A recorded turn is replayed without the provider, including its tools.

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, READ, SHELL, WRITE};

#[test]
fn a_turn_with_tools_is_replayed_to_the_same_answer() {
    for form in WireFormat::BOTH {
        let calls = [
            ("c1", READ, r#"{"path": "notes.txt"}"#),
            ("c2", WRITE, r#"{"path": "new.txt", "content": "x"}"#),
            ("c3", SHELL, r#"{"command": "cat new.txt; exit 3"}"#),
            ("c4", READ, r#"{"path": "missing"}"#),
        ];
        let long = ("c5", SHELL, r#"{"command": "seq 100000"}"#);
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(Shape::Pieces, &calls),
                form.calls(Shape::Pieces, &[long]),
                form.text_response(Shape::Pieces, &["Read", " it."]),
            ],
        );
        let recorded = fixture.send_prompt_json(&["--record", "turn.jsonl", "Read the notes"]);
        fixture.agents.data(&["sandbox", "discard", "box", "--yes"]);
        // Another copy of the same folder and another session, without an endpoint.
        let replay = ConversationFixture::new(fixture.agents, "replay/turn.jsonl");
        let replayed = replay.send_prompt_json(&["Read the notes"]);
        assert_eq!(replayed["response"], recorded["response"], "{form:?}");
        assert_eq!(replayed["usage"]["tokens"], recorded["usage"]["tokens"]);
        let outcomes = |reported: &serde_json::Value| {
            let calls = reported["tool_calls"].as_array().expect("calls").clone();
            calls
                .iter()
                .map(|call| (call["tool"].clone(), call["outcome"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&replayed), outcomes(&recorded));
        assert_eq!(outcomes(&recorded).len(), 5);
    }
}
