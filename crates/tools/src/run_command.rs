//! Runs commands for tools and describes how they ended.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use cleveragents_process::{CommandResult, Ending, Stream};

use crate::ports::{Command, PortError, Workspace};
use crate::tool::{Call, Failure, FailureKind, TouchedPaths};

/// Destination of the standard output and standard error of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Both are written to the output of the tool, interleaved.
    Together,
    /// Standard output is written to the output of the tool, standard error to its log.
    ErrorsAsLog,
}

/// Runs a command in the sandbox and appends its output to the output of the call.
pub fn exec(
    workspace: &dyn Workspace,
    command: &Command,
    streams: Streams,
    call: &mut Call<'_>,
) -> Result<CommandResult, PortError> {
    let cancel = call.cancel();
    let received = RefCell::new((&mut call.output, &mut call.log, OutputBound::default()));
    let on_output = |stream, bytes: &[u8]| {
        let (output, log, bound) = &mut *received.borrow_mut();
        if stream == Stream::Errors && streams == Streams::ErrorsAsLog {
            log.push(bytes);
        } else {
            output.bytes(bound.admit(bytes));
        }
    };
    let finished = workspace.exec(command, &on_output, cancel);
    let (output, _, bound) = received.into_inner();
    output.bytes(&bound.finish());
    finished
}

/// Maximum number of bytes to store from the start of a command's output.
const STORED_HEAD: usize = 64 << 20;
/// Maximum number of bytes to store from the end of a command's output.
const STORED_TAIL: usize = 256 << 10;

/// Limits the stored output of a command to its start and its end. The command itself keeps running
/// up to its time limit.
#[derive(Default)]
struct OutputBound {
    admitted: usize,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl OutputBound {
    /// Returns the part of `bytes` that belongs to the start, and buffers the other bytes for the end.
    fn admit<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let length = STORED_HEAD.saturating_sub(self.admitted).min(bytes.len());
        let (head, tail) = bytes.split_at(length);
        self.admitted += head.len();
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(STORED_TAIL);
        self.tail.drain(..excess);
        self.omitted += excess as u64;
        head
    }

    /// Returns the end of the output, after a note about omitted bytes.
    fn finish(self) -> Vec<u8> {
        let mut end = Vec::new();
        if self.omitted > 0 {
            let note = format!("\n[… {} bytes of output not stored …]\n", self.omitted);
            end.extend_from_slice(note.as_bytes());
        }
        end.extend(self.tail);
        end
    }
}

/// Returns a failure for a command that exceeded a limit, was stopped, or exited with a code other than 0.
pub fn check_ending(finished: &CommandResult, time: Duration) -> Result<(), Failure> {
    if let Some(limit) = finished.exceeded {
        let message = format!("stopped with its child processes: it exceeded {limit}");
        return Err(Failure::with_kind(FailureKind::Tool, message).touching(TouchedPaths::Anything));
    }
    let (kind, message) = match finished.ending {
        Ending::Exited(0) => return Ok(()),
        Ending::Exited(code) => (FailureKind::Tool, format!("exit code {code}")),
        Ending::Signalled(signal) => (FailureKind::Tool, format!("terminated by signal {signal}")),
        Ending::TimedOut => (
            FailureKind::Timeout,
            format!(
                "stopped with its child processes at the time limit of {} seconds",
                time.as_secs_f64()
            ),
        ),
        Ending::Cancelled => (FailureKind::Cancelled, "cancelled".to_owned()),
    };
    Err(Failure::with_kind(kind, message).touching(TouchedPaths::Anything))
}

#[cfg(test)]
mod tests {
    use super::{OutputBound, STORED_HEAD, STORED_TAIL};

    #[test]
    fn start_and_end_of_endless_output_are_stored() {
        let mut bound = OutputBound::default();
        let line = [b"y\n".repeat(1 << 15), b"z".to_vec()].concat();
        let mut stored = Vec::new();
        let pieces = 2048;
        for _ in 0..pieces {
            stored.extend_from_slice(bound.admit(&line));
        }
        assert_eq!(stored.len(), STORED_HEAD);
        let end = bound.finish();
        assert!(end.len() <= STORED_TAIL + 100, "{}", end.len());
        assert!(end.ends_with(b"y\nz"));
        let omitted = pieces * line.len() - STORED_HEAD - STORED_TAIL;
        let note = format!("\n[… {omitted} bytes of output not stored …]\n");
        assert!(end.starts_with(note.as_bytes()));
    }

    #[test]
    fn short_output_is_stored_unchanged() {
        let mut bound = OutputBound::default();
        assert_eq!(bound.admit(b"short"), b"short");
        assert_eq!(bound.finish(), b"");
    }
}
