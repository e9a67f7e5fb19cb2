//! Progress of long work, drawn on standard error while someone watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::time::Duration;

use super::printer::Printer;
use super::visible::visible;

/// The most redraws a second.
const REDRAWS: u8 = 10;

/// A bar or a spinner. Clones are cheap and show the same work; any thread may move it.
///
/// Nothing is drawn unless standard error is a terminal and the format is for people. The display
/// disappears when the work is finished or the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for work of a known size.
    pub fn bar(printer: &Printer, label: &str, total: u64) -> Self {
        Self::new(
            printer,
            label,
            Some(total),
            "{msg} [{bar:30}] {human_pos}/{human_len} ({per_sec}, {eta} left)",
        )
    }

    /// A spinner for work of an unknown size.
    pub fn spinner(printer: &Printer, label: &str) -> Self {
        let progress = Self::new(printer, label, None, "{spinner} {msg} ({elapsed})");
        if !progress.bar.is_hidden() {
            progress
                .bar
                .enable_steady_tick(Duration::from_millis(1000 / u64::from(REDRAWS)));
        }
        progress
    }

    /// Progress that is never shown.
    pub fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
        }
    }

    /// Says how much is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Ends the display and clears its line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn new(printer: &Printer, label: &str, total: Option<u64>, template: &str) -> Self {
        let target = if printer.shows_progress() {
            ProgressDrawTarget::stderr_with_hz(REDRAWS)
        } else {
            ProgressDrawTarget::hidden()
        };
        // A template that does not parse leaves the usual style.
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ")
            .tick_chars("-\\|/ ");
        let bar = ProgressBar::with_draw_target(total, target)
            .with_style(style)
            .with_finish(ProgressFinish::AndClear)
            .with_message(visible(label).into_owned());
        Self { bar }
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use crate::output::samples::{PIPE, TERMINAL};
    use crate::output::{Format, Printer};

    #[test]
    fn nothing_is_drawn_when_nobody_watches() {
        for printer in [
            Printer::new(Format::Rich, &PIPE),
            Printer::new(Format::Json, &TERMINAL),
        ] {
            assert!(Progress::bar(&printer, "importing", 10).bar.is_hidden());
            assert!(Progress::spinner(&printer, "importing").bar.is_hidden());
        }
    }

    #[test]
    fn another_thread_may_move_the_bar() {
        let progress = Progress::silent();
        let moved = progress.clone();
        std::thread::spawn(move || moved.set(7))
            .join()
            .expect("the thread ends");
        assert_eq!(progress.bar.position(), 7);
        progress.finish();
        assert!(progress.bar.is_finished());
    }

    #[test]
    fn both_templates_are_valid() {
        for template in [
            "{msg} [{bar:30}] {human_pos}/{human_len} ({per_sec}, {eta} left)",
            "{spinner} {msg} ({elapsed})",
        ] {
            assert!(indicatif::ProgressStyle::with_template(template).is_ok());
        }
    }
}
