//! [`Output`]: what a tool says, taken in as it comes. Secrets are taken out on the way; the
//! beginning and the end are kept for the model, everything goes to a file once it is long. Memory
//! stays bounded whatever a tool says.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::ports::Redact;

/// So much of an output a model is shown, unless something else is asked for.
pub const DEFAULT_SHOWN_BYTES: usize = 64 << 10;

/// A piece of output without a line break is looked at for secrets at this length.
const LONGEST_PIECE: usize = 256 << 10;

/// What a tool says.
pub struct Output<'a> {
    redactor: &'a dyn Redact,
    /// Not looked at yet: what came after the last line break.
    pending: Vec<u8>,
    spool: Spool,
    failed: Option<io::Error>,
}

impl<'a> Output<'a> {
    /// Shows at most so many bytes of what comes.
    pub(crate) fn new(redactor: &'a dyn Redact, shown_bytes: usize) -> Self {
        Self {
            redactor,
            pending: Vec::new(),
            spool: Spool::new(shown_bytes),
            failed: None,
        }
    }

    /// Takes in some text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Takes in a line.
    pub fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Takes in some bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(LONGEST_PIECE) {
            self.pending.extend_from_slice(piece);
            self.pass_on();
        }
    }

    /// How many bytes were taken in.
    pub fn len(&self) -> u64 {
        self.spool.total + self.pending.len() as u64
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes on what cannot hold the beginning of a secret: whole lines, or whole words of a very long
    /// line.
    fn pass_on(&mut self) {
        let break_at = |wanted: fn(&u8) -> bool| self.pending.iter().rposition(wanted);
        let end = match break_at(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if self.pending.len() < LONGEST_PIECE => return,
            None => break_at(u8::is_ascii_whitespace).map_or(self.pending.len(), |at| at + 1),
        };
        // A secret may have several lines or words.
        let text = String::from_utf8_lossy(&self.pending[..end]);
        let end = end.saturating_sub(self.redactor.unfinished(&text));
        let rest = self.pending.split_off(end);
        let whole = std::mem::replace(&mut self.pending, rest);
        self.keep(&whole);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let redacted = self.redactor.redact(&text);
        // Bytes that are no text stay as they are when there is nothing to hide.
        let kept = if redacted == text {
            bytes
        } else {
            redacted.as_bytes()
        };
        if let Err(error) = self.spool.push(kept) {
            self.failed.get_or_insert(error);
        }
    }

    /// Everything that was said.
    pub(crate) fn finish(mut self) -> io::Result<Spool> {
        let rest = std::mem::take(&mut self.pending);
        self.keep(&rest);
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.spool),
        }
    }
}

/// What a tool logs beside its answer: its end is kept.
#[derive(Debug, Default)]
pub struct Log {
    bytes: VecDeque<u8>,
}

/// So much of a log is kept.
const LOG_KEPT: usize = 64 << 10;

impl Log {
    /// Takes in some bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes
            .extend(&bytes[bytes.len().saturating_sub(LOG_KEPT)..]);
        let excess = self.bytes.len().saturating_sub(LOG_KEPT);
        self.bytes.drain(..excess);
    }

    /// Its end, without secrets.
    pub(crate) fn text(&self, redactor: &dyn Redact) -> String {
        redactor
            .redact(&String::from_utf8_lossy(&self.end()))
            .into_owned()
    }

    /// Its end, without a first line that was cut: it may hold half of a secret.
    fn end(&self) -> Vec<u8> {
        let (front, back) = self.bytes.as_slices();
        let bytes = [front, back].concat();
        let start = if bytes.len() < LOG_KEPT {
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

/// A whole output: in memory while it is short, in a file when it is long.
#[derive(Debug)]
pub struct Spool {
    limit: usize,
    /// Everything up to the limit; afterwards its first part.
    head: Vec<u8>,
    /// The end, once there is more than the limit.
    tail: VecDeque<u8>,
    file: Option<File>,
    total: u64,
}

/// What a model is shown of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The beginning; everything when it is short.
    pub head: String,
    /// How many bytes were left out after it.
    pub left_out: u64,
    /// The end, when something was left out.
    pub tail: String,
    /// How many bytes the whole has.
    pub total: u64,
}

impl Spool {
    /// An empty one, of which so many bytes are shown.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            file: None,
            total: 0,
        }
    }

    fn tail_limit(&self) -> usize {
        self.limit / 4
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.total += bytes.len() as u64;
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
                .split_off(self.head.len().min(self.limit - self.tail_limit()));
            self.tail = end.into();
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        let room = (self.limit - self.tail_limit()).saturating_sub(self.head.len());
        // Once the tail has begun, nothing may come before it.
        let room = if self.tail.is_empty() { room } else { 0 };
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(self.tail_limit());
        self.tail.drain(..excess);
        Ok(())
    }

    /// How many bytes it has.
    pub const fn len(&self) -> u64 {
        self.total
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Reads it from the beginning.
    pub fn reader(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match &mut self.file {
            Some(file) => {
                file.seek(SeekFrom::Start(0))?;
                Ok(Box::new(file))
            }
            None => Ok(Box::new(self.head.as_slice())),
        }
    }

    /// All of it, unless it is longer than so many bytes.
    pub fn bytes_up_to(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if self.total > limit {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.reader()?.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// What a model is shown of it.
    pub fn shown(&self) -> Shown {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        if self.file.is_none() || self.total == (self.head.len() + tail.len()) as u64 {
            let whole = [self.head.as_slice(), &tail].concat();
            return Shown {
                head: String::from_utf8_lossy(&whole).into_owned(),
                left_out: 0,
                tail: String::new(),
                total: self.total,
            };
        }
        // Half a letter at a cut would be shown as garbage.
        let head = &self.head[..whole_letters(&self.head)];
        let tail = &tail[tail
            .iter()
            .take(3)
            .take_while(|byte| *byte & 0xC0 == 0x80)
            .count()..];
        Shown {
            head: String::from_utf8_lossy(head).into_owned(),
            left_out: self.total - (head.len() + tail.len()) as u64,
            tail: String::from_utf8_lossy(tail).into_owned(),
            total: self.total,
        }
    }
}

/// How many bytes remain without a letter that is cut off at the end.
fn whole_letters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_PIECE, Log, Output};
    use crate::ports::Redact;
    use proptest::prelude::*;
    use std::borrow::Cow;

    struct Known;
    impl Redact for Known {
        fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
            if text.contains("sk-secret") {
                text.replace("sk-secret", "[REDACTED]").into()
            } else {
                text.into()
            }
        }
    }

    fn whole(output: Output<'_>) -> Vec<u8> {
        let mut spool = output.finish().expect("kept");
        spool.bytes_up_to(u64::MAX).expect("read").expect("all")
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_taken_out() {
        let mut output = Output::new(&Known, 100);
        for piece in ["a sk-", "sec", "ret b"] {
            output.text(piece);
        }
        assert_eq!(whole(output), b"a [REDACTED] b");
    }

    #[test]
    fn a_secret_of_several_lines_is_taken_out() {
        struct Lines;
        impl Redact for Lines {
            fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
                text.replace("one\ntwo\n", "[REDACTED]").into()
            }
            fn unfinished(&self, text: &str) -> usize {
                if text.ends_with("one\n") { 4 } else { 0 }
            }
        }
        let mut output = Output::new(&Lines, 100);
        for line in ["first", "one", "two", "one"] {
            output.line(line);
        }
        assert_eq!(whole(output), b"first\n[REDACTED]one\n");
    }

    #[test]
    fn the_end_of_a_log_is_kept_without_half_a_secret() {
        let mut log = Log::default();
        log.push(b"first sk-secret\n");
        assert_eq!(log.text(&Known), "first [REDACTED]\n");
        for _ in 0..8_000 {
            log.push(b"sk-secret line\n");
        }
        let text = log.text(&Known);
        assert!(
            text.len() <= 2 * super::LOG_KEPT && !text.contains("secret"),
            "{text}"
        );
        assert!(text.starts_with("[REDACTED] line\n") && text.ends_with(" line\n"));
    }

    #[test]
    fn a_secret_is_found_in_a_line_of_any_length() {
        let mut output = Output::new(&Known, 100);
        for _ in 0..3 {
            output.text(&"x ".repeat(LONGEST_PIECE / 2 - 2));
            output.text("sk-sec");
            output.text("ret ");
        }
        let text = String::from_utf8(whole(output)).expect("text");
        assert_eq!(text.matches("[REDACTED]").count(), 3);
        assert!(!text.contains("sk-sec"));
    }

    #[test]
    fn fifty_megabytes_leave_head_and_tail_in_memory_and_all_in_the_file() {
        let mut output = Output::new(&Known, 1_000);
        let line = "0123456789".repeat(100) + "\n";
        for _ in 0..50_000 {
            output.text(&line);
        }
        output.text("the end\n");
        let mut spool = output.finish().expect("kept");
        assert_eq!(spool.len(), 50_050_008);
        assert!(spool.head.capacity() + spool.tail.capacity() < 10_000);
        let shown = spool.shown();
        assert!(shown.head.starts_with("0123") && shown.tail.ends_with("the end\n"));
        assert_eq!(shown.head.len() + shown.tail.len(), 1_000);
        assert_eq!(shown.left_out, 50_049_008);
        let mut read = 0;
        std::io::copy(&mut spool.reader().expect("a reader"), &mut std::io::sink())
            .map(|bytes| read = bytes)
            .expect("read");
        assert_eq!(read, 50_050_008);
    }

    #[test]
    fn letters_are_never_cut_in_two() {
        let mut output = Output::new(&Known, 101);
        output.text(&"é".repeat(500));
        let shown = output.finish().expect("kept").shown();
        assert!(!shown.head.contains('\u{fffd}') && !shown.tail.contains('\u{fffd}'));
        assert_eq!(
            shown.left_out + (shown.head.len() + shown.tail.len()) as u64,
            1_000
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_changed(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
            limit in 4_usize..200,
        ) {
            let mut output = Output::new(&Known, limit);
            for piece in &pieces {
                output.bytes(piece);
            }
            let all = pieces.concat();
            prop_assert_eq!(output.len(), all.len() as u64);
            let mut spool = output.finish().expect("kept");
            prop_assert_eq!(spool.bytes_up_to(u64::MAX).expect("read").expect("all"), all.clone());
            let shown = spool.shown();
            prop_assert_eq!(shown.total, all.len() as u64);
            if all.len() <= limit {
                prop_assert_eq!(shown.head, String::from_utf8_lossy(&all));
            }
        }
    }
}
