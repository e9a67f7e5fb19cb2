//! Progress output of a run.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use cleveragents_application::{AgentEvent, Observer};

use crate::commands::turn_view::{
    ProgressPrinter, call_finished_line, call_started_line, checklist_lines, compacted_line,
    retry_line, short,
};
use crate::context::Context;

/// Shows the events of a run on a terminal.
pub(super) struct RunWatcher {
    printer: ProgressPrinter,
    caveats: Mutex<BTreeSet<String>>,
}

impl RunWatcher {
    pub(super) fn new(context: &Context, is_stream: bool) -> Self {
        Self {
            printer: ProgressPrinter::new(context, is_stream),
            caveats: Mutex::default(),
        }
    }

    /// Warnings about the answers, without duplicates.
    pub(super) fn caveats(&self) -> BTreeSet<String> {
        let caveats = self.caveats.lock().unwrap_or_else(PoisonError::into_inner);
        caveats.clone()
    }

    /// Ends the line of the answer, so that later output starts on a new line.
    pub(super) fn end(&self) {
        self.printer.end_answer();
    }
}

impl Observer for RunWatcher {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::NodeStarted { path, kind } => {
                self.printer.line(&format!("· {path} ({kind})"));
            }
            AgentEvent::NodeFinished {
                path,
                error,
                recalled,
                ..
            } => {
                let outcome = match (error, recalled) {
                    (Some(error), _) => format!("✗ {}", short(error, 200)),
                    (None, true) => "✓ reused".to_owned(),
                    (None, false) => "✓".to_owned(),
                };
                self.printer.line(&format!("  {path} {outcome}"));
            }
            AgentEvent::Text { text, .. } if self.printer.streams => self.printer.text(text),
            AgentEvent::Retry {
                path,
                message,
                answer_restarts,
                ..
            } => {
                let line = retry_line(message, *answer_restarts && self.printer.streams);
                self.printer
                    .line(&format!("  {} {line}", step_path(path.as_ref())));
            }
            AgentEvent::ToolCallStarted {
                path,
                tool,
                arguments,
                ..
            } => {
                let line = call_started_line(tool, arguments);
                self.printer
                    .line(&format!("  {} {line}", step_path(path.as_ref())));
            }
            AgentEvent::ToolCallFinished {
                path,
                tool,
                status,
                message,
                ..
            } => {
                let line = call_finished_line(tool, *status, message.as_deref());
                self.printer
                    .line(&format!("  {}{line}", step_path(path.as_ref())));
            }
            AgentEvent::Compacted {
                path,
                tokens_before,
                tokens_after,
            } => {
                let line = compacted_line(*tokens_before, *tokens_after);
                self.printer
                    .line(&format!("  {} {line}", step_path(path.as_ref())));
            }
            AgentEvent::Checklist { path, entries } => {
                for line in checklist_lines(entries) {
                    self.printer
                        .line(&format!("  {} {line}", step_path(path.as_ref())));
                }
            }
            AgentEvent::Caveat { path, text } => {
                let mut caveats = self.caveats.lock().unwrap_or_else(PoisonError::into_inner);
                caveats.insert(format!("step `{}`: {text}", step_path(path.as_ref())));
            }
            _ => {}
        }
    }

    fn is_watching(&self) -> bool {
        self.printer.prints_lines
    }
}

/// Path of the step of an event. Events of runs always have a path.
fn step_path(path: Option<&String>) -> &str {
    path.map_or("", String::as_str)
}
