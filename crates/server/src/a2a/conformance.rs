//! `builtin/a2a-conformance`: the actor that the official A2A conformance kit expects. The prefix of a message id
//! selects its script. It is available only in a server that was started for the kit.

use std::time::{Duration, Instant};

use cleveragents_a2a::{Artifact, Part, PartContent};
use cleveragents_application::ArtifactChunk;
use cleveragents_domain::TaskState;
use serde_json::json;

use super::run::TaskRun;
use crate::failure::Failure;

/// The time unit of the kit.
const TIME_UNIT: Duration = Duration::from_secs(2);

/// Poll interval for a cancellation during a pause.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

enum Step {
    State(TaskState, Option<&'static str>),
    Text(&'static str),
    File,
    FileUrl,
    Data,
    /// A chunk of one artifact, with flags for the first and for the last chunk.
    Piece(&'static str, bool, bool),
    Pause(u32),
}

use Step::{Data, File, FileUrl, Pause, Piece, State, Text};
use TaskState::{AuthRequired, Completed, InputRequired, Rejected};

const DONE: Step = State(Completed, None);

/// Scripts by the prefix of a message id; the first match counts.
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

/// The answer to a message that does not start a task.
pub(super) fn direct_response(id: &str) -> Option<&'static str> {
    id.starts_with("tck-message-response")
        .then_some("Direct message response")
}

/// Runs the script that the message id selects.
pub(super) fn run_script(run: &TaskRun<'_>, id: &str) -> Result<(), Failure> {
    let script = SCRIPTS.iter().find(|(prefix, _)| id.starts_with(prefix));
    let Some((_, steps)) = script else {
        let shortened: String = id.chars().take(100).collect();
        let text = format!("Unhandled messageId prefix: {shortened}");
        run.change_state(Completed, Some(&text))?;
        return Ok(());
    };
    for step in *steps {
        match step {
            State(state, text) => {
                run.change_state(*state, *text)?;
            }
            Text(text) => run.add_artifact(complete_artifact(Part::text(*text)), None)?,
            File => {
                let file = PartContent::Raw("dGNr".to_owned());
                run.add_artifact(complete_artifact(with_filename(file)), None)?;
            }
            FileUrl => {
                let file = PartContent::Url("https://example.com/output.txt".to_owned());
                run.add_artifact(complete_artifact(with_filename(file)), None)?;
            }
            Data => {
                let data = Part::data(json!({"key": "value", "count": 42}));
                run.add_artifact(complete_artifact(data), None)?;
            }
            Piece(text, is_first, is_last) => {
                let mut chunk = complete_artifact(Part::text(*text));
                (chunk.is_appended, chunk.is_last) = (!is_first, *is_last);
                run.add_artifact(chunk, None)?;
            }
            Pause(units) => pause(run, *units),
        }
        if run.cancel.is_cancelled() {
            break;
        }
    }
    Ok(())
}

fn complete_artifact(part: Part) -> ArtifactChunk {
    ArtifactChunk::whole(Artifact {
        artifact_id: "artifact-1".to_owned(),
        name: None,
        parts: vec![part],
    })
}

fn with_filename(content: PartContent) -> Part {
    Part {
        filename: Some("output.txt".to_owned()),
        media_type: Some("text/plain".to_owned()),
        ..Part::new(content)
    }
}

fn pause(run: &TaskRun<'_>, units: u32) {
    let end = Instant::now() + TIME_UNIT * units;
    while Instant::now() < end && !run.cancel.is_cancelled() {
        std::thread::sleep(POLL_INTERVAL);
    }
}
