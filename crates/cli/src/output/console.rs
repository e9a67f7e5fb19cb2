//! Standard error, shared by the log with spinners, questions and streamed answers.
//!
//! Log lines come from any thread at any time. A spinner is removed from the screen for a line. While a question waits
//! for its answer, or a line of an answer is unfinished on the same screen, log lines are buffered and printed
//! afterwards.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

/// Maximum number of buffered bytes; later lines are dropped.
const MAX_KEPT: usize = 1 << 20;

/// Whether log lines are expected at all.
static EXPECTS_LOG: AtomicBool = AtomicBool::new(false);

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    holders: 0,
    is_mid_line: false,
    kept: String::new(),
    display: None,
});

/// Whether standard output and standard error are both terminals.
static IS_SCREEN: LazyLock<bool> =
    LazyLock::new(|| std::io::stdout().is_terminal() && std::io::stderr().is_terminal());

struct Console {
    /// Number of questions that wait for an answer.
    holders: usize,
    is_mid_line: bool,
    kept: String,
    display: Option<WeakProgressBar>,
}

impl Console {
    /// Whether a line can be printed now. Otherwise it is buffered.
    fn admit(&mut self, line: &str) -> bool {
        let is_held = self.holders > 0 || self.is_mid_line;
        if is_held && self.kept.len() + line.len() <= MAX_KEPT {
            self.kept.push_str(line);
        }
        !is_held
    }

    /// Records that text was written, and returns the lines to print after it.
    fn wrote(&mut self, text: &str) -> String {
        let was_mid_line = std::mem::replace(&mut self.is_mid_line, !text.ends_with('\n'));
        // Only the end of such a line can release something; a whole line may be written inside a suspension.
        if was_mid_line {
            self.release()
        } else {
            String::new()
        }
    }

    /// The buffered lines, if nothing holds them any more.
    fn release(&mut self) -> String {
        if self.holders > 0 || self.is_mid_line {
            return String::new();
        }
        std::mem::take(&mut self.kept)
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

/// Writes a log line.
pub(crate) fn write_log(line: &str) {
    let display = {
        let mut console = console();
        if !console.admit(line) {
            return;
        }
        console.display.as_ref().and_then(WeakProgressBar::upgrade)
    };
    // Without the lock: a question is asked inside a suspension of the display, and then holds the console.
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

/// Buffers log lines until the guard is dropped: a question is on the screen.
#[must_use = "lines are kept until this is dropped"]
pub(crate) fn hold() -> BufferedOutput {
    console().holders += 1;
    BufferedOutput
}

/// Prints the buffered lines when it is dropped.
pub(crate) struct BufferedOutput;

impl Drop for BufferedOutput {
    fn drop(&mut self) {
        let kept = {
            let mut console = console();
            console.holders = console.holders.saturating_sub(1);
            console.release()
        };
        // The display is already off while a question is asked.
        print(&kept);
    }
}

/// Records that text was written to the screen, which may end inside a line.
pub(crate) fn wrote(text: &str) {
    if EXPECTS_LOG.load(Ordering::Relaxed) && !text.is_empty() && *IS_SCREEN {
        let kept = console().wrote(text);
        print(&kept);
    }
}

/// Prints everything that is buffered, because the program ends.
pub(crate) fn release_all() {
    let kept = {
        let mut console = console();
        let is_mid_line = console.is_mid_line;
        console.holders = 0;
        console.is_mid_line = false;
        let kept = console.release();
        if is_mid_line && !kept.is_empty() {
            format!("\n{kept}")
        } else {
            kept
        }
    };
    print(&kept);
}

#[cfg(test)]
mod tests {
    use super::{Console, MAX_KEPT};

    fn console() -> Console {
        Console {
            holders: 0,
            is_mid_line: false,
            kept: String::new(),
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
    fn lines_wait_for_the_end_of_a_line_that_is_streamed() {
        let mut console = console();
        assert_eq!(console.wrote("An ans"), "");
        assert!(!console.admit("one\n"));
        assert_eq!(console.wrote("wer,"), "");
        assert_eq!(console.wrote(" whole.\n"), "one\n");
        assert!(console.admit("two\n"));
    }

    #[test]
    fn a_question_that_is_never_answered_keeps_no_more_than_the_limit() {
        let mut console = console();
        console.holders = 1;
        let line = "x".repeat(1 << 10);
        for _ in 0..2 << 10 {
            assert!(!console.admit(&line));
        }
        assert_eq!(console.kept.len(), MAX_KEPT);
    }
}
