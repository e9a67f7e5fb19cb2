//! Progress lines of a turn, and the printer that shows them next to a streamed answer.

use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_application::{ToolCallStatus, without_data_tags};
use cleveragents_domain::Timestamp;
use cleveragents_tools::builtin::ChecklistEntry;

use crate::context::Context;
use crate::output::{Cell, visible_lines, write_err, write_out};

/// Prints a streamed answer to standard output, and progress lines to standard error, each on a line of its own.
pub(crate) struct ProgressPrinter {
    /// Whether the answer is streamed.
    pub(crate) streams: bool,
    /// Whether progress lines are printed.
    pub(crate) prints_lines: bool,
    /// Whether the last output is an unfinished line of the answer.
    has_text: AtomicBool,
}

impl ProgressPrinter {
    pub(crate) fn new(context: &Context, is_stream: bool) -> Self {
        let printer = context.printer;
        let is_human = printer.format().is_human();
        Self {
            streams: is_stream && is_human,
            prints_lines: is_human && (is_stream || printer.shows_progress()),
            has_text: AtomicBool::new(false),
        }
    }

    /// Prints a piece of the answer.
    pub(crate) fn text(&self, piece: &str) {
        self.has_text.store(true, Ordering::Relaxed);
        write_out(&visible_lines(piece));
    }

    pub(crate) fn line(&self, line: &str) {
        if self.prints_lines {
            self.end_answer();
            write_err(&format!("{}\n", visible_lines(line)));
        }
    }

    /// Ends the line of the answer, so that later output starts on a new line.
    pub(crate) fn end_answer(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            write_out("\n");
        }
    }
}

/// Joins a text to one line and truncates it to `max_chars` characters.
pub(crate) fn short(text: &str, max_chars: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Joins a tool result to one line without the tags that mark data for the model, and truncates it.
pub(crate) fn short_result(text: &str, max_chars: usize) -> String {
    short(&without_data_tags(text), max_chars)
}

pub(crate) fn call_started_line(tool: &str, arguments: &str) -> String {
    format!("→ {tool} {}", short(arguments, 100))
}

/// Lines for a checklist of the model.
pub(crate) fn checklist_lines(entries: &[ChecklistEntry]) -> Vec<String> {
    let lines = entries.iter().map(ChecklistEntry::line);
    lines
        .map(|line| format!("  {}", short(&line, 100)))
        .collect()
}

/// Line for a conversation whose beginning was summarized.
pub(crate) fn compacted_line(tokens_before: u64, tokens_after: u64) -> String {
    format!(
        "● conversation compacted: a summary of about {tokens_after} tokens replaces {tokens_before}"
    )
}

/// Line for a failed model request that is retried. `was_shown` means that part of its answer is on
/// the screen.
pub(crate) fn retry_line(message: &str, was_shown: bool) -> String {
    let restart = if was_shown {
        "; the answer restarts"
    } else {
        ""
    };
    format!("! {}{restart}", short(message, 300))
}

/// Line for a finished tool call. `message` is the reason if it did not succeed.
pub(crate) fn call_finished_line(
    tool: &str,
    status: ToolCallStatus,
    message: Option<&str>,
) -> String {
    let message = message.unwrap_or_default();
    let ending = match status {
        ToolCallStatus::Succeeded => "✓ done".to_owned(),
        ToolCallStatus::Failed => format!("✗ failed: {}", short(message, 200)),
        ToolCallStatus::Refused => format!("✗ refused: {message}"),
    };
    format!("  {tool} {ending}")
}

/// Line for an interrupted turn of the session.
pub(crate) const fn recovered_line(is_resumed: bool) -> &'static str {
    if is_resumed {
        "resuming the interrupted turn"
    } else {
        "the last turn was interrupted; its finished tool calls are kept"
    }
}

/// A time for the user to the minute: `today 10:42`, `yesterday 10:42` or `2026-01-31 10:42`.
pub(crate) fn time_to_minute(time: Timestamp, now: Timestamp) -> String {
    const DAY_SECONDS: i64 = 24 * 60 * 60;
    let text = |time: Timestamp| Cell::from(time).text();
    let shown = text(time);
    let (Some(date), Some(minute)) = (shown.get(..10), shown.get(11..16)) else {
        return shown;
    };
    if text(now).starts_with(date) {
        format!("today {minute}")
    } else if text(now.plus_seconds(-DAY_SECONDS)).starts_with(date) {
        format!("yesterday {minute}")
    } else {
        format!("{date} {minute}")
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::Timestamp;

    use super::time_to_minute;

    #[test]
    fn times_are_shown_to_the_minute_and_recent_days_by_name() {
        let now = Timestamp::from_micros(1_769_860_800_000_000);
        let shown = |hours: i64| time_to_minute(now.plus_seconds(-hours * 3_600), now);
        let minute = "2026-01-31 12:00";
        assert_eq!(shown(0), format!("today {}", &minute[11..]));
        assert_eq!(shown(24), format!("yesterday {}", &minute[11..]));
        assert_eq!(shown(48), "2026-01-29 12:00");
    }
}
