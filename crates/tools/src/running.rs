//! Running a command for a tool, and what to say about how it ended.

use std::cell::RefCell;
use std::collections::VecDeque;
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
    let heard = RefCell::new((&mut call.output, &mut call.log, OutputBound::default()));
    let hear = |stream, bytes: &[u8]| {
        let (output, log, bound) = &mut *heard.borrow_mut();
        if stream == Stream::Errors && streams == Streams::ErrorsAsLog {
            log.push(bytes);
        } else {
            output.bytes(bound.admit(bytes));
        }
    };
    let finished = workspace.exec(command, &hear, cancel);
    let (output, _, bound) = heard.into_inner();
    output.bytes(&bound.finish());
    finished
}

/// Bytes of a command's output that are stored from its beginning, and from its end.
const STORED_HEAD: usize = 64 << 20;
const STORED_TAIL: usize = 256 << 10;

/// Bounds what is stored of a command's output: its beginning, and its end. The command itself goes on,
/// up to its time limit.
#[derive(Default)]
struct OutputBound {
    admitted: usize,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl OutputBound {
    /// The part of `bytes` that still belongs to the beginning.
    fn admit<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = STORED_HEAD.saturating_sub(self.admitted).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.admitted += head.len();
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(STORED_TAIL);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
        head
    }

    /// The end, after a note of what is missing.
    fn finish(self) -> Vec<u8> {
        let mut end = Vec::new();
        if self.left_out > 0 {
            let note = format!("\n[… {} bytes of output not stored …]\n", self.left_out);
            end.extend_from_slice(note.as_bytes());
        }
        end.extend(self.tail);
        end
    }
}

/// Whether a command ended well; otherwise why not.
pub fn check_ending(finished: &Finished, time: Duration) -> Result<(), Failure> {
    if let Some(limit) = finished.exceeded {
        let message = format!("it was stopped with all it had started: it exceeded {limit}");
        return Err(Failure::of(FailureKind::Tool, message).touching(Touched::Anything));
    }
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

#[cfg(test)]
mod tests {
    use super::{OutputBound, STORED_HEAD, STORED_TAIL};

    #[test]
    fn of_endless_output_the_beginning_and_the_end_are_stored() {
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
        let left_out = pieces * line.len() - STORED_HEAD - STORED_TAIL;
        let note = format!("\n[… {left_out} bytes of output not stored …]\n");
        assert!(end.starts_with(note.as_bytes()));
    }

    #[test]
    fn short_output_is_stored_as_it_is() {
        let mut bound = OutputBound::default();
        assert_eq!(bound.admit(b"short"), b"short");
        assert_eq!(bound.finish(), b"");
    }
}
