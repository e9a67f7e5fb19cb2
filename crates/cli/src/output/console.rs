//! Standard error, shared by the log with spinners, questions and streamed answers.
//!
//! Any thread may log at any time. A spinner is hidden while a log line is printed. While a question waits for its
//! answer, or the screen shows an unfinished line of a streamed answer, log lines are buffered and printed afterwards.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

/// Maximum number of buffered bytes; later lines are dropped.
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// True once the log prints to standard error.
static EXPECTS_LOG: AtomicBool = AtomicBool::new(false);

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    holders: 0,
    is_mid_line: false,
    pending: String::new(),
    display: None,
});

/// True if standard output and standard error are both terminals.
static IS_SCREEN: LazyLock<bool> =
    LazyLock::new(|| std::io::stdout().is_terminal() && std::io::stderr().is_terminal());

struct Console {
    /// Number of open questions.
    holders: usize,
    is_mid_line: bool,
    pending: String,
    display: Option<WeakProgressBar>,
}

impl Console {
    /// Returns true if the line can be printed now; otherwise buffers it.
    fn admit(&mut self, line: &str) -> bool {
        let is_held = self.holders > 0 || self.is_mid_line;
        if is_held && self.pending.len() + line.len() <= MAX_BUFFERED_BYTES {
            self.pending.push_str(line);
        }
        !is_held
    }

    /// Records that text was written, and returns the lines to print after it.
    fn wrote(&mut self, text: &str) -> String {
        let was_mid_line = std::mem::replace(&mut self.is_mid_line, !text.ends_with('\n'));
        // Buffered lines are released only at the end of an unfinished line. Complete lines release none, because they
        // may be written while the progress display is suspended.
        if was_mid_line {
            self.release()
        } else {
            String::new()
        }
    }

    /// Takes the buffered lines, unless a question or an unfinished line still holds them.
    fn release(&mut self) -> String {
        if self.holders > 0 || self.is_mid_line {
            return String::new();
        }
        std::mem::take(&mut self.pending)
    }
}

fn console() -> MutexGuard<'static, Console> {
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces that log lines will follow.
pub(crate) fn expect_log() {
    EXPECTS_LOG.store(true, Ordering::Relaxed);
}

/// Registers the progress display that lines are written above.
pub(crate) fn show(display: &ProgressBar) {
    if !display.is_hidden() {
        console().display = Some(display.downgrade());
    }
}

pub(crate) fn write_log(line: &str) {
    let display = {
        let mut console = console();
        if !console.admit(line) {
            return;
        }
        console.display.as_ref().and_then(WeakProgressBar::upgrade)
    };
    // Prints without the lock: a question locks the console while the display is suspended.
    match display {
        Some(display) if !display.is_finished() => display.suspend(|| print(line)),
        _ => print(line),
    }
}

/// Prints to standard error. Failures are ignored.
fn print(text: &str) {
    if !text.is_empty() {
        let _closed = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Buffers log lines while a question is on the screen, until the guard is dropped.
#[must_use = "lines are buffered until this is dropped"]
pub(crate) fn hold() -> BufferedOutput {
    console().holders += 1;
    BufferedOutput
}

/// Prints the buffered lines when it is dropped.
pub(crate) struct BufferedOutput;

impl Drop for BufferedOutput {
    fn drop(&mut self) {
        let pending = {
            let mut console = console();
            console.holders = console.holders.saturating_sub(1);
            console.release()
        };
        // While a question is open, the display is already hidden.
        print(&pending);
    }
}

/// Records that text was written to the screen; the text may end inside a line.
pub(crate) fn wrote(text: &str) {
    if EXPECTS_LOG.load(Ordering::Relaxed) && !text.is_empty() && *IS_SCREEN {
        let pending = console().wrote(text);
        print(&pending);
    }
}

/// Prints all buffered lines before the program ends.
pub(crate) fn release_all() {
    let pending = {
        let mut console = console();
        let is_mid_line = console.is_mid_line;
        console.holders = 0;
        console.is_mid_line = false;
        let pending = console.release();
        if is_mid_line && !pending.is_empty() {
            format!("\n{pending}")
        } else {
            pending
        }
    };
    print(&pending);
}

#[cfg(test)]
mod tests {
    use super::{Console, MAX_BUFFERED_BYTES};

    fn console() -> Console {
        Console {
            holders: 0,
            is_mid_line: false,
            pending: String::new(),
            display: None,
        }
    }

    #[test]
    fn lines_wait_for_the_answer_to_a_question() {
        let mut console = console();
        assert!(console.admit("before\n"));
        console.holders += 2;
        assert!(!console.admit("one\n") && !console.admit("two\n"));
        console.holders -= 1;
        assert_eq!(console.release(), "", "another question is open");
        console.holders -= 1;
        assert_eq!(console.release(), "one\ntwo\n");
        assert!(console.admit("after\n"));
    }

    #[test]
    fn lines_wait_for_the_end_of_a_streamed_line() {
        let mut console = console();
        assert_eq!(console.wrote("An ans"), "");
        assert!(!console.admit("one\n"));
        assert_eq!(console.wrote("wer,"), "");
        assert_eq!(console.wrote(" whole.\n"), "one\n");
        assert!(console.admit("two\n"));
    }

    #[test]
    fn an_unanswered_question_buffers_at_most_the_limit() {
        let mut console = console();
        console.holders = 1;
        let line = "x".repeat(1 << 10);
        for _ in 0..2 << 10 {
            assert!(!console.admit(&line));
        }
        assert_eq!(console.pending.len(), MAX_BUFFERED_BYTES);
    }
}
