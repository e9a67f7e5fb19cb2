//! [`Screen`]: output of a turn while it runs, and of earlier messages.
//!
//! The answer goes to standard output, everything else to standard error. On a terminal, one line
//! previews the incomplete Markdown block; the block replaces it when it is complete.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::session_operations::TurnResult;
use cleveragents_application::{AgentEvent, Observer, ToolCallStatus};
use cleveragents_domain::{Message, MessageState, Role, Session};

use crate::commands::turn_view::{
    call_finished_line, call_started_line, checklist_lines, compacted_line, recovered_line,
    retry_line, short_result,
};
use crate::commands::{cost_cell, counted};
use crate::output::{Markdown, Printer, Tone, console, visible, visible_lines, width};

/// A preview is made from at most this many bytes at the end of a text.
const PREVIEW_BYTES: usize = 1_000;

/// Maximum number of changed files to list.
const MAX_LISTED_FILES: usize = 5;

/// Shows the output of turns.
pub(super) struct Screen {
    printer: Printer,
    /// Whether the incomplete block is previewed.
    previews: bool,
    state: Mutex<State>,
}

struct State {
    started: Instant,
    markdown: Markdown,
    reasoning: String,
    /// Whether the current line is a preview.
    has_preview: bool,
    /// Whether the text that was printed last ended without a line break.
    is_started: bool,
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
                reasoning: String::new(),
                has_preview: false,
                is_started: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a turn.
    pub(super) fn begin(&self) {
        self.state().started = Instant::now();
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.state().started.elapsed()
    }

    /// Ends the turn and prints the rest of the answer.
    pub(super) fn end(&self) {
        self.finish(&mut self.state());
    }

    /// Prints the rest of the answer, so that other output can follow.
    fn finish(&self, state: &mut State) {
        self.erase(state);
        state.reasoning.clear();
        let rest = state.markdown.finish();
        self.write(&rest);
        if std::mem::take(&mut state.is_started) {
            self.write("\n");
        }
    }

    fn erase(&self, state: &mut State) {
        if std::mem::take(&mut state.has_preview) {
            self.write("\r\u{1b}[2K");
        }
    }

    /// Writes text that is already escaped for a terminal.
    fn write(&self, text: &str) {
        if text.is_empty() || !self.printer.format().is_human() {
            return;
        }
        let mut out = std::io::stdout().lock();
        // Fails only if the reader closed the pipe.
        let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        console::wrote(text);
    }

    fn preview(&self, state: &mut State, text: &str) {
        if !self.previews {
            return;
        }
        self.erase(state);
        let (paint, columns) = self.printer.canvas();
        // Only the end of the text is visible, so only the end is processed.
        let start = text.ceil_char_boundary(text.len().saturating_sub(PREVIEW_BYTES));
        let words: Vec<&str> = text[start..].split_whitespace().collect();
        let line = words.join(" ");
        let line = visible(&line);
        let shown = tail(&line, columns.saturating_sub(4));
        self.write(&paint.text(Tone::Muted, &format!("… {shown}")));
        state.has_preview = true;
    }

    /// Prints a note to standard error.
    pub(super) fn note(&self, text: &str) {
        self.print_note(text, Tone::Muted);
    }

    fn print_note(&self, text: &str, tone: Tone) {
        if !self.printer.format().is_human() {
            return;
        }
        let mut state = self.state();
        self.finish(&mut state);
        let mut err = std::io::stderr().lock();
        let line = self.printer.error_paint().text(tone, &visible_lines(text));
        let _closed = writeln!(err, "{line}");
    }

    /// Shows usage, cost and changes of a turn.
    pub(super) fn summary(&self, result: &TurnResult) {
        let interrupted = result.interrupted.as_ref();
        if let Some(turn) = interrupted.filter(|turn| !turn.doubtful.is_empty()) {
            let text = format!(
                "warning: an earlier turn was interrupted during {}: its outcome is unknown, check whether it took effect",
                turn.doubtful.join(", ")
            );
            self.print_note(&text, Tone::Warn);
        }
        for caveat in &result.caveats {
            self.print_note(&format!("warning: {caveat}"), Tone::Warn);
        }
        let usage = &result.usage;
        let (cost, is_known) = usage.known_cost();
        let cost = format!("cost {}", cost_cell(cost, is_known).text());
        let mut line = format!(
            "{} in, {} out · {cost} · {:.1} s",
            counted(usage.input_tokens.0, "token"),
            usage.output_tokens.0,
            usage.duration_s
        );
        if usage.tool_calls > 0 {
            line.push_str(" · ");
            line.push_str(&counted(usage.tool_calls, "call"));
        }
        self.note(&line);
        let files = &result.files_changed;
        let sandbox = result.sandbox.as_ref();
        if let Some(sandbox) = sandbox.filter(|_| !files.is_empty()) {
            let mut names = files
                .iter()
                .take(MAX_LISTED_FILES)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if let Some(more) = files
                .len()
                .checked_sub(MAX_LISTED_FILES)
                .filter(|more| *more > 0)
            {
                let _never_fails = write!(names, " and {more} more");
            }
            self.note(&format!(
                "changed in sandbox {sandbox}: {names} · /diff shows, /apply applies, /undo rolls back"
            ));
        }
    }

    /// Shows earlier messages of a session.
    pub(super) fn messages(&self, session: &Session, messages: &[Message]) {
        let name = session.name.as_ref().map(|name| format!(" {name}"));
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
            name.unwrap_or_default(),
            session.id
        ));
        let (paint, columns) = self.printer.canvas();
        for message in messages {
            let suffix = match message.state {
                MessageState::Complete => "",
                MessageState::Failed => " (without an answer)",
            };
            match message.role {
                Role::User => {
                    let label = paint.text(Tone::Title, &format!("you{suffix}> "));
                    let text = visible_lines(&message.content).replace('\n', "\n  ");
                    self.write(&format!("{label}{text}\n"));
                }
                Role::Assistant if self.printer.draws() => {
                    self.write(&Markdown::drawn(paint, columns, &message.content));
                }
                Role::Assistant => self.write(&format!("{}\n", visible_lines(&message.content))),
                Role::Tool | Role::System => {
                    self.note(&format!(
                        "  {}: {}",
                        message.role,
                        short_result(&message.content, 100)
                    ));
                }
            }
        }
    }
}

/// Longest suffix of a text that fits into `columns`.
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

impl Screen {
    fn show_text(&self, piece: &str) {
        let mut state = self.state();
        if !self.printer.draws() {
            state.is_started = !piece.ends_with('\n');
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

    fn show_reasoning(&self, piece: &str) {
        let mut state = self.state();
        state.reasoning.push_str(piece);
        let excess = state.reasoning.len().saturating_sub(PREVIEW_BYTES);
        let start = state.reasoning.ceil_char_boundary(excess);
        state.reasoning.drain(..start);
        let reasoning = state.reasoning.clone();
        self.preview(&mut state, &reasoning);
    }

    fn show_model_call(&self) {
        let mut state = self.state();
        self.finish(&mut state);
        self.preview(&mut state, "thinking");
    }
}

impl Observer for Screen {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::WaitingForSession => {
                self.note("waiting for another turn of this session …");
            }
            AgentEvent::Text { text, .. } => self.show_text(text),
            AgentEvent::Reasoning { text, .. } => self.show_reasoning(text),
            AgentEvent::Retry {
                message,
                answer_restarts,
                ..
            } => {
                self.state().reasoning.clear();
                self.print_note(&retry_line(message, *answer_restarts), Tone::Warn);
            }
            AgentEvent::Compacted {
                tokens_before,
                tokens_after,
                ..
            } => self.print_note(&compacted_line(*tokens_before, *tokens_after), Tone::Muted),
            AgentEvent::ModelCall { .. } => self.show_model_call(),
            AgentEvent::ToolCallStarted {
                tool, arguments, ..
            } => self.note(&call_started_line(tool, arguments)),
            AgentEvent::ToolCallFinished {
                tool,
                status,
                message,
                ..
            } => {
                let tone = match status {
                    ToolCallStatus::Succeeded => Tone::Muted,
                    ToolCallStatus::Failed | ToolCallStatus::Refused => Tone::Warn,
                };
                self.print_note(&call_finished_line(tool, *status, message.as_deref()), tone);
            }
            AgentEvent::Checklist { entries, .. } => {
                for line in checklist_lines(entries) {
                    self.print_note(&line, Tone::Muted);
                }
            }
            AgentEvent::TurnRecovered { resumed, .. } => self.note(recovered_line(*resumed)),
            _ => {}
        }
    }

    fn is_watching(&self) -> bool {
        self.printer.format().is_human()
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
