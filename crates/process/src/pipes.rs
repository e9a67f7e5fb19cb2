//! The parent's side of a running command: its captured streams, its deadline and its [`Cancel`], watched together by
//! one `poll`, so that no stream can block another.
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

/// Bytes per read, and maximum number of reads before the other streams have their turn.
const CHUNK: usize = 64 << 10;
const TURNS: usize = 16;

/// Callback for each piece of output as it arrives.
pub(crate) type OutputCallback<'a> = &'a dyn Fn(Stream, &[u8]);

/// A stream that is kept up to a limit.
pub(crate) struct Capture<'a> {
    reader: Option<PipeReader>,
    limit: u64,
    captured: CapturedStream,
    stream: Stream,
    tap: Option<OutputCallback<'a>>,
    /// Destination of the stream, instead of keeping it.
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

    /// Reads the available data, until there is none or it is the others' turn.
    fn pump(&mut self, buffer: &mut [u8]) {
        for _ in 0..TURNS {
            let Some(reader) = &self.reader else { return };
            match rustix::io::read(reader, &mut *buffer) {
                Ok(0) => self.reader = None,
                Ok(length) => self.keep(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.reader = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.forward {
            if file.write_all(bytes).is_err() {
                // As if the command had written there itself: the destination accepts no more.
                self.reader = None;
            }
            return;
        }
        if let Some(tap) = self.tap {
            tap(self.stream, bytes);
        }
        let kept = self.captured.bytes.len();
        let room = usize::try_from(self.limit)
            .unwrap_or(usize::MAX)
            .saturating_sub(kept);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.captured.bytes.extend_from_slice(head);
        self.captured.dropped += rest.len() as u64;
    }

    /// Reads what is still in the pipe and returns everything. Does not wait for processes that keep the other end
    /// open.
    pub(crate) fn finish(mut self) -> CapturedStream {
        let mut buffer = vec![0; CHUNK];
        // A pipe holds a few mebibytes at most, so this ends even if a process keeps writing.
        self.pump(&mut buffer);
        self.captured
    }
}

/// Copies our input to a confined command, which must not have the file itself.
pub(crate) struct InputFeed {
    source: File,
    /// Closed when there is nothing more to read.
    sink: Option<PipeWriter>,
    pending: Vec<u8>,
    /// Whether the command stopped reading. The sink stays open, because it shows how much was not read.
    is_over: bool,
}

impl InputFeed {
    /// Reads from `source`, writes to `sink`.
    pub(crate) fn new(source: File, sink: PipeWriter) -> io::Result<Self> {
        fcntl_setfl(&sink, OFlags::NONBLOCK)?;
        Ok(Self {
            source,
            sink: Some(sink),
            pending: Vec::new(),
            is_over: false,
        })
    }

    /// The file to poll for the next step.
    fn watched(&self) -> Option<PollFd<'_>> {
        let sink = self.sink.as_ref().filter(|_| !self.is_over)?;
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
            Err(_) => self.is_over = true,
        }
    }

    /// Resets the position of an input file to what the command actually read, for later readers of the file.
    pub(crate) fn give_back(self) {
        let in_pipe = self.sink.as_ref().map(rustix::io::ioctl_fionread);
        let in_pipe = in_pipe.and_then(Result::ok).unwrap_or_default();
        let unread = i64::try_from(in_pipe + self.pending.len() as u64).unwrap_or_default();
        if unread > 0 {
            let _where_it_has_a_position = (&self.source).seek(SeekFrom::Current(-unread));
        }
    }
}

/// Event that ends a wait.
#[derive(Debug)]
pub(crate) enum Event {
    /// The watched file has something to read, or was closed.
    Ready,
    /// The deadline expired.
    TimedOut,
    /// The caller cancelled.
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
            buffer: vec![0; CHUNK],
        }
    }

    /// From now on only the watched file counts, for at most `grace`.
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
                    .map(|one| PollFd::new(one, PollFlags::IN)),
            );
            let timeout = left.map(timespec);
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = !fds[0].revents().is_empty();
            let rung = !fds[1].revents().is_empty();
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
            if rung {
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
