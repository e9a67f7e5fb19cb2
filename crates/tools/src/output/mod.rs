//! [`Output`]: receives the output of a tool as a stream and redacts secrets. The head and the tail for the
//! model stay in memory; long output is also written to a file. Memory use is bounded.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::ports::Redact;

/// Default number of output bytes that a model is shown: about 10,000 tokens.
pub const DEFAULT_SHOWN_BYTES: usize = 40_000;

/// Maximum number of bytes to buffer without a line break before redacting them.
const MAX_PENDING: usize = 256 << 10;

/// The output of a tool.
pub struct Output<'a> {
    redactor: &'a dyn Redact,
    /// Bytes after the last line break, not yet redacted.
    pending: Vec<u8>,
    spool: SpooledOutput,
    write_error: Option<io::Error>,
}

impl<'a> Output<'a> {
    /// `shown_bytes` is the maximum number of bytes that the model is shown.
    pub(crate) fn new(redactor: &'a dyn Redact, shown_bytes: usize) -> Self {
        Self {
            redactor,
            pending: Vec::new(),
            spool: SpooledOutput::new(shown_bytes),
            write_error: None,
        }
    }

    /// Appends text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends a line.
    pub fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(MAX_PENDING) {
            self.pending.extend_from_slice(piece);
            self.flush();
        }
    }

    /// Number of bytes appended so far.
    pub fn len(&self) -> u64 {
        self.spool.total + self.pending.len() as u64
    }

    /// Maximum number of bytes that the model is shown.
    pub const fn shown_limit(&self) -> usize {
        self.spool.limit
    }

    /// Returns whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Redacts and stores the pending bytes that cannot contain the start of a secret: whole lines, or
    /// whole words of a very long line.
    fn flush(&mut self) {
        let break_at = |is_break: fn(&u8) -> bool| self.pending.iter().rposition(is_break);
        let end = match break_at(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if self.pending.len() < MAX_PENDING => return,
            None => break_at(u8::is_ascii_whitespace).map_or(self.pending.len(), |at| at + 1),
        };
        // Redact the whole text at once, because a secret may span several lines or words.
        let text = String::from_utf8_lossy(&self.pending[..end]);
        let end = end.saturating_sub(self.redactor.unfinished(&text));
        let unfinished = self.pending.split_off(end);
        let complete = std::mem::replace(&mut self.pending, unfinished);
        self.store(&complete);
    }

    fn store(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let redacted = self.redactor.redact(&text);
        // Bytes that are not UTF-8 stay unchanged when they contain no secret.
        let stored = if redacted == text {
            bytes
        } else {
            redacted.as_bytes()
        };
        if let Err(error) = self.spool.push(stored) {
            self.write_error.get_or_insert(error);
        }
    }

    /// Stores the pending bytes and returns the whole output.
    pub(crate) fn finish(mut self) -> io::Result<SpooledOutput> {
        let pending = std::mem::take(&mut self.pending);
        self.store(&pending);
        match self.write_error {
            Some(error) => Err(error),
            None => Ok(self.spool),
        }
    }
}

/// The log of a tool, separate from its output. Only the end is stored.
#[derive(Debug, Default)]
pub struct Log {
    bytes: VecDeque<u8>,
}

/// Maximum size of a stored log, in bytes.
const MAX_LOG_SIZE: usize = 64 << 10;

impl Log {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes
            .extend(&bytes[bytes.len().saturating_sub(MAX_LOG_SIZE)..]);
        let excess = self.bytes.len().saturating_sub(MAX_LOG_SIZE);
        self.bytes.drain(..excess);
    }

    /// The end of the log, redacted.
    pub(crate) fn text(&self, redactor: &dyn Redact) -> String {
        redactor
            .redact(&String::from_utf8_lossy(&self.end()))
            .into_owned()
    }

    /// The end of the log, without a truncated first line, which may contain half of a secret.
    fn end(&self) -> Vec<u8> {
        let (front, back) = self.bytes.as_slices();
        let bytes = [front, back].concat();
        let start = if bytes.len() < MAX_LOG_SIZE {
            0
        } else {
            bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(bytes.len(), |at| at + 1)
        };
        bytes[start..].to_vec()
    }
}

/// The whole output of a tool. Up to the limit, it is in memory. A longer output is in a file, and only its head and
/// tail stay in memory.
#[derive(Debug)]
pub struct SpooledOutput {
    limit: usize,
    /// The whole output, or only its head once the output exceeds the limit.
    head: Vec<u8>,
    /// The tail of the output; empty until the output exceeds the limit.
    tail: VecDeque<u8>,
    file: Option<File>,
    total: u64,
    count: LineCount,
}

/// The part of an output that a model is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownOutput {
    /// The start of the output; all of it when it is short.
    pub head: String,
    /// Number of omitted bytes after `head`.
    pub left_out: u64,
    /// The lines that contain the omitted bytes; `None` when nothing was omitted.
    pub left_out_lines: Option<LineRange>,
    /// The end of the output, when something was omitted.
    pub tail: String,
    /// Size of the whole output, in bytes.
    pub total: u64,
    /// Number of lines of the whole output; a last line without a line break counts.
    pub total_lines: u64,
}

/// A range of fully or partly omitted lines, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// First line.
    pub first: u64,
    /// Last line, inclusive.
    pub last: u64,
}

impl fmt::Display for LineRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(formatter, "line {}", self.first)
        } else {
            write!(formatter, "lines {}–{}", self.first, self.last)
        }
    }
}

impl ShownOutput {
    pub fn truncate(bytes: &[u8], limit: usize) -> Self {
        let mut count = LineCount::default();
        count.add(bytes);
        let total = bytes.len() as u64;
        if bytes.len() <= limit {
            return Self::whole(bytes, count);
        }
        let head = &bytes[..head_limit(limit)];
        let tail = &bytes[bytes.len() - tail_limit(limit)..];
        Self::cut(head, tail, total, count)
    }

    fn whole(bytes: &[u8], count: LineCount) -> Self {
        Self {
            head: String::from_utf8_lossy(bytes).into_owned(),
            left_out: 0,
            left_out_lines: None,
            tail: String::new(),
            total: bytes.len() as u64,
            total_lines: count.lines(),
        }
    }

    /// Cuts head and tail at line breaks, unless that would lose most of them.
    fn cut(head: &[u8], tail: &[u8], total: u64, count: LineCount) -> Self {
        let head_end = match head.iter().rposition(|byte| *byte == b'\n') {
            Some(at) if at >= head.len() / 2 => at + 1,
            // An incomplete UTF-8 character at the end would be shown as garbage.
            _ => complete_utf8(head),
        };
        let line_break = tail.iter().position(|byte| *byte == b'\n');
        let line_break = line_break.filter(|at| *at < tail.len() / 2);
        let tail_start = line_break.map_or_else(
            || {
                let continuation_bytes =
                    tail.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80);
                continuation_bytes.count()
            },
            |at| at + 1,
        );
        let (head, tail) = (&head[..head_end], &tail[tail_start..]);
        let (mut before, mut after) = (LineCount::default(), LineCount::default());
        before.add(head);
        after.add(tail);
        let first = before.ends + 1;
        // A line counts as omitted if only its end is shown.
        let is_partial = u64::from(line_break.is_none());
        let last = count.lines().saturating_sub(after.lines()) + is_partial;
        Self {
            head: String::from_utf8_lossy(head).into_owned(),
            left_out: total - (head.len() + tail.len()) as u64,
            left_out_lines: Some(LineRange {
                first,
                last: last.max(first),
            }),
            tail: String::from_utf8_lossy(tail).into_owned(),
            total,
            total_lines: count.lines(),
        }
    }
}

/// Counts lines incrementally.
#[derive(Debug, Clone, Copy, Default)]
struct LineCount {
    ends: u64,
    /// Whether the last byte is not a line break.
    is_in_line: bool,
}

impl LineCount {
    fn add(&mut self, bytes: &[u8]) {
        self.ends += (bytes.split(|byte| *byte == b'\n').count() - 1) as u64;
        if let Some(last) = bytes.last() {
            self.is_in_line = *last != b'\n';
        }
    }

    fn lines(self) -> u64 {
        self.ends + u64::from(self.is_in_line)
    }
}

/// The head gets a quarter of the limit, because errors and results are at the end.
const fn head_limit(limit: usize) -> usize {
    limit / 4
}

const fn tail_limit(limit: usize) -> usize {
    limit - head_limit(limit)
}

impl SpooledOutput {
    /// An empty spool; `limit` is the maximum number of bytes that the model is shown.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            file: None,
            total: 0,
            count: LineCount {
                ends: 0,
                is_in_line: false,
            },
        }
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.total += bytes.len() as u64;
        self.count.add(bytes);
        if self.file.is_none() {
            if self.head.len() + bytes.len() <= self.limit {
                self.head.extend_from_slice(bytes);
                return Ok(());
            }
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.head)?;
            self.file = Some(file);
            let end = self
                .head
                .split_off(self.head.len().min(head_limit(self.limit)));
            self.tail = end.into();
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        let room = head_limit(self.limit).saturating_sub(self.head.len());
        // Once the tail is in use, `head` must not grow.
        let room = if self.tail.is_empty() { room } else { 0 };
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(tail_limit(self.limit));
        self.tail.drain(..excess);
        Ok(())
    }

    /// Size in bytes.
    pub const fn len(&self) -> u64 {
        self.total
    }

    /// Returns whether the output is empty.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Reads the output from its start.
    pub fn reader(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match &mut self.file {
            Some(file) => {
                file.seek(SeekFrom::Start(0))?;
                Ok(Box::new(file))
            }
            None => Ok(Box::new(self.head.as_slice())),
        }
    }

    /// All bytes, or `None` when there are more than `limit`.
    pub fn bytes_up_to(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if self.total > limit {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.reader()?.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// The part that a model is shown.
    pub fn shown(&self) -> ShownOutput {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        if self.file.is_none() || self.total == (self.head.len() + tail.len()) as u64 {
            let whole = [self.head.as_slice(), &tail].concat();
            return ShownOutput::whole(&whole, self.count);
        }
        ShownOutput::cut(&self.head, &tail, self.total, self.count)
    }
}

/// Number of bytes up to the last complete UTF-8 character.
fn complete_utf8(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests;
