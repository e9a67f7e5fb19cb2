//! Tests of scripted models.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::ScriptedModel;
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StopReason, StreamEvent};
use crate::limits::{Limits, RetryPolicy};
use crate::message::{ChatMessage, ToolResult};
use crate::model::{Model, complete};
use crate::request::ChatRequest;
use crate::retry::RetryingModel;

fn model(text: &str) -> RetryingModel {
    let name = "scripted/test.yaml".parse().expect("a name");
    let script = ScriptedModel::read(&name, "test.yaml", text).expect("a script");
    let policy = RetryPolicy {
        first_pause: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let limits = Limits {
        total: Duration::from_secs(10),
        ..Limits::default()
    };
    RetryingModel::new(Arc::new(script), limits, policy)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(work)
}

fn ask(model: &RetryingModel, request: &ChatRequest) -> Result<Completion, ModelError> {
    block_on(complete(model, request.clone(), CancellationToken::new()))
}

#[test]
fn answers_come_in_order_after_every_restart() {
    let script = "answers:\n- text: one\n- text: two\n- {when: '^magic', text: trick}\n";
    let mut request = ChatRequest::prompt("a");
    for expected in ["one", "trick", "two"] {
        if expected == "trick" {
            request
                .messages
                .push(ChatMessage::user("magic word").into());
        }
        // A new model each time, as after a restart.
        let answer = ask(&model(script), &request).expect("an answer");
        assert_eq!(answer.message.text, expected);
        request
            .messages
            .push(ChatMessage::Assistant(answer.message).into());
        request.messages.push(ChatMessage::user("next").into());
    }
    let error = ask(&model(script), &request).expect_err("used up");
    assert_eq!(error.kind(), &ErrorKind::NoAnswer);
    assert!(error.to_string().contains("needs number 3"), "{error}");
}

#[test]
fn an_answer_can_depend_on_the_task_in_the_instructions() {
    let script = "answers:\n- {task: 'Fix: cache', when: '^Go', text: cache}\n- {when: '^Go', text: other}\n- text: end\n";
    let answer = |system: &str, message: &str| {
        let mut request = ChatRequest::prompt(message);
        request.system = vec!["base".to_owned(), system.to_owned()];
        ask(&model(script), &request)
            .expect("an answer")
            .message
            .text
    };
    assert_eq!(answer("# Task\n\nFix: cache", "Go"), "cache");
    assert_eq!(answer("# Task\n\nFix: numbers", "Go"), "other");
    assert_eq!(answer("# Task\n\nFix: cache", "Stop"), "end");
}

#[test]
fn a_script_can_count_answers_from_the_last_question() {
    let mut request = ChatRequest::prompt("a");
    let answer = || ChatMessage::Assistant(crate::AssistantMessage::default());
    request.messages.push(answer().into());
    request.messages.push(ChatMessage::user("next").into());
    let script = "count: turn\nanswers: [{text: one}, {text: two}]";
    let text = |request: &ChatRequest| {
        let answer = ask(&model(script), request).expect("an answer");
        answer.message.text
    };
    assert_eq!(text(&request), "one");
    request.messages.push(answer().into());
    request.messages.push(
        ChatMessage::Tool {
            results: Vec::new(),
        }
        .into(),
    );
    assert_eq!(text(&request), "two");
}

#[test]
fn a_script_can_repeat_its_answers() {
    let mut request = ChatRequest::prompt("a");
    for _ in 0..3 {
        request
            .messages
            .push(ChatMessage::Assistant(crate::AssistantMessage::default()).into());
        request.messages.push(ChatMessage::user("next").into());
    }
    for (at_end, expected) in [("repeat_last", "two"), ("start_over", "two")] {
        let script = format!("at_end: {at_end}\nanswers: [{{text: one}}, {{text: two}}]");
        assert_eq!(
            ask(&model(&script), &request)
                .expect("an answer")
                .message
                .text,
            expected
        );
    }
}

#[test]
fn calls_pieces_usage_and_price_match_the_script() {
    let model = model(
        "price: {input: 1, output: 2}\nanswers:\n- text: äöü
  chunk: 2
  calls:
  - {name: read, arguments: {path: a}}
  - {name: bad, id: x1, raw_arguments: '{\"p'}
  usage: {input_tokens: 10, output_tokens: 5}
",
    );
    let mut request = ChatRequest::prompt("a");
    request.messages.push(
        ChatMessage::Tool {
            results: vec![ToolResult {
                pictures: Vec::new(),
                call_id: "z".to_owned(),
                content: "r".to_owned(),
                is_error: false,
            }],
        }
        .into(),
    );
    let events = model.stream(request, CancellationToken::new());
    let events: Vec<_> = block_on(events.map(|event| event.expect("no error")).collect());
    assert_eq!(events[0], StreamEvent::Text("äö".to_owned()));
    assert_eq!(events[1], StreamEvent::Text("ü".to_owned()));
    let Some(StreamEvent::Finished(answer)) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(answer.stop, StopReason::ToolCalls);
    assert_eq!(answer.cost_micro_usd.map(|cost| cost.0), Some(20));
    let calls = &answer.message.calls;
    assert_eq!(
        (calls[0].id.as_str(), calls[0].arguments.as_str()),
        ("call_0", "{\"path\":\"a\"}")
    );
    assert_eq!(
        (calls[1].id.as_str(), calls[1].arguments.as_str()),
        ("x1", "{\"p")
    );
}

#[test]
fn each_failure_occurs_once_and_is_retried() {
    let text =
        "answers:\n- text: fine\n  failures: [{status: 429, retry_after: 0}, {status: 503}, {}]\n";
    let answer = ask(&model(text), &ChatRequest::prompt("a")).expect("an answer");
    assert_eq!((answer.message.text.as_str(), answer.attempts), ("fine", 4));
    let refused = "answers: [{text: x, failures: [{status: 401, message: no}]}]";
    let error = ask(&model(refused), &ChatRequest::prompt("a")).expect_err("refused");
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Auth, 1));
}

#[test]
fn a_cut_after_output_is_announced_and_retried() {
    let model = model("answers: [{text: abcdef, chunk: 2, failures: [{cut_after: 4}]}]");
    let events = model.stream(ChatRequest::prompt("a"), CancellationToken::new());
    let events: Vec<_> = block_on(events.collect());
    assert!(
        matches!(&events[2], Ok(StreamEvent::Retrying(retry)) if retry.attempts == 1),
        "{events:?}"
    );
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("no answer: {events:?}");
    };
    assert_eq!(
        (answer.message.text.as_str(), answer.attempts),
        ("abcdef", 2)
    );
}

#[test]
fn a_hanging_call_ends_when_the_caller_cancels_it() {
    let model = model("answers: [{text: a, failures: [{hang: true}]}]");
    let cancel = CancellationToken::new();
    let mut events = model.stream(ChatRequest::prompt("a"), cancel.clone());
    let error = block_on(async {
        let stop = async {
            tokio::task::yield_now().await;
            cancel.cancel();
        };
        futures_util::future::join(events.next(), stop).await.0
    });
    let error = error.expect("an event").expect_err("stopped");
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
}

#[test]
fn an_invalid_script_is_refused_with_its_position() {
    for (text, reported) in [
        ("answers: []", "no `answers`"),
        ("{}", "answers"),
        (
            "answers:\n- texts: a\n",
            "f.yaml:2:3: there is no field `texts`",
        ),
        ("answers:\n- when: '['\n", "is not a regular expression"),
        ("answers: [{text: a, chunk: 0}]", "at least 1"),
        (
            "answers: [{calls: [{name: a, arguments: {}, raw_arguments: x}]}]",
            "both",
        ),
        ("answers: [{calls: [{arguments: {}}]}]", "name"),
        ("answers: [{failures: [{status: lots}]}]", "f.yaml:1:"),
        (
            "price: {input: -1, output: 0}\nanswers: [{}]",
            "is not a valid number",
        ),
        ("at_end: never\nanswers: [{}]", "never"),
    ] {
        let name = "scripted/f.yaml".parse().expect("a name");
        let error = ScriptedModel::read(&name, "f.yaml", text)
            .err()
            .expect(text);
        assert!(error.to_string().contains(reported), "{text}: {error}");
        assert_eq!(error.kind(), &ErrorKind::MalformedFile);
    }
}
