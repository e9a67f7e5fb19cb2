//! Tests of failures: retries, limits, interruptions, cancellation, and keys in errors.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::Diagnose;
use cleveragents_models::{
    CancellationToken, Catalogue, CatalogueOptions, ChatRequest, ErrorKind, Limits, Model,
    ModelError, RetryPolicy, StreamEvent,
};
use cleveragents_testkit::model_server::{ModelServer, Response, Step, anthropic, openai};
use futures_util::StreamExt;

use super::{KEY, ask, catalogue_with, events, open, runtime, streamed_text};

const NAMES: [&str; 2] = ["openai/gpt-5.1", "anthropic/claude-sonnet-4-5"];

fn text(name: &str, pieces: &[&str]) -> Response {
    if name.starts_with("openai") {
        openai::text(pieces)
    } else {
        anthropic::text(pieces)
    }
}

fn refusal(name: &str, status: u16, kind: &str, message: &str) -> Response {
    if name.starts_with("openai") {
        openai::error(status, kind, message)
    } else {
        anthropic::error(status, kind, message)
    }
}

fn limited(server: &ModelServer, name: &str, limits: Limits) -> Arc<dyn Model> {
    let catalogue = catalogue_with(server, |options| options.limits = limits);
    catalogue
        .open(&name.parse().expect("a name"))
        .expect("a model")
}

#[test]
fn transient_failures_are_retried() {
    for name in NAMES {
        for failure in [
            refusal(name, 429, "rate_limit_error", "slow down").header("retry-after", "0"),
            refusal(name, 429, "rate_limit_error", "slow down").header("retry-after-ms", "5"),
            refusal(name, 500, "api_error", "oops"),
            Response::json(502, "<html>bad gateway</html>"),
            Response::json(503, ""),
            Response::json(529, "{\"error\":{\"type\":\"overloaded_error\"}}"),
            // Cut before any output.
            text(name, &["x"]).cut_after(0),
        ] {
            let server = ModelServer::start(vec![failure.clone(), text(name, &["ok"])]);
            let answer = ask(&*open(&server, name), ChatRequest::prompt("a"));
            let answer = answer.unwrap_or_else(|error| panic!("{name} {failure:?}: {error}"));
            assert_eq!((answer.message.text.as_str(), answer.attempts), ("ok", 2));
        }
    }
}

/// Each simulated failure has its own kind, and only transient failures are retried.
#[test]
fn defect_5681_each_failure_has_its_kind_and_only_transient_ones_are_retried() {
    let wait = |seconds| ErrorKind::RateLimited {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    for name in NAMES {
        for (response, kind, attempts) in [
            (
                refusal(name, 401, "authentication_error", "bad key"),
                ErrorKind::Auth,
                1,
            ),
            (
                refusal(name, 403, "permission_error", "no"),
                ErrorKind::Auth,
                1,
            ),
            (
                refusal(name, 404, "not_found_error", "no such model"),
                ErrorKind::NotFound,
                1,
            ),
            (
                refusal(name, 400, "invalid_request_error", "bad field"),
                ErrorKind::BadRequest,
                1,
            ),
            (
                refusal(
                    name,
                    400,
                    "invalid_request_error",
                    "prompt is too long: 210000 tokens",
                ),
                ErrorKind::ContextTooLong,
                1,
            ),
            (
                refusal(name, 400, "context_length_exceeded", "x"),
                ErrorKind::ContextTooLong,
                1,
            ),
            (
                refusal(name, 413, "request_too_large", "x"),
                ErrorKind::ContextTooLong,
                1,
            ),
            (
                refusal(name, 400, "content_filter", "x"),
                ErrorKind::ContentFiltered,
                1,
            ),
            (
                refusal(name, 429, "insufficient_quota", "pay"),
                ErrorKind::QuotaExceeded,
                1,
            ),
            (refusal(name, 402, "x", "pay"), ErrorKind::QuotaExceeded, 1),
            // The provider requests a wait that is longer than the maximum pause.
            (
                refusal(name, 429, "rate_limit_error", "x").header("retry-after", "3600"),
                wait(3600),
                1,
            ),
            (
                refusal(name, 429, "rate_limit_error", "x").header("retry-after", "0"),
                wait(0),
                3,
            ),
            (
                refusal(name, 500, "api_error", "x"),
                ErrorKind::Overloaded,
                3,
            ),
            (text(name, &["x"]).cut_after(0), ErrorKind::Interrupted, 3),
            (
                Response::json(302, "").header("location", "/elsewhere"),
                ErrorKind::Protocol,
                1,
            ),
        ] {
            let server = ModelServer::start(vec![response.clone(); 5]);
            let error = ask(&*open(&server, name), ChatRequest::prompt("a"));
            let error = error.expect_err("it fails");
            assert_eq!(error.kind(), &kind, "{name} {response:?}: {error}");
            assert_eq!(
                server.received().len(),
                attempts,
                "{name} {response:?}: {error}"
            );
            assert_eq!(error.attempts() as usize, attempts);
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| !hint.neutral().contains("NAME"))
            );
        }
    }
}

#[test]
fn a_missing_provider_is_unreachable() {
    let server = ModelServer::start(Vec::new());
    let model = open(&server, NAMES[0]);
    drop(server);
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("no server listens");
    assert_eq!(
        (error.kind(), error.attempts()),
        (&ErrorKind::Unreachable, 3)
    );
    assert!(error.to_string().contains("refused"), "{error}");
}

/// The TLS client is created and used; there is no TLS at the other end.
#[test]
fn a_plain_http_provider_fails_the_tls_handshake() {
    let server = ModelServer::start(Vec::new());
    let url = server.url().replace("http://", "https://");
    let lookup = move |name: &str| (name == "OPENAI_BASE_URL").then(|| url.clone());
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.retry.retries = 0;
    let catalogue = Catalogue::new(options).expect("a catalogue");
    let model = catalogue
        .open(&"openai/x".parse().expect("a name"))
        .expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("no TLS");
    assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error}");
    assert!(server.received().is_empty());
}

/// The text and the tool calls of an interrupted answer are not part of the answer that a caller receives.
#[test]
fn a_cut_in_the_middle_is_retried_and_announced() {
    for name in NAMES {
        let step_count = text(name, &["one ", "two ", "three"]).steps.len();
        for steps in 1..step_count {
            let server = ModelServer::start(vec![
                text(name, &["one ", "two ", "three"]).cut_after(steps),
                text(name, &["second"]),
            ]);
            let events = events(&*open(&server, name), ChatRequest::prompt("a"));
            let restart = events
                .iter()
                .position(|event| matches!(event, Ok(StreamEvent::Retrying(_))))
                .unwrap_or_else(|| panic!("{name} {steps}: no retry announced"));
            assert_eq!(
                streamed_text(&events[restart..]),
                "second",
                "{name} {steps}"
            );
            let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
                panic!("{name} {steps}: {events:?}");
            };
            assert_eq!(answer.message.text, "second", "{name} {steps}");
            assert_eq!(answer.attempts, 2);
        }
    }
}

#[test]
fn a_cut_in_every_attempt_is_an_error() {
    for name in NAMES {
        let server = ModelServer::answering(move |_| text(name, &["one ", "two"]).cut_after(2));
        let error = ask(&*open(&server, name), ChatRequest::prompt("a")).expect_err("cut");
        assert_eq!(error.kind(), &ErrorKind::Interrupted, "{name}");
        assert_eq!(
            (error.attempts(), server.received().len()),
            (3, 3),
            "{name}"
        );
    }
}

#[test]
fn an_empty_answer_is_retried_and_then_a_failure() {
    for name in NAMES {
        for empty in ["", "  \n"] {
            let server = ModelServer::start(vec![text(name, &[empty]), text(name, &["second"])]);
            let answer = ask(&*open(&server, name), ChatRequest::prompt("a")).expect("an answer");
            assert_eq!(answer.message.text, "second", "{name}");
        }
        let server = ModelServer::answering(move |_| text(name, &[""]));
        let error = ask(&*open(&server, name), ChatRequest::prompt("a")).expect_err("empty");
        assert_eq!(error.kind(), &ErrorKind::EmptyAnswer, "{name}");
        assert_eq!(server.received().len(), 3, "{name}");
    }
}

/// A body without chunks or length ends with the connection: only the protocol can detect a cut.
#[test]
fn a_closed_connection_is_not_the_end_of_an_answer() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let thread = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().expect("a client");
            let mut buffer = [0; 4096];
            let _size = connection.read(&mut buffer).expect("a request");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
            connection
                .write_all(format!("{head}{event}").as_bytes())
                .expect("a client");
        }
    });
    let lookup = move |name: &str| (name == "OPENAI_BASE_URL").then(|| url.clone());
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.retry.retries = 1;
    options.retry.first_pause = Duration::from_millis(1);
    let catalogue = Catalogue::new(options).expect("a catalogue");
    let model = catalogue
        .open(&"openai/x".parse().expect("a name"))
        .expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("a cut");
    assert_eq!(
        (error.kind(), error.attempts()),
        (&ErrorKind::Interrupted, 2)
    );
    thread.join().expect("the server ends");
}

#[test]
fn silence_ends_at_the_idle_limit() {
    let limits = Limits {
        first_byte: Duration::from_millis(60),
        idle: Duration::from_millis(60),
        total: Duration::from_secs(5),
        ..Limits::default()
    };
    for name in NAMES {
        let half = text(name, &["one ", "two"]).steps.len() - 3;
        let mut response = text(name, &["one ", "two"]);
        response.steps.truncate(half);
        let silent = Response {
            steps: Vec::new(),
            ..response.clone()
        };
        let server = ModelServer::start(vec![response.then(Step::Hang); 3]);
        let events = events(&*limited(&server, name, limits), ChatRequest::prompt("a"));
        assert!(streamed_text(&events).starts_with("one "));
        let error = events
            .last()
            .expect("an event")
            .as_ref()
            .expect_err("silence");
        assert_eq!(error.kind(), &ErrorKind::Timeout);
        assert!(error.to_string().contains("no data received"), "{error}");
        assert!(server.wait_for_closed(3), "the connections are closed");

        let server = ModelServer::start(vec![silent.then(Step::Hang); 5]);
        let error = ask(&*limited(&server, name, limits), ChatRequest::prompt("a"));
        let error = error.expect_err("silence from the start");
        assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 3));
    }
}

#[test]
fn an_endless_stream_ends_at_the_time_or_size_limit() {
    let comment = b": still here\n\n".to_vec();
    let event =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more \"}}]}\n\n".to_vec();
    for (bytes, kind) in [(comment, ErrorKind::Timeout), (event, ErrorKind::Protocol)] {
        let limits = Limits {
            total: Duration::from_millis(150),
            // Only the stream of events is limited in size; the stream of comments has to reach the time limit.
            response_bytes: if kind == ErrorKind::Timeout {
                usize::MAX
            } else {
                4096
            },
            ..Limits::default()
        };
        let endless = Response::events([""; 0]).then(Step::Endless(bytes));
        let server = ModelServer::start(vec![endless]);
        let events = events(
            &*limited(&server, NAMES[0], limits),
            ChatRequest::prompt("a"),
        );
        let error = events
            .last()
            .expect("an event")
            .as_ref()
            .expect_err("a limit");
        assert_eq!(error.kind(), &kind, "{error}");
        assert!(server.wait_for_closed(1), "the connection is closed");
    }
}

#[test]
fn cancelling_in_the_middle_closes_the_connection_immediately() {
    for name in NAMES {
        let mut response = text(name, &["one ", "two"]);
        let half = response.steps.len() - 3;
        response.steps.truncate(half);
        let server = ModelServer::start(vec![response.then(Step::Hang)]);
        let model = open(&server, name);
        let cancel = CancellationToken::new();
        let error: ModelError = runtime().block_on(async {
            let mut events = model.stream(ChatRequest::prompt("a"), cancel.clone());
            let first = events.next().await.expect("an event");
            assert_eq!(
                first.expect("a piece"),
                StreamEvent::Text("one ".to_owned())
            );
            cancel.cancel();
            loop {
                match events.next().await.expect("an event") {
                    Ok(StreamEvent::Text(_)) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break error,
                }
            }
        });
        assert_eq!(error.kind(), &ErrorKind::Cancelled);
        assert!(!error.is_retryable());
        assert!(server.wait_for_closed(1), "the connection is closed");
    }
}

#[test]
fn dropping_a_stream_closes_the_connection() {
    let server = ModelServer::start(vec![Response::events([""; 0]).then(Step::Hang)]);
    let model = open(&server, NAMES[0]);
    runtime().block_on(async {
        let mut events = model.stream(ChatRequest::prompt("a"), CancellationToken::new());
        let waited = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
        assert!(waited.is_err(), "no event arrives");
        drop(events);
        // The client releases the connection on its own task.
        tokio::task::spawn_blocking(move || assert!(server.wait_for_closed(1)))
            .await
            .expect("the connection is closed");
    });
}

#[test]
fn a_call_that_is_cancelled_before_it_starts_sends_nothing() {
    let server = ModelServer::start(vec![openai::text(&["x"])]);
    let model = open(&server, NAMES[0]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = runtime().block_on(cleveragents_models::complete(
        &*model,
        ChatRequest::prompt("a"),
        cancel,
    ));
    assert_eq!(outcome.expect_err("stopped").kind(), &ErrorKind::Cancelled);
    assert!(server.received().is_empty());
}

#[test]
fn the_pause_between_attempts_can_be_cancelled_and_is_within_the_total() {
    let response = || openai::error(429, "rate_limit", "x").header("retry-after", "600");
    let server = ModelServer::start(vec![response(), response()]);
    let catalogue = catalogue_with(&server, |options| {
        options.retry = RetryPolicy {
            longest_pause: Duration::from_hours(1),
            ..RetryPolicy::default()
        };
        options.limits.total = Duration::from_secs(10_000);
    });
    let model = catalogue
        .open(&NAMES[0].parse().expect("a name"))
        .expect("a model");
    let cancel = CancellationToken::new();
    let error = runtime().block_on(async {
        let mut events = model.stream(ChatRequest::prompt("a"), cancel.clone());
        let announced = events.next().await.expect("an event").expect("a retry");
        let StreamEvent::Retrying(retry) = announced else {
            panic!("{announced:?}");
        };
        assert_eq!(retry.pause_ms, 600_000);
        let waited = tokio::time::timeout(Duration::from_millis(100), events.next()).await;
        assert!(waited.is_err(), "the call waits for the requested pause");
        cancel.cancel();
        let next = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
        let next = next.expect("cancelling ends the pause");
        next.expect("an event").expect_err("stopped")
    });
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
    // A pause beyond the total limit is not started.
    let model = open(&server, NAMES[0]);
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("refused");
    assert!(
        matches!(error.kind(), ErrorKind::RateLimited { .. }),
        "{error}"
    );
}

#[test]
fn connections_are_reused() {
    let server = ModelServer::answering(|_| openai::text(&["a"]));
    let model = open(&server, NAMES[0]);
    runtime().block_on(async {
        for _ in 0..10 {
            let request = ChatRequest::prompt("x");
            let answer = cleveragents_models::complete(&*model, request, CancellationToken::new());
            assert_eq!(answer.await.expect("an answer").message.text, "a");
        }
    });
    // On a slow machine, some connections may not be reused.
    assert!(
        server.connections() < 6,
        "{} connections",
        server.connections()
    );
}

#[test]
fn a_key_is_in_no_error_and_in_no_debug_output() {
    for name in NAMES
        .into_iter()
        .chain(["gemini/x", "ollama/x", "azure/x", "openai-responses/x"])
    {
        for response in [
            openai::error(
                401,
                "invalid",
                &format!("Incorrect API key provided: {KEY}."),
            ),
            Response::json(500, &format!("proxy said: Bearer {KEY}")),
            Response::events([format!("{{\"error\":{{\"message\":\"{KEY}\"}}}}")]),
            Response::events([format!("no JSON but {KEY}")]),
        ] {
            let server = ModelServer::start(vec![response; 5]);
            let error = ask(&*open(&server, name), ChatRequest::prompt("a")).expect_err("it fails");
            let shown = format!("{error} {error:?} {:?} {}", error.hint(), error.details());
            assert!(!shown.contains(KEY), "{shown}");
        }
    }
    let server = ModelServer::start(Vec::new());
    let catalogue = catalogue_with(&server, |_| ());
    let entry = catalogue
        .entry(&NAMES[0].parse().expect("a name"))
        .expect("an entry");
    let shown = format!(
        "{entry:?} {:?} {}",
        catalogue.redactor(),
        serde_json::json!(entry)
    );
    assert!(
        !shown.contains(KEY) && shown.contains("OPENAI_API_KEY"),
        "{shown}"
    );
}
