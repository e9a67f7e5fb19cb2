//! Answers, tool calls and their results, in both wire formats, as stream and as one document.

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, READ, SHELL, WRITE};

const SHAPES: [Shape; 2] = [Shape::Pieces, Shape::Document];

#[test]
fn an_answer_is_shown_and_stored_with_its_usage() {
    for form in WireFormat::BOTH {
        for shape in SHAPES {
            let context = format!("{form:?}, {shape:?}");
            let text_response = || form.text_response(shape, &["Good ", "morning."]);
            let fixture =
                ConversationFixture::with_endpoint(form, vec![text_response(), text_response()]);
            let reported = fixture.send_prompt_json(&["hello"]);
            assert_eq!(reported["response"], "Good morning.", "{context}");
            assert_eq!(reported["usage"]["input_tokens"], 20, "{context}");
            assert_eq!(reported["usage"]["output_tokens"], 10, "{context}");
            assert!(
                reported["usage"]["cost_usd"].as_f64().expect("priced") > 0.0,
                "{context}"
            );
            // In a human format, the streamed answer is printed exactly once.
            let mut arguments = fixture.arguments(&["--stream", "again"]);
            arguments[1] = "plain";
            let shown = fixture.agents.run(&arguments);
            assert_eq!(shown.code, Some(0), "{context}: {shown:?}");
            assert_eq!(
                shown.out.matches("Good morning.").count(),
                1,
                "{context}: {shown:?}"
            );
            assert_eq!(fixture.roles(), ["user", "assistant", "user", "assistant"]);
            let received = fixture.server().received();
            assert_eq!(received.len(), 2, "{context}");
            for request in &received {
                assert_eq!(form.key_of(request).as_deref(), Some(form.variables()[2]));
            }
            let second = received[1].json().to_string();
            assert!(
                second.contains("Good morning."),
                "{context}: the conversation continues"
            );
        }
    }
}

#[test]
fn a_tool_runs_and_its_result_is_matched_to_its_call() {
    for form in WireFormat::BOTH {
        for stream in [&["write it"][..], &["--stream", "write it"]] {
            for shape in SHAPES {
                if stream.len() == 2 && shape == Shape::Document {
                    continue;
                }
                let context = format!("{form:?}, {shape:?}, {stream:?}");
                let arguments = r#"{"path": "new.txt", "content": "written"}"#;
                let fixture = ConversationFixture::with_endpoint(
                    form,
                    vec![
                        form.calls(shape, &[("call-a", WRITE, arguments)]),
                        form.text_response(shape, &["Done."]),
                    ],
                );
                let reported = fixture.send_prompt_json(stream);
                assert_eq!(reported["response"], "Done.", "{context}");
                assert_eq!(reported["tool_calls"][0]["tool"], "builtin/file-write");
                assert_eq!(
                    reported["tool_calls"][0]["outcome"], "succeeded",
                    "{context}"
                );
                assert_eq!(reported["files_changed"][0], "code/new.txt", "{context}");
                assert_eq!(fixture.file("new.txt").as_deref(), Some("written"));
                let real = fixture.agents.cwd().join("code/new.txt");
                assert!(!real.exists(), "{context}: only the sandbox changed");
                let received = fixture.server().received();
                assert!(
                    form.offered(&received[0])
                        .contains(&"write_file".to_owned())
                );
                let pairs = form.exchanges(&received[1]);
                assert_eq!(pairs.len(), 1, "{context}");
                assert_eq!(pairs[0].0["name"], WRITE, "{context}");
                assert_eq!(pairs[0].1.id, "call-a", "{context}");
                assert_eq!(fixture.roles(), ["user", "assistant", "tool", "assistant"]);
            }
        }
    }
}

#[test]
fn parallel_calls_all_get_their_own_result() {
    for form in WireFormat::BOTH {
        for shape in SHAPES {
            let context = format!("{form:?}, {shape:?}");
            let fixture = ConversationFixture::with_endpoint(
                form,
                vec![
                    form.calls(
                        shape,
                        &[
                            ("c1", READ, r#"{"path": "notes.txt"}"#),
                            ("c2", WRITE, r#"{"path": "two.txt", "content": "second"}"#),
                            ("c3", READ, r#"{"path": "two.txt"}"#),
                            ("c4", SHELL, r#"{"command": "cat notes.txt two.txt"}"#),
                        ],
                    ),
                    form.text_response(shape, &["All four."]),
                ],
            );
            let reported = fixture.send_prompt_json(&["do four things"]);
            assert_eq!(reported["response"], "All four.", "{context}");
            let outcomes = reported["tool_calls"].as_array().expect("calls");
            assert!(
                outcomes.iter().all(|call| call["outcome"] == "succeeded"),
                "{context}: {outcomes:?}"
            );
            let results = form.results(&fixture.server().received()[1]);
            let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
            assert_eq!(ids, ["c1", "c2", "c3", "c4"], "{context}");
            for (result, text) in [(0, "first"), (2, "second"), (3, "first")] {
                assert!(
                    results[result].content.contains(text),
                    "{context}: {results:?}"
                );
            }
        }
    }
}

#[test]
fn invalid_calls_get_an_error_result_and_the_model_continues() {
    for form in WireFormat::BOTH {
        // Invalid JSON can only occur in a stream: a complete Anthropic response contains an object.
        let broken = r#"{"path": "notes.txt", "content": "#;
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(
                    Shape::Pieces,
                    &[
                        ("bad", WRITE, broken),
                        ("none", "builtin_S_file-raed", r#"{"path": "notes.txt"}"#),
                        ("wild", "rm -rf /; \u{1b}[2J", "{}"),
                        ("less", READ, r#"{"file": 3}"#),
                    ],
                ),
                form.text_response(Shape::Pieces, &["I see."]),
            ],
        );
        let reported = fixture.send_prompt_json(&["try"]);
        assert_eq!(reported["response"], "I see.", "{form:?}");
        let outcomes = reported["tool_calls"].as_array().expect("calls");
        assert!(outcomes.iter().all(|call| call["outcome"] == "refused"));
        assert_eq!(fixture.file("notes.txt").as_deref(), Some("first\n"));
        let results = form.results(&fixture.server().received()[1]);
        let by_id = |id: &str| {
            let result = results.iter().find(|result| result.id == id);
            result.expect("a result").content.clone()
        };
        assert!(by_id("bad").contains("not valid JSON"), "{results:?}");
        assert!(by_id("none").contains("`read_file`"), "{results:?}");
        assert!(by_id("wild").contains("does not exist"), "{results:?}");
        assert!(!by_id("wild").contains('\u{1b}'), "{results:?}");
        assert!(by_id("less").contains("path"), "{results:?}");
        let reasons: Vec<String> = fixture
            .rows()
            .into_iter()
            .map(|(_, reason)| reason)
            .collect();
        assert_eq!(
            reasons,
            [
                "bad_arguments",
                "unknown_tool",
                "unknown_tool",
                "bad_arguments"
            ]
        );
    }
}
