//! Assembles lines of input into messages, at a terminal and from a pipe.
//!
//! A line is a message. It continues on the next line if it ends in `\`, and up to the closing
//! line if it opens a block with ```` ``` ````. The fences are removed if the block is the whole
//! message and has no language.

use std::io::{BufRead as _, Read as _};

use cleveragents_application::SessionError;
use cleveragents_domain::{Code, ContentError};

use crate::output::CommandError;

const FENCE: &str = "```";

/// The line that ends the input of `/multi`.
pub(super) const END: &str = "/end";

/// Reading mode of the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Usual,
    /// The message ends with a line `/end`.
    Multi,
}

/// Result of reading one message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Text(String),
    /// A message, and a warning that it was not added to the line history.
    Kept(String, &'static str),
    /// Ctrl-C at an empty prompt.
    Interrupted,
    End,
}

/// Whether the text is a complete message.
pub(super) fn is_complete(text: &str, reading: Reading) -> bool {
    if reading == Reading::Multi {
        return text
            .lines()
            .next_back()
            .is_some_and(|line| line.trim() == END);
    }
    let mut is_open = false;
    let mut continues = false;
    for line in text.split('\n') {
        continues = !is_open && line.ends_with('\\');
        if is_open {
            is_open = line.trim() != FENCE;
        } else {
            is_open = opens_block(line);
        }
    }
    !is_open && !continues
}

fn opens_block(line: &str) -> bool {
    line.trim_start()
        .strip_prefix(FENCE)
        .is_some_and(|info| !info.contains('`'))
}

/// Joins the lines of a message and removes continuation marks and fences.
pub(super) fn question(text: &str, reading: Reading) -> String {
    if reading == Reading::Multi {
        let lines: Vec<&str> = text.lines().collect();
        let lines = match lines.split_last() {
            Some((last, before)) if last.trim() == END => before,
            _ => &lines,
        };
        return lines.join("\n");
    }
    let lines: Vec<&str> = text.lines().collect();
    if let [first, inside @ .., last] = lines.as_slice()
        && first.trim() == FENCE
        && last.trim() == FENCE
        && !inside.iter().any(|line| line.trim() == FENCE)
    {
        return inside.join("\n");
    }
    let mut is_open = false;
    let mut joined = Vec::new();
    for line in lines {
        let content = line.strip_suffix('\\').filter(|_| !is_open).unwrap_or(line);
        is_open = if is_open {
            line.trim() != FENCE
        } else {
            opens_block(line)
        };
        joined.push(content);
    }
    joined.join("\n")
}

/// Reads messages from standard input that is not a terminal.
pub(super) struct PipeReader {
    limit: usize,
}

impl PipeReader {
    /// `limit` is the maximum message size in bytes.
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit }
    }

    pub(super) fn next(&mut self, reading: Reading) -> Result<ReadOutcome, CommandError> {
        let mut text = String::new();
        let mut is_started = false;
        while let Some(line) = self.line()? {
            if is_started {
                text.push('\n');
            }
            is_started = true;
            text.push_str(&line);
            if text.len() > self.limit {
                return Err(self.too_large(text.len()));
            }
            if is_complete(&text, reading) {
                break;
            }
        }
        Ok(if is_started {
            ReadOutcome::Text(question(&text, reading))
        } else {
            ReadOutcome::End
        })
    }

    fn line(&self) -> Result<Option<String>, CommandError> {
        let mut bytes = Vec::new();
        // Room for `\r\n` and one more byte, which reveals a longer line.
        let max_bytes = self.limit as u64 + 3;
        let read = std::io::stdin()
            .lock()
            .take(max_bytes)
            .read_until(b'\n', &mut bytes);
        read.map_err(|error| {
            CommandError::new(Code::FileAccess, "standard input cannot be read").caused_by(&error)
        })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() as u64 == max_bytes {
            return Err(self.too_large(bytes.len()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            let message = format!("a line is not valid UTF-8 at byte {byte}");
            CommandError::new(Code::InvalidUtf8, message).with_hint("convert the text to UTF-8")
        })?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
    }

    fn too_large(&self, actual: usize) -> CommandError {
        let limit = self.limit;
        SessionError::Content(ContentError::TooLarge { actual, limit }).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, is_complete, question};

    fn read(text: &str) -> Option<String> {
        is_complete(text, Reading::Usual).then(|| question(text, Reading::Usual))
    }

    #[test]
    fn a_line_is_a_question() {
        assert_eq!(read("What is it?").as_deref(), Some("What is it?"));
        assert_eq!(read("C:\\dir\\file").as_deref(), Some("C:\\dir\\file"));
        assert_eq!(
            read("say ```x``` inline").as_deref(),
            Some("say ```x``` inline")
        );
    }

    #[test]
    fn a_backslash_continues_on_the_next_line() {
        assert_eq!(read("first\\"), None);
        assert_eq!(read("first\\\nsecond").as_deref(), Some("first\nsecond"));
        assert_eq!(read("first\\\nsecond\\"), None);
    }

    #[test]
    fn a_block_is_one_question() {
        assert_eq!(read("```"), None);
        assert_eq!(read("```\na\\\n\nb"), None);
        assert_eq!(read("```\na\\\n\nb\n```").as_deref(), Some("a\\\n\nb"));
        let code = "explain:\\\n```rust\nlet a = 1;\n```";
        assert_eq!(
            read(code).as_deref(),
            Some("explain:\n```rust\nlet a = 1;\n```")
        );
    }

    #[test]
    fn multi_mode_ends_with_the_end_line() {
        let text = "a\n\n```\nb";
        assert!(!is_complete(text, Reading::Multi));
        let ended = format!("{text}\n/end");
        assert!(is_complete(&ended, Reading::Multi));
        assert_eq!(question(&ended, Reading::Multi), text);
    }
}
