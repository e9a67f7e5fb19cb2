//! Running a command for a tool, and what to say about how it ended.

use std::cell::RefCell;
use std::time::Duration;

use cleveragents_process::{Ending, Finished, Stream};

use crate::ports::{Command, PortError, Workspace};
use crate::tool::{Call, Failure, FailureKind, Touched};

/// Where the two streams of a command go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Both are its output, as they come.
    Together,
    /// Standard error is its log.
    ErrorsAsLog,
}

/// Runs a command in the sandbox and takes in what it prints.
pub fn exec(
    workspace: &dyn Workspace,
    command: &Command,
    streams: Streams,
    call: &mut Call<'_>,
) -> Result<Finished, PortError> {
    let cancel = call.cancel();
    let heard = RefCell::new((&mut call.output, &mut call.log));
    let hear = |stream, bytes: &[u8]| {
        let (output, log) = &mut *heard.borrow_mut();
        if stream == Stream::Errors && streams == Streams::ErrorsAsLog {
            log.push(bytes);
        } else {
            output.bytes(bytes);
        }
    };
    workspace.exec(command, &hear, cancel)
}

/// Whether a command ended well; otherwise why not.
pub fn check_ending(finished: &Finished, time: Duration) -> Result<(), Failure> {
    let (kind, message) = match finished.ending {
        Ending::Exited(0) => return Ok(()),
        Ending::Exited(code) => (FailureKind::Tool, format!("it ended with exit code {code}")),
        Ending::Signalled(signal) => (FailureKind::Tool, format!("signal {signal} ended it")),
        Ending::TimedOut => (
            FailureKind::Timeout,
            format!(
                "it was stopped with all it had started at its time limit of {} seconds",
                time.as_secs_f64()
            ),
        ),
        Ending::Cancelled => (FailureKind::Cancelled, "it was cancelled".to_owned()),
    };
    Err(Failure::of(kind, message).touching(Touched::Anything))
}
