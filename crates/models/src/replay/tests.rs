//! Tests of recording and replaying.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{Recorder, Replay};
use crate::error::{ErrorKind, ModelError};
use crate::event::StreamEvent;
use crate::message::ChatMessage;
use crate::model::Model;
use crate::redact::Redactor;
use crate::request::ChatRequest;
use crate::secret::Secret;
use crate::{Catalogue, CatalogueOptions};

fn scripted(folder: &Path, script: &str) -> Arc<dyn Model> {
    std::fs::write(folder.join("s.yaml"), script).expect("a file");
    let catalogue = Catalogue::new(CatalogueOptions::new(Arc::new(|_: &str| None), folder));
    let name = "scripted/s.yaml".parse().expect("a name");
    catalogue
        .expect("a catalogue")
        .open(&name)
        .expect("a model")
}

fn ask(model: &dyn Model, request: &ChatRequest) -> Vec<Result<StreamEvent, ModelError>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let events = model.stream(request.clone(), CancellationToken::new());
    runtime.expect("a runtime").block_on(events.collect())
}

fn replay(text: &str) -> Result<Replay, ModelError> {
    let name = "replay/r.jsonl".parse().expect("a name");
    Replay::read(&name, "r.jsonl", text, Redactor::default())
}

const SCRIPT: &str = "answers:
- {text: one two three, calls: [{name: t, raw_arguments: '{'}]}
- {text: x, failures: [{status: 400, message: 'no, sk-abcdefghijklmnopqrstuv'}]}
";

#[test]
fn a_recording_is_replayed_event_by_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let redactor = Redactor::new(["my-own-password", "sk-abcdefghijklmnopqrstuv"].map(Secret::new));
    let recorder = Recorder::new(scripted(folder.path(), SCRIPT), &path, redactor);
    let first = ChatRequest::prompt("hello my-own-password at 2026-01-01T00:00:00Z");
    let events = ask(&recorder, &first);
    let mut second = first.clone();
    second
        .messages
        .push(ChatMessage::Assistant(crate::AssistantMessage::default()).into());
    second.messages.push(ChatMessage::user("again").into());
    let failed = ask(&recorder, &second);
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert!(
        !text.contains("my-own-password") && !text.contains("sk-abcdef"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2);

    let model = replay(&text).expect("a recording");
    let mut later = first.clone();
    later.messages = vec![ChatMessage::user("hello [REDACTED] at 2027-05-05T11:00:00.5Z").into()];
    // Streaming does not change the digest of a request.
    later.stream = false;
    assert_eq!(ask(&model, &later), events);
    second.messages[0] = later.messages[0].clone();
    let replayed = ask(&model, &second);
    let (old, new) = (failed.last().expect("one"), replayed.last());
    let (old, new) = (old.as_ref().expect_err("it failed"), new.expect("one"));
    let new = new.as_ref().expect_err("it fails again");
    assert_eq!(new.kind(), old.kind());
    assert!(new.message().contains("[REDACTED]"), "{new}");
}

#[test]
fn an_unrecorded_request_has_its_own_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let recorder = Recorder::new(scripted(folder.path(), SCRIPT), &path, Redactor::default());
    ask(&recorder, &ChatRequest::prompt("hello"));
    let model = replay(&std::fs::read_to_string(&path).expect("a recording")).expect("one");
    let mut other = ChatRequest::prompt("hello");
    other.temperature = Some(0.5);
    for (request, reported) in [
        (ChatRequest::prompt("goodbye"), "message 1"),
        (other, "`temperature`: it was null, and is 0.5"),
    ] {
        let events = ask(&model, &request);
        let error = events[0].as_ref().expect_err("not recorded");
        assert_eq!(error.kind(), &ErrorKind::NotRecorded);
        assert!(error.to_string().contains(reported), "{error}");
    }
}

#[test]
fn an_incomplete_line_is_skipped_and_ended_by_the_next_append() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let recorder = Recorder::new(scripted(folder.path(), SCRIPT), &path, Redactor::default());
    ask(&recorder, &ChatRequest::prompt("hello"));
    let complete = std::fs::read_to_string(&path).expect("a recording");
    let cut = format!("{complete}{}", &complete[..complete.len() / 2]);
    assert!(replay(&cut).is_ok());
    std::fs::write(&path, &cut).expect("a file");
    ask(&recorder, &ChatRequest::prompt("hello"));
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert_eq!(text.lines().count(), 3);
    let error = replay(&text)
        .err()
        .expect("the incomplete line now has a line end");
    assert!(error.to_string().starts_with("r.jsonl:2"), "{error}");
}

#[test]
fn invalid_recordings_are_refused() {
    for (text, reported) in [
        ("", "no exchange"),
        ("{}\n", "r.jsonl:1"),
        (
            "{\"version\":2,\"digest\":\"\",\"request\":{},\"events\":[]}\n",
            "newer",
        ),
    ] {
        let error = replay(text).err().expect(text);
        assert!(error.to_string().contains(reported), "{error}");
    }
}

/// The default output limit depends on the model, and a recording is replayed under a model name of
/// its own.
#[test]
fn a_recording_answers_for_every_output_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let model = scripted(folder.path(), SCRIPT);
    let recorder = Recorder::new(model, &path, Redactor::default());
    let mut request = ChatRequest::prompt("hello");
    request.max_output_tokens = Some(32_000);
    assert!(ask(&recorder, &request).iter().all(Result::is_ok));
    let text = std::fs::read_to_string(&path).expect("a recording");
    // The format of older versions, with a different digest.
    let mut old: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    old["request"]["max_output_tokens"] = 8192.into();
    old["digest"] = "sha256:00".into();
    request.max_output_tokens = Some(8_192);
    for text in [text, format!("{old}\n")] {
        let events = ask(&replay(&text).expect("a recording"), &request);
        assert!(events.iter().all(Result::is_ok), "{events:?}");
    }
}
