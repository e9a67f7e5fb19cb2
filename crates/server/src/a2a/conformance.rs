//! `builtin/a2a-conformance`: the actor that the official conformance kit of A2A expects, which says what it wants by
//! the beginning of a message's id. It answers only in a server that was started for it.

use std::time::{Duration, Instant};

use cleveragents_domain::TaskState;
use serde_json::{Value, json};

use super::run::Work;
use super::tasks::Chunk;
use crate::program::Failure;

/// How the kit counts time.
const MOMENT: Duration = Duration::from_secs(2);

/// How often is looked whether a pause is to end early.
const STEP: Duration = Duration::from_millis(20);

enum Step {
    State(TaskState, Option<&'static str>),
    Text(&'static str),
    File,
    FileUrl,
    Data,
    /// A piece of one result, and whether it is the first and the last.
    Piece(&'static str, bool, bool),
    Pause(u32),
}

use Step::{Data, File, FileUrl, Pause, Piece, State, Text};
use TaskState::{AuthRequired, Completed, InputRequired, Rejected};

const DONE: Step = State(Completed, None);

/// What is done by the beginning of the id; the first that fits.
static SCRIPTS: &[(&str, &[Step])] = &[
    (
        "tck-complete-task",
        &[State(Completed, Some("Hello from TCK"))],
    ),
    (
        "tck-delayed-complete",
        &[Pause(1), State(Completed, Some("Done after delay"))],
    ),
    ("tck-artifact-text", &[Text("Generated text content"), DONE]),
    ("tck-artifact-file-url", &[FileUrl, DONE]),
    ("tck-artifact-file", &[File, DONE]),
    ("tck-artifact-data", &[Data, DONE]),
    (
        "tck-input-required",
        &[State(InputRequired, Some("Input is required"))],
    ),
    (
        "tck-auth-required",
        &[State(AuthRequired, Some("Authentication is required"))],
    ),
    ("tck-reject-task", &[State(Rejected, Some("rejected"))]),
    ("tck-stream-001", &[Text("Stream hello from TCK"), DONE]),
    ("tck-stream-002", &[DONE]),
    ("tck-stream-003", &[Text("Stream task lifecycle"), DONE]),
    ("tck-stream-ordering-001", &[Text("Ordered output"), DONE]),
    (
        "tck-stream-artifact-text",
        &[Text("Streamed text content"), DONE],
    ),
    ("tck-stream-artifact-file", &[File, DONE]),
    (
        "tck-stream-artifact-chunked",
        &[
            Piece("chunk-1 ", true, false),
            Piece("chunk-2", false, true),
            DONE,
        ],
    ),
    ("test-resubscribe-message-id", &[Pause(2), DONE]),
];

/// The answer to a message that begins no task.
pub(super) fn message(id: &str) -> Option<&'static str> {
    id.starts_with("tck-message-response")
        .then_some("Direct message response")
}

/// Does what the id of a message asks for.
pub(super) fn work(work: &Work<'_>, id: &str) -> Result<(), Failure> {
    let script = SCRIPTS.iter().find(|(prefix, _)| id.starts_with(prefix));
    let Some((_, steps)) = script else {
        let shown: String = id.chars().take(100).collect();
        let text = format!("Unhandled messageId prefix: {shown}");
        work.become_state(Completed, Some(&text))?;
        return Ok(());
    };
    for step in *steps {
        match step {
            State(state, text) => {
                work.become_state(*state, *text)?;
            }
            Text(text) => work.add(whole(&json!({"text": text})), None)?,
            File => {
                let part =
                    json!({"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"});
                work.add(whole(&part), None)?;
            }
            FileUrl => {
                let part = json!({
                    "url": "https://example.com/output.txt", "filename": "output.txt",
                    "mediaType": "text/plain",
                });
                work.add(whole(&part), None)?;
            }
            Data => work.add(whole(&json!({"data": {"key": "value", "count": 42}})), None)?,
            Piece(text, is_first, is_last) => {
                let mut chunk = whole(&json!({"text": text}));
                (chunk.is_appended, chunk.is_last) = (!is_first, *is_last);
                work.add(chunk, None)?;
            }
            Pause(moments) => pause(work, *moments),
        }
        if work.cancel.is_cancelled() {
            break;
        }
    }
    Ok(())
}

fn whole(part: &Value) -> Chunk {
    Chunk::whole(json!({"artifactId": "artifact-1", "parts": [part]}))
}

fn pause(work: &Work<'_>, moments: u32) {
    let end = Instant::now() + MOMENT * moments;
    while Instant::now() < end && !work.cancel.is_cancelled() {
        std::thread::sleep(STEP);
    }
}
