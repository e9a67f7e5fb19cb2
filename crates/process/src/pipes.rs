//! The parent's side of a running command. One `poll` watches its captured streams, its deadline and its [`Cancel`], so
//! that no stream can block another.
//!
//! [`Cancel`]: crate::Cancel

use crate::cancel::Listener;
use crate::outcome::{CapturedStream, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek as _, SeekFrom, Write as _};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Size of the read buffer, in bytes, and maximum number of reads of one stream before the others are read.
const READ_BYTES: usize = 64 << 10;
const MAX_READS: usize = 16;

/// Callback for each chunk of output as it arrives.
pub(crate) type OutputCallback<'a> = &'a dyn Fn(Stream, &[u8]);

/// Captures a stream up to a limit, or forwards it.
pub(crate) struct Capture<'a> {
    reader: Option<PipeReader>,
    limit: u64,
    captured: CapturedStream,
    stream: Stream,
    tap: Option<OutputCallback<'a>>,
    /// Destination of a stream that is forwarded instead of captured.
    forward: Option<File>,
}

impl<'a> Capture<'a> {
    /// Captures the data of `reader`; `None` captures nothing.
    pub(crate) fn new(
        reader: Option<PipeReader>,
        limit: u64,
        stream: Stream,
        tap: Option<OutputCallback<'a>>,
        forward: Option<File>,
    ) -> io::Result<Self> {
        if let Some(reader) = &reader {
            fcntl_setfl(reader, OFlags::NONBLOCK)?;
        }
        Ok(Self {
            reader,
            limit,
            captured: CapturedStream::default(),
            stream,
            tap,
            forward,
        })
    }

    /// Reads the available data, at most `MAX_READS` times.
    fn pump(&mut self, buffer: &mut [u8]) {
        for _ in 0..MAX_READS {
            let Some(reader) = &self.reader else { return };
            match rustix::io::read(reader, &mut *buffer) {
                Ok(0) => self.reader = None,
                Ok(length) => self.store(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.reader = None,
            }
        }
    }

    fn store(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.forward {
            if file.write_all(bytes).is_err() {
                // The destination accepts no more data. Closing our end gives the command the same error as writing
                // there itself.
                self.reader = None;
            }
            return;
        }
        if let Some(tap) = self.tap {
            tap(self.stream, bytes);
        }
        let captured_length = self.captured.bytes.len();
        let room = usize::try_from(self.limit)
            .unwrap_or(usize::MAX)
            .saturating_sub(captured_length);
        let (head, excess) = bytes.split_at(room.min(bytes.len()));
        self.captured.bytes.extend_from_slice(head);
        self.captured.dropped += excess.len() as u64;
    }

    /// Reads the data still in the pipe and returns all captured data. Does not wait for processes that keep the other
    /// end open.
    pub(crate) fn finish(mut self) -> CapturedStream {
        let mut buffer = vec![0; READ_BYTES];
        // A pipe holds a few mebibytes at most, so this ends even if a process keeps writing.
        self.pump(&mut buffer);
        self.captured
    }
}

/// Copies our input to a confined command, which must not receive the file descriptor of the input.
pub(crate) struct InputFeed {
    source: File,
    /// Closed (`None`) at the end of the source.
    sink: Option<PipeWriter>,
    pending: Vec<u8>,
    /// Whether the command closed its end. The sink stays open, because it shows how many bytes were not read.
    is_closed: bool,
}

impl InputFeed {
    /// Copies from `source` to `sink`, which becomes non-blocking.
    pub(crate) fn new(source: File, sink: PipeWriter) -> io::Result<Self> {
        fcntl_setfl(&sink, OFlags::NONBLOCK)?;
        Ok(Self {
            source,
            sink: Some(sink),
            pending: Vec::new(),
            is_closed: false,
        })
    }

    /// The file to poll for the next step.
    fn watched(&self) -> Option<PollFd<'_>> {
        let sink = self.sink.as_ref().filter(|_| !self.is_closed)?;
        Some(if self.pending.is_empty() {
            PollFd::new(&self.source, PollFlags::IN)
        } else {
            PollFd::new(sink, PollFlags::OUT)
        })
    }

    /// Reads or writes once.
    fn step(&mut self, buffer: &mut [u8]) {
        if self.sink.is_none() {
            return;
        }
        if self.pending.is_empty() {
            match rustix::io::read(&self.source, &mut *buffer) {
                Ok(0) => self.sink = None,
                Ok(length) => self.pending.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => return,
                Err(_) => self.sink = None,
            }
        }
        let Some(sink) = self.sink.as_ref() else {
            return;
        };
        match rustix::io::write(sink, &self.pending) {
            Ok(length) => drop(self.pending.drain(..length)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The command stopped reading.
            Err(_) => self.is_closed = true,
        }
    }

    /// Moves the position of an input file back to the end of the data that the command read, for later readers of the
    /// file.
    pub(crate) fn rewind_unread_input(self) {
        let in_pipe = self.sink.as_ref().map(rustix::io::ioctl_fionread);
        let in_pipe = in_pipe.and_then(Result::ok).unwrap_or_default();
        let unread = i64::try_from(in_pipe + self.pending.len() as u64).unwrap_or_default();
        if unread > 0 {
            let _fails_for_pipes = (&self.source).seek(SeekFrom::Current(-unread));
        }
    }
}

/// Event that ends a wait.
#[derive(Debug)]
pub(crate) enum Event {
    /// The watched file is readable or was closed.
    Ready,
    /// The deadline expired.
    TimedOut,
    /// The caller cancelled the command.
    Cancelled,
    /// Signals to forward.
    Signals(Vec<i32>),
}

/// Streams, deadline and cancellation that are watched in addition to the command itself.
pub(crate) struct Watch<'a> {
    pub(crate) stdout: Capture<'a>,
    pub(crate) stderr: Capture<'a>,
    pub(crate) feed: Option<InputFeed>,
    listener: Listener,
    deadline: Option<Instant>,
    stopping: bool,
    buffer: Vec<u8>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        stdout: Capture<'a>,
        stderr: Capture<'a>,
        feed: Option<InputFeed>,
        listener: Listener,
        time: Option<Duration>,
    ) -> Self {
        Self {
            stdout,
            stderr,
            feed,
            listener,
            deadline: time.and_then(|time| Instant::now().checked_add(time)),
            stopping: false,
            buffer: vec![0; READ_BYTES],
        }
    }

    /// Waits only for the watched file from now on, for at most `grace`.
    pub(crate) fn stop_within(&mut self, grace: Duration) {
        self.stopping = true;
        self.deadline = Instant::now().checked_add(grace);
    }

    /// Waits for the next event, and reads captured output meanwhile.
    pub(crate) fn next(&mut self, watched: BorrowedFd<'_>) -> io::Result<Event> {
        loop {
            if !self.stopping && self.listener.is_cancelled() {
                return Ok(Event::Cancelled);
            }
            let left = self
                .deadline
                .map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Event::TimedOut);
            }
            let mut fds = vec![
                PollFd::from_borrowed_fd(watched, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            let has_feed = match self.feed.as_ref().and_then(InputFeed::watched) {
                Some(watched) => {
                    fds.push(watched);
                    true
                }
                None => false,
            };
            let readers = [&self.stdout.reader, &self.stderr.reader];
            fds.extend(
                readers
                    .into_iter()
                    .flatten()
                    .map(|reader| PollFd::new(reader, PollFlags::IN)),
            );
            let timeout = left.map(timespec);
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = !fds[0].revents().is_empty();
            let has_notification = !fds[1].revents().is_empty();
            let can_feed = has_feed && !fds[2].revents().is_empty();
            drop(fds);
            if can_feed && let Some(feed) = &mut self.feed {
                feed.step(&mut self.buffer);
            }
            self.stdout.pump(&mut self.buffer);
            self.stderr.pump(&mut self.buffer);
            if ready {
                return Ok(Event::Ready);
            }
            if has_notification {
                let signals = self.listener.take_signals();
                if !signals.is_empty() && !self.stopping {
                    return Ok(Event::Signals(signals));
                }
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
