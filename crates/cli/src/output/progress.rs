//! Progress of long work, drawn on standard error if it is a terminal.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

use super::console;
use super::layout::truncate;
use super::printer::Printer;
use super::visible::visible;

const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum width of a label, so that the display stays on one line.
const MAX_LABEL_WIDTH: usize = 32;

const BAR: &str = "{msg} [{wide_bar}] {human_pos}/{human_len} ({rate}, {eta} left)";
const SPINNER: &str = "{spinner} {msg} ({elapsed})";

/// A bar or a spinner. Clones are cheap and update the same display, from any thread.
///
/// Nothing is drawn unless standard error is a terminal and the format is for users. The display
/// disappears when the work is finished or the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for work of a known size.
    pub fn bar(printer: &Printer, label: &str, total: u64) -> Self {
        Self::new(printer, label, Some(total), BAR)
    }

    /// A spinner for work of an unknown size.
    pub fn spinner(printer: &Printer, label: &str) -> Self {
        Self::new(printer, label, None, SPINNER)
    }

    /// Progress that is never shown.
    pub fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
        }
    }

    /// Sets the amount of work done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Hides the display while `work` runs, for example to write lines above it.
    pub(crate) fn suspend(&self, work: impl FnOnce()) {
        self.bar.suspend(work);
    }

    /// Replaces the label.
    pub(crate) fn label(&self, label: &str) {
        self.bar.set_message(fitting(label));
    }

    /// The display itself, for a question that hides it.
    pub(crate) fn display(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Ends the display and clears its line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn new(printer: &Printer, label: &str, total: Option<u64>, template: &str) -> Self {
        if !printer.shows_progress() {
            return Self::silent();
        }
        let rate = |state: &ProgressState, out: &mut dyn Write| {
            // A rate that cannot be formatted is not shown.
            let _written = write!(out, "{:.0}/s", state.per_sec());
        };
        // A malformed template falls back to the default style.
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", rate)
            .progress_chars("=> ")
            .tick_chars("-\\|/ ");
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
            .with_style(style)
            .with_finish(ProgressFinish::AndClear)
            .with_message(fitting(label));
        // Only this timer redraws, so that the redraw rate is independent of the rate of updates.
        bar.enable_steady_tick(REDRAW_INTERVAL);
        console::show(&bar);
        Self { bar }
    }
}

/// A label that fits on the line of the display.
fn fitting(label: &str) -> String {
    truncate(&visible(label), MAX_LABEL_WIDTH).into_owned()
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use crate::output::samples::{PIPE, TERMINAL};
    use crate::output::{Format, Printer};

    #[test]
    fn nothing_is_drawn_without_a_terminal() {
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
        let other_clone = progress.clone();
        std::thread::spawn(move || other_clone.set(7))
            .join()
            .expect("the thread ends");
        assert_eq!(progress.bar.position(), 7);
        progress.finish();
        assert!(progress.bar.is_finished());
    }

    #[test]
    fn both_templates_are_valid() {
        for template in [super::BAR, super::SPINNER] {
            assert!(indicatif::ProgressStyle::with_template(template).is_ok());
        }
    }
}
