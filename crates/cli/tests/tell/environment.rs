//! Model requests start with an environment block that is identical in every turn, and contain the
//! instruction files of a folder after the model reads a file in it.

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, READ, WRITE};

/// The environment block in the body of a request.
fn block(body: &str) -> &str {
    let start = body.find("<environment>").expect("a block");
    let end = body.find("</environment>").expect("its end");
    &body[start..end]
}

#[test]
fn a_model_receives_its_environment_and_the_same_in_every_turn() {
    for form in WireFormat::BOTH {
        let write = ("c1", WRITE, r#"{"path": "new.py", "content": "x"}"#);
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(Shape::Pieces, &[write]),
                form.text_response(Shape::Pieces, &["Done."]),
                form.text_response(Shape::Pieces, &["Done again."]),
            ],
        );
        std::fs::write(fixture.sandbox_folder.join("Cargo.toml"), "").expect("a file");
        fixture.send_prompt_json(&["Write something"]);
        fixture.send_prompt_json(&["And again"]);
        let received = fixture.server().received();
        let first = block(&received[0].body);
        let folder = fixture.sandbox_folder.display().to_string();
        for fact in [
            folder.as_str(),
            "languages: Rust",
            "`cargo test`",
            "Network: off",
            "git",
        ] {
            assert!(first.contains(fact), "{fact}: {first}");
        }
        for request in &received {
            assert_eq!(block(&request.body), first, "{form:?}");
        }
    }
}

#[test]
fn folder_instructions_are_sent_with_the_first_file_read_there() {
    for form in WireFormat::BOTH {
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(Shape::Pieces, &[("c1", READ, r#"{"path": "notes.txt"}"#)]),
                form.calls(Shape::Pieces, &[("c2", READ, r#"{"path": "a/b/file"}"#)]),
                form.calls(Shape::Pieces, &[("c3", READ, r#"{"path": "a/b/file"}"#)]),
                form.text_response(Shape::Pieces, &["Done."]),
            ],
        );
        std::fs::create_dir_all(fixture.sandbox_folder.join("a/b")).expect("folders");
        for (name, text) in [
            ("CLAUDE.md", "Rule of the top"),
            ("a/AGENTS.md", "Rule of the folder"),
            ("a/b/file", "content"),
        ] {
            std::fs::write(fixture.sandbox_folder.join(name), text).expect("a file");
        }
        fixture.send_prompt_json(&["Read the file"]);
        let received = fixture.server().received();
        let top = |body: &str| body.matches("Rule of the top").count();
        let inner = |body: &str| body.matches("Rule of the folder").count();
        let counts = |index: usize| (top(&received[index].body), inner(&received[index].body));
        assert_eq!(counts(0), (1, 0), "{form:?}");
        assert_eq!(counts(1), (1, 0), "{form:?}");
        assert_eq!(counts(2), (1, 1), "{form:?}");
        assert_eq!(counts(3), (1, 1), "{form:?}: shown once");
    }
}
