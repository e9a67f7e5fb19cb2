//! Endpoints that refuse, disconnect, stall or never finish, and a user who stops the turn.

use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};

use cleveragents_testkit::Answer;
use cleveragents_testkit::model_server::{ModelServer, Response, Step};

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, SHELL, agents, error_of};

/// Asserts that the last turn failed with this code, and that the session continues.
fn assert_failed(fixture: &ConversationFixture, answer: &Answer, code: &str) {
    let error = error_of(answer);
    assert_eq!(error["code"], code, "{answer:?}");
    let last = fixture.messages();
    let question = last.iter().rev().find(|message| message["role"] == "user");
    assert_eq!(
        question.expect("the question")["state"],
        "failed",
        "{last:?}"
    );
}

fn text_response(form: WireFormat) -> Response {
    form.text_response(Shape::Pieces, &["All ", "well."])
}

#[test]
fn a_busy_or_broken_provider_is_retried() {
    for form in WireFormat::BOTH {
        let busy = form.refuses(429, "slow down").header("retry-after", "1");
        let broken = form.refuses(500, "oh no");
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![busy, text_response(form), broken, text_response(form)],
        );
        let started = Instant::now();
        assert_eq!(
            fixture.send_prompt_json(&["one"])["response"],
            "All well.",
            "{form:?}"
        );
        assert!(
            started.elapsed() >= Duration::from_secs(1),
            "the retry waits for the requested time"
        );
        assert_eq!(
            fixture.send_prompt_json(&["two"])["response"],
            "All well.",
            "{form:?}"
        );
        assert_eq!(fixture.server().received().len(), 4, "{form:?}");
        assert_eq!(fixture.roles(), ["user", "assistant", "user", "assistant"]);
    }
}

#[test]
fn a_provider_that_stays_broken_fails_the_turn_and_not_the_session() {
    for form in WireFormat::BOTH {
        let broken = || form.refuses(500, "oh no");
        let server = ModelServer::start(vec![broken(), broken(), text_response(form)]);
        let home = agents().with("CLEVERAGENTS_MODEL_RETRIES", "1");
        let fixture = ConversationFixture::at(home, form, server);
        assert_failed(&fixture, &fixture.send_prompt(&["one"]), "CA-0805");
        assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
        assert_eq!(fixture.roles(), ["user", "user", "assistant"]);
    }
}

#[test]
fn a_truncated_answer_restarts_and_is_never_accepted() {
    for form in WireFormat::BOTH {
        let long = ["one ", "two ", "three ", "four "];
        let truncated = form.text_response(Shape::Pieces, &long).cut_after(5);
        let call = r#"{"command": "echo x >> log.txt"}"#;
        let calls = form.calls(Shape::Pieces, &[("c", SHELL, call)]);
        // The stream is cut after the name and the start of the arguments.
        let truncated_call = calls.clone().cut_after(match form {
            WireFormat::OpenAi => 2,
            WireFormat::Anthropic => 8,
        });
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                truncated,
                text_response(form),
                truncated_call,
                text_response(form),
            ],
        );
        let mut plain = fixture.arguments(&["--stream", "text"]);
        plain[1] = "plain";
        let shown = fixture.agents.run(&plain);
        assert_eq!(shown.code, Some(0), "{form:?}: {}", shown.err);
        assert!(shown.err.contains("! retrying "), "{form:?}: {}", shown.err);
        assert!(shown.err.contains("; the answer restarts"), "{}", shown.err);
        assert!(shown.out.contains("All well."), "{}", shown.out);
        assert_eq!(
            fixture.send_prompt_json(&["call"])["response"],
            "All well.",
            "{form:?}"
        );
        assert_eq!(
            fixture.file("log.txt"),
            None,
            "a truncated call does not run"
        );
        assert_eq!(fixture.roles(), ["user", "assistant", "user", "assistant"]);
        let running = fixture.ask("SELECT count(*) FROM turns WHERE state = 'running'");
        assert_eq!(running, [["0"]]);
    }
}

#[test]
fn a_repeatedly_truncated_answer_fails_the_turn() {
    for form in WireFormat::BOTH {
        let truncated = || {
            form.text_response(Shape::Pieces, &["one ", "two "])
                .cut_after(4)
        };
        let server = ModelServer::start(vec![truncated(), truncated(), text_response(form)]);
        let home = agents().with("CLEVERAGENTS_MODEL_RETRIES", "1");
        let fixture = ConversationFixture::at(home, form, server);
        assert_failed(&fixture, &fixture.send_prompt(&["one"]), "CA-0811");
        assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
        assert_eq!(fixture.roles(), ["user", "user", "assistant"]);
    }
}

#[test]
fn an_empty_answer_is_a_failure_and_never_an_answer() {
    for form in WireFormat::BOTH {
        let empty = || form.text_response(Shape::Pieces, &[""]);
        let server = ModelServer::start(vec![empty(), text_response(form), empty(), empty()]);
        let home = agents().with("CLEVERAGENTS_MODEL_RETRIES", "1");
        let fixture = ConversationFixture::at(home, form, server);
        assert_eq!(fixture.send_prompt_json(&["one"])["response"], "All well.");
        assert_failed(&fixture, &fixture.send_prompt(&["two"]), "CA-0795");
    }
}

#[test]
fn work_before_a_disconnect_is_kept_and_done_once() {
    for form in WireFormat::BOTH {
        let call = r#"{"command": "echo x >> log.txt"}"#;
        let truncated = form
            .text_response(Shape::Pieces, &["a", "b", "c"])
            .cut_after(4);
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(Shape::Pieces, &[("c", SHELL, call)]),
                truncated,
                text_response(form),
            ],
        );
        assert_eq!(fixture.send_prompt_json(&["go"])["response"], "All well.");
        assert_eq!(fixture.roles(), ["user", "assistant", "tool", "assistant"]);
        let pairs = form.exchanges(&fixture.server().received()[2]);
        assert_eq!(pairs.len(), 1, "the request contains the finished call");
        assert_eq!(
            fixture.file("log.txt").as_deref(),
            Some("x\n"),
            "the call ran once"
        );
    }
}

#[test]
fn a_silent_answer_fails_at_the_idle_timeout() {
    for form in WireFormat::BOTH {
        let (start, piece) = response_start(form);
        let silent = start.then(Step::Send(piece)).then(Step::Hang);
        let server = ModelServer::start(vec![silent, text_response(form)]);
        let home = agents()
            .with("CLEVERAGENTS_MODEL_IDLE_TIMEOUT_SECONDS", "1")
            .with("CLEVERAGENTS_MODEL_RETRIES", "0");
        let fixture = ConversationFixture::at(home, form, server);
        assert_failed(&fixture, &fixture.send_prompt(&["one"]), "CA-0810");
        assert!(
            fixture.server().wait_for_closed(1),
            "the connection is closed"
        );
        assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
    }
}

/// The part of a response before its first piece of text, and this piece.
fn response_start(form: WireFormat) -> (Response, Vec<u8>) {
    let mut response = form.text_response(Shape::Pieces, &["more "]);
    let texts = response.steps.iter().enumerate();
    let mut texts = texts.filter_map(|(position, step)| match step {
        Step::Send(bytes) => Some((position, bytes.clone())),
        _ => None,
    });
    let (position, piece) = texts
        .find(|(_, bytes)| String::from_utf8_lossy(bytes).contains("more "))
        .expect("a piece of text");
    response.steps.truncate(position);
    (response, piece)
}

/// An endless response: the same piece of text repeatedly.
pub(crate) fn endless(form: WireFormat) -> Response {
    let (start, piece) = response_start(form);
    start.then(Step::Endless(piece))
}

#[test]
fn limits_stop_an_endless_answer() {
    for form in WireFormat::BOTH {
        let server = ModelServer::start(vec![endless(form), text_response(form)]);
        let home = agents().with("CLEVERAGENTS_MODEL_TOTAL_TIMEOUT_SECONDS", "1");
        let fixture = ConversationFixture::at(home, form, server);
        let answer = fixture.send_prompt(&["one"]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(
            fixture.server().wait_for_closed(1),
            "the connection is closed"
        );
        assert_eq!(fixture.messages()[0]["state"], "failed");
        assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
    }
}

fn interrupt(pid: u32) {
    let sent = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(sent.expect("kill starts").success(), "the signal is sent");
}

#[test]
fn ctrl_c_stops_an_endless_answer_and_keeps_the_session() {
    for form in WireFormat::BOTH {
        let fixture =
            ConversationFixture::with_endpoint(form, vec![endless(form), text_response(form)]);
        let mut arguments = fixture.arguments(&["--stream", "one"]);
        arguments[1] = "plain";
        let mut child = fixture
            .agents
            .command(arguments)
            .spawn()
            .expect("the program starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut first = [0; 8];
        out.read_exact(&mut first).expect("the start of the answer");
        interrupt(child.id());
        let mut remaining = String::new();
        out.read_to_string(&mut remaining).expect("text");
        drop(out);
        let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        assert_eq!(answer.code, Some(130), "{answer:?}");
        assert!(answer.err.contains("CA-0911"), "{answer:?}");
        assert!(
            fixture.server().wait_for_closed(1),
            "the connection is closed"
        );
        assert_eq!(fixture.messages()[0]["state"], "failed");
        assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
    }
}

#[test]
fn ctrl_c_stops_a_tool_and_its_child_processes() {
    let form = WireFormat::OpenAi;
    let call =
        r#"{"command": "echo begun > log.txt; sleep 600 & sleep 600; echo never >> log.txt"}"#;
    let fixture = ConversationFixture::with_endpoint(
        form,
        vec![
            form.calls(Shape::Pieces, &[("c", SHELL, call)]),
            text_response(form),
        ],
    );
    let child = fixture.start(&["one"]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while fixture.file("log.txt").as_deref() != Some("begun\n") {
        assert!(Instant::now() < deadline, "the command did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
    assert_eq!(error_of(&answer)["code"], "CA-0911", "{answer:?}");
    assert_eq!(answer.json()["exit_code"], 130, "{answer:?}");
    assert_eq!(fixture.rows(), [("failed".to_owned(), String::new())]);
    assert_eq!(fixture.roles(), ["user", "assistant", "tool"]);
    assert_eq!(fixture.send_prompt_json(&["two"])["response"], "All well.");
    assert_eq!(form.exchanges(&fixture.server().received()[1]).len(), 1);
}
