//! Standard error as the log shares it with spinners, questions and answers that are being streamed.
//!
//! Lines of the log come from any thread at any time. A spinner is taken off the screen for a line. While a question
//! waits for its answer, or a line of an answer is unfinished on the same screen, lines are kept and printed afterwards.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

/// How many bytes of lines are kept; later ones are left out.
const MAX_KEPT: usize = 1 << 20;

/// Whether lines of a log are to come at all.
static EXPECTS_LOG: AtomicBool = AtomicBool::new(false);

static CONSOLE: Mutex<Console> = Mutex::new(Console {
    holders: 0,
    is_mid_line: false,
    kept: String::new(),
    display: None,
});

/// Whether standard output and standard error are one screen.
static IS_SCREEN: LazyLock<bool> =
    LazyLock::new(|| std::io::stdout().is_terminal() && std::io::stderr().is_terminal());

struct Console {
    /// How many questions wait for an answer.
    holders: usize,
    is_mid_line: bool,
    kept: String,
    display: Option<WeakProgressBar>,
}

impl Console {
    const fn is_held(&self) -> bool {
        self.holders > 0 || self.is_mid_line
    }
}

fn console() -> MutexGuard<'static, Console> {
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces that lines of a log will come.
pub(crate) fn expect_log() {
    EXPECTS_LOG.store(true, Ordering::Relaxed);
}

/// Registers the display that lines are written above.
pub(crate) fn show(display: &ProgressBar) {
    if !display.is_hidden() {
        console().display = Some(display.downgrade());
    }
}

/// Writes a line of the log.
pub(crate) fn write_log(line: &str) {
    let display = {
        let mut console = console();
        if console.is_held() {
            if console.kept.len() + line.len() <= MAX_KEPT {
                console.kept.push_str(line);
            }
            return;
        }
        console.display.as_ref().and_then(WeakProgressBar::upgrade)
    };
    // Without the lock: whoever asks a question takes the display off first, and then holds the console.
    write_above(display.as_ref(), line);
}

fn write_above(display: Option<&ProgressBar>, text: &str) {
    // A log that nobody reads stops nothing.
    let write = || drop(std::io::stderr().lock().write_all(text.as_bytes()));
    match display {
        Some(display) if !display.is_finished() => display.suspend(write),
        _ => write(),
    }
}

/// Keeps lines of the log until the guard is dropped: a question is on the screen.
#[must_use = "lines are kept until this is dropped"]
pub(crate) fn hold() -> Hold {
    console().holders += 1;
    Hold
}

/// Prints the lines that were kept when it is dropped.
pub(crate) struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        let mut console = console();
        console.holders = console.holders.saturating_sub(1);
        print_kept(console);
    }
}

/// Notes that text was written to the screen, which may end inside a line.
pub(crate) fn wrote(text: &str) {
    if !EXPECTS_LOG.load(Ordering::Relaxed) || text.is_empty() || !*IS_SCREEN {
        return;
    }
    let mut console = console();
    let was_mid_line = std::mem::replace(&mut console.is_mid_line, !text.ends_with('\n'));
    // Only then something can have been kept; and a whole line may be written while the display is off.
    if was_mid_line {
        print_kept(console);
    }
}

/// Prints everything that was kept: the program ends.
pub(crate) fn release_all() {
    let mut console = console();
    console.holders = 0;
    if std::mem::take(&mut console.is_mid_line) && !console.kept.is_empty() {
        console.kept.insert(0, '\n');
    }
    print_kept(console);
}

fn print_kept(mut console: MutexGuard<'_, Console>) {
    if console.is_held() || console.kept.is_empty() {
        return;
    }
    let kept = std::mem::take(&mut console.kept);
    drop(console);
    // Questions and answers are never written below a display.
    write_above(None, &kept);
}
