//! [`Screen`]: what is seen of a turn while it runs, and of what was said before.
//!
//! The answer goes to standard output, everything else to standard error. At a terminal the block that is
//! still being written is previewed on one line, which makes way for the block when it is whole.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{Interrupted, TurnObserver};
use cleveragents_domain::{Message, MessageState, Role, Session};
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::CallOutcome;

use crate::commands::call_view::files_changed;
use crate::commands::turn_view::{
    TurnView, called_line, calling_line, recovered_line, retry_line, short,
};
use crate::commands::{cost_cell, counted};
use crate::output::{Markdown, Printer, Tone, console, visible, visible_lines, width};

/// How many bytes at the end of a text a preview looks at.
const PREVIEWED: usize = 1_000;

/// How many changed files are named.
const NAMED_FILES: usize = 5;

/// Shows turns.
pub(super) struct Screen {
    printer: Printer,
    /// Whether the block that is being written is previewed.
    previews: bool,
    state: Mutex<State>,
}

struct State {
    started: Instant,
    markdown: Markdown,
    thought: String,
    /// Whether the line of the cursor holds a preview.
    is_previewed: bool,
    /// Whether the line of the cursor holds text that has not ended.
    is_begun: bool,
}

impl Screen {
    pub(super) fn new(printer: Printer) -> Self {
        let (paint, columns) = printer.canvas();
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        Self {
            previews: is_terminal && printer.draws() && printer.shows_progress(),
            printer,
            state: Mutex::new(State {
                started: Instant::now(),
                markdown: Markdown::new(paint, columns),
                thought: String::new(),
                is_previewed: false,
                is_begun: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn begins.
    pub(super) fn begin(&self) {
        self.state().started = Instant::now();
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.state().started.elapsed()
    }

    /// The turn is over, whole or not: shows what is left of the answer.
    pub(super) fn end(&self) {
        self.finish(&mut self.state());
    }

    /// Shows the rest of what the model said, so that something else can follow.
    fn finish(&self, state: &mut State) {
        self.erase(state);
        state.thought.clear();
        let rest = state.markdown.finish();
        self.write(&rest);
        if std::mem::take(&mut state.is_begun) {
            self.write("\n");
        }
    }

    fn erase(&self, state: &mut State) {
        if std::mem::take(&mut state.is_previewed) {
            self.write("\r\u{1b}[2K");
        }
    }

    /// Writes text that is safe for a terminal.
    fn write(&self, text: &str) {
        if text.is_empty() || !self.printer.format().is_human() {
            return;
        }
        let mut out = std::io::stdout().lock();
        // Whoever closed the pipe does not want to see it.
        let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        console::wrote(text);
    }

    fn preview(&self, state: &mut State, text: &str) {
        if !self.previews {
            return;
        }
        self.erase(state);
        let (paint, columns) = self.printer.canvas();
        // Only its end is seen, so only that is worth the work.
        let from = text.ceil_char_boundary(text.len().saturating_sub(PREVIEWED));
        let words: Vec<&str> = text[from..].split_whitespace().collect();
        let line = words.join(" ");
        let line = visible(&line);
        let shown = tail(&line, columns.saturating_sub(4));
        self.write(&paint.text(Tone::Muted, &format!("… {shown}")));
        state.is_previewed = true;
    }

    /// Tells something besides the answer.
    pub(super) fn note(&self, text: &str) {
        self.tell(text, Tone::Muted);
    }

    fn tell(&self, text: &str, tone: Tone) {
        if !self.printer.format().is_human() {
            return;
        }
        let mut state = self.state();
        self.finish(&mut state);
        let mut err = std::io::stderr().lock();
        let line = self.printer.error_paint().text(tone, &visible_lines(text));
        let _closed = writeln!(err, "{line}");
    }

    /// What a turn took, and what it changed.
    pub(super) fn summary(&self, told: &TurnView<'_>) {
        let report = told.report;
        if let Some(left) = report
            .interrupted
            .as_ref()
            .filter(|left| !left.doubtful.is_empty())
        {
            let text = format!(
                "warning: an earlier turn was interrupted in the middle of {}: look whether it took effect",
                left.doubtful.join(", ")
            );
            self.tell(&text, Tone::Warn);
        }
        for caveat in report.caveats() {
            self.tell(&format!("warning: {caveat}"), Tone::Warn);
        }
        let usage = report.usage;
        let cost = format!(
            "cost {}",
            cost_cell(usage.cost_micro_usd, !report.is_cost_partial).text()
        );
        let mut line = format!(
            "{} in, {} out · {cost} · {:.1} s",
            counted(usage.input_tokens.0, "token"),
            usage.output_tokens.0,
            told.elapsed.as_secs_f64()
        );
        if !report.calls.is_empty() {
            line.push_str(" · ");
            line.push_str(&counted(report.calls.len(), "call"));
        }
        self.note(&line);
        let files = files_changed(report.calls.iter().map(|(_, outcome)| outcome));
        if let Some(sandbox) = told.sandbox.filter(|_| !files.is_empty()) {
            let mut named = files
                .iter()
                .take(NAMED_FILES)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if let Some(more) = files
                .len()
                .checked_sub(NAMED_FILES)
                .filter(|more| *more > 0)
            {
                let _never_fails = write!(named, " and {more} more");
            }
            self.note(&format!(
                "changed in sandbox {sandbox}: {named} · /diff shows it, /apply takes it, /undo takes it back"
            ));
        }
    }

    /// What was said in a session before.
    pub(super) fn messages(&self, session: &Session, messages: &[Message]) {
        let named = session.name.as_ref().map(|name| format!(" {name}"));
        let shown = match messages.len() as u64 {
            0 => "no message yet".to_owned(),
            count if count < session.message_count => {
                format!(
                    "the last {count} of {}",
                    counted(session.message_count, "message")
                )
            }
            count => counted(count, "message"),
        };
        self.note(&format!(
            "session{} · {} · {shown}",
            named.unwrap_or_default(),
            session.id
        ));
        let (paint, columns) = self.printer.canvas();
        for message in messages {
            let failed = match message.state {
                MessageState::Complete => "",
                MessageState::Failed => " (without an answer)",
            };
            match message.role {
                Role::User => {
                    let head = paint.text(Tone::Title, &format!("you{failed}> "));
                    let text = visible_lines(&message.content).replace('\n', "\n  ");
                    self.write(&format!("{head}{text}\n"));
                }
                Role::Assistant if self.printer.draws() => {
                    self.write(&Markdown::drawn(paint, columns, &message.content));
                }
                Role::Assistant => self.write(&format!("{}\n", visible_lines(&message.content))),
                Role::Tool | Role::System => {
                    self.note(&format!(
                        "  {}: {}",
                        message.role,
                        short(&message.content, 100)
                    ));
                }
            }
        }
    }
}

/// The end of a text that takes at most so many columns.
fn tail(text: &str, columns: usize) -> &str {
    let mut start = text.len();
    for (at, _) in text.char_indices().rev() {
        if width(&text[at..]) > columns {
            break;
        }
        start = at;
    }
    &text[start..]
}

impl TurnObserver for Screen {
    fn waiting(&self) {
        self.note("waiting for another turn of this session …");
    }

    fn text(&self, piece: &str) {
        let mut state = self.state();
        if !self.printer.draws() {
            state.is_begun = !piece.ends_with('\n');
            self.write(&visible_lines(piece));
            return;
        }
        let drawn = state.markdown.push(piece);
        if !drawn.is_empty() {
            self.erase(&mut state);
            self.write(&drawn);
        }
        let (block, line) = state.markdown.pending();
        let pending = format!("{block} {line}");
        if !pending.trim().is_empty() {
            self.preview(&mut state, &pending);
        }
    }

    fn reasoning(&self, piece: &str) {
        let mut state = self.state();
        state.thought.push_str(piece);
        let excess = state.thought.len().saturating_sub(PREVIEWED);
        let from = state.thought.ceil_char_boundary(excess);
        state.thought.drain(..from);
        let thought = state.thought.clone();
        self.preview(&mut state, &thought);
    }

    fn retrying(&self, retry: &Retry, shown: bool) {
        self.state().thought.clear();
        self.tell(&retry_line(retry, shown), Tone::Warn);
    }

    fn step(&self, _number: u32) {
        let mut state = self.state();
        self.finish(&mut state);
        self.preview(&mut state, "thinking");
    }

    fn calling(&self, call: &ToolCall) {
        self.note(&calling_line(call));
    }

    fn called(&self, call: &ToolCall, outcome: &CallOutcome) {
        let tone = match outcome {
            CallOutcome::Succeeded(_) => Tone::Muted,
            CallOutcome::Failed(_) | CallOutcome::Refused(_) => Tone::Warn,
        };
        self.tell(&called_line(call, outcome), tone);
    }

    fn recovered(&self, interrupted: &Interrupted) {
        self.note(recovered_line(interrupted));
    }
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn a_preview_is_the_end_of_the_text() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("日本語", 4), "本語");
        assert_eq!(tail("日本語", 3), "語");
        assert_eq!(tail("ab", 10), "ab");
        assert_eq!(tail("", 10), "");
    }
}
