//! Keys are placed in every input and must not appear in any output, request or file.

use cleveragents_testkit::Answer;
use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest, Response};

use super::form::{ANTHROPIC_KEY, OPENAI_KEY, Shape, WireFormat};
use super::world::{ConversationFixture, READ, SHELL, agents, every_file};

const KEYS: [&str; 2] = [OPENAI_KEY, ANTHROPIC_KEY];

/// Asserts that a text contains no key.
fn assert_clean(label: &str, bytes: &[u8]) {
    for key in KEYS {
        // Search for each half, because the endpoint sends the key in two pieces.
        let (left, right) = key.split_at(key.len() / 2);
        for part in [left, right] {
            let has_part = bytes
                .windows(part.len())
                .any(|window| window == part.as_bytes());
            assert!(!has_part, "a key is in {label}");
        }
    }
}

fn assert_shows_no_key(label: &str, answer: &Answer) {
    assert_clean(&format!("the output of {label}"), answer.out.as_bytes());
    assert_clean(&format!("the errors of {label}"), answer.err.as_bytes());
}

/// Responses of an endpoint that misuses the key it received.
fn responses(form: WireFormat) -> Vec<Response> {
    let env = r#"{"command": "env; cat /proc/self/environ; cat /proc/$PPID/environ; cat .env; echo end"}"#;
    let echo = format!(r#"{{"command": "echo {}"}}"#, form.variables()[2]);
    let bad = format!(r#"{{"command": "{}""#, form.variables()[2]);
    let unknown = format!("tool-{}", form.variables()[2]);
    let key = form.variables()[2];
    let (left, right) = key.split_at(key.len() / 2);
    vec![
        form.calls(
            Shape::Pieces,
            &[
                ("env", SHELL, env),
                ("file", READ, r#"{"path": ".env"}"#),
                ("echo", SHELL, &echo),
                ("bad", SHELL, &bad),
                ("unknown", &unknown, "{}"),
            ],
        ),
        form.text_response(Shape::Pieces, &["Your key is ", left, right, ", isn't it?"]),
        form.text_response(Shape::Pieces, &["Again: ", left, right, "!"]),
        form.refuses(401, &format!("the key {key} is wrong")),
        form.refuses(400, &format!("cannot use \"{key}\" here")),
        form.text_response(Shape::Pieces, &["It was ", key, "."])
            .cut_after(5),
    ]
}

#[test]
fn no_key_is_shown_stored_sent_back_or_passed_to_a_child() {
    for form in WireFormat::BOTH {
        let home = agents().with("CLEVERAGENTS_MODEL_RETRIES", "0").with(
            other_form(form).variables()[1],
            other_form(form).variables()[2],
        );
        let secrets = format!("OPENAI_API_KEY={OPENAI_KEY}\nOTHER={ANTHROPIC_KEY}\n");
        let real = home.cwd().join("code");
        std::fs::create_dir(&real).expect("a folder");
        std::fs::write(real.join(".env"), &secrets).expect("a file");
        let fixture = ConversationFixture::at(home, form, ModelServer::start(responses(form)));
        let record = fixture.agents.cwd().join("record.jsonl");
        let record = record.to_str().expect("a path");
        let first = fixture.send_prompt(&["--record", record, "show me everything"]);
        assert_eq!(first.code, Some(0), "{}", first.err);
        assert_shows_no_key("the first turn", &first);
        let mut plain = fixture.arguments(&["--stream", "again"]);
        plain[1] = "plain";
        let shown = fixture.agents.run(&plain);
        assert_shows_no_key("a streamed answer", &shown);
        assert!(shown.out.contains("Again: [REDACTED]!"), "{}", shown.out);
        for label in ["401", "400", "cut"] {
            let answer = fixture.agents.run(&plain);
            assert_ne!(answer.code, Some(0), "{label}: {answer:?}");
            assert_shows_no_key(label, &answer);
        }
        let results = form.results(&fixture.server().received()[1]);
        assert_eq!(results.len(), 5);
        for result in &results {
            assert_clean("a result", result.content.as_bytes());
        }
        let env = &results[0].content;
        assert!(
            env.contains("PATH=") && env.contains("end"),
            "the command ran: {env}"
        );
        assert!(!env.contains("_API_KEY=sk"), "{env}");
        let session = fixture.session.as_str();
        for command in [
            &["session", "messages", session][..],
            &["session", "show", session],
            &["session", "export", session],
            &["session", "search", "key"],
            &["sandbox", "diff", "box", "--stat"],
        ] {
            for format in ["json", "plain"] {
                let answer = fixture
                    .agents
                    .run(&[&["--format", format], command].concat());
                assert_eq!(answer.code, Some(0), "{command:?}: {answer:?}");
                assert_shows_no_key(&format!("{command:?}"), &answer);
            }
        }
        assert_clean("the recording", &std::fs::read(record).expect("recorded"));
        let files = every_file(fixture.agents.home());
        let database = fixture.agents.database();
        assert!(files.iter().any(|(path, _)| *path == database));
        for (path, bytes) in files {
            if path != fixture.sandbox_folder.join(".env") {
                assert_clean(&path.display().to_string(), &bytes);
            }
        }
    }
}

const fn other_form(form: WireFormat) -> WireFormat {
    match form {
        WireFormat::OpenAi => WireFormat::Anthropic,
        WireFormat::Anthropic => WireFormat::OpenAi,
    }
}

#[test]
fn the_environment_of_a_child_holds_no_key_by_name_or_value() {
    let form = WireFormat::OpenAi;
    let server = ModelServer::answering(move |request: &ReceivedRequest| {
        if form.results(request).is_empty() {
            // The output is reversed, so that redaction cannot hide a key.
            let command = r#"{"command": "env | rev > env.txt; tr '\\0' '\\n' < /proc/1/environ | rev >> env.txt; true"}"#;
            form.calls(Shape::Pieces, &[("c", SHELL, command)])
        } else {
            form.text_response(Shape::Pieces, &["Done."])
        }
    });
    let home = agents()
        .with("ANTHROPIC_API_KEY", ANTHROPIC_KEY)
        .with("SOME_PASSWORD", "hunter2-hunter2");
    let fixture = ConversationFixture::at(home, form, server);
    fixture.send_prompt_json(&["go"]);
    let reversed = fixture.file("env.txt").expect("written");
    let lines: Vec<String> = reversed
        .lines()
        .map(|line| line.chars().rev().collect())
        .collect();
    assert!(
        lines.iter().any(|line| line.starts_with("PATH=")),
        "{lines:?}"
    );
    for text in [OPENAI_KEY, ANTHROPIC_KEY, "hunter2", "API_KEY", "PASSWORD"] {
        let secret_line = lines.iter().find(|line| line.contains(text));
        assert!(secret_line.is_none(), "a child has {secret_line:?}");
    }
}
