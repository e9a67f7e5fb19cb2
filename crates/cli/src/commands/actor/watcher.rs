//! What people see of a run while it goes on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_actors::ports::{RunObserver, Step, StepPath};
use cleveragents_application::RunWatcher;
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::CallOutcome;

use crate::commands::turn_view::{called_line, calling_line, retry_line, short};
use crate::context::Context;
use crate::output::{Live, visible_lines};

/// Watches a run, and shows it as it happens where somebody looks.
pub(super) struct Watcher {
    started: Instant,
    /// Whether the answer is shown as it comes.
    streams: bool,
    /// Whether steps and calls are told on standard error.
    tells: bool,
    has_text: AtomicBool,
    live: Live,
    tool_calls: AtomicU64,
    caveats: Mutex<BTreeSet<String>>,
}

impl Watcher {
    pub(super) fn new(context: &Context, is_stream: bool) -> Self {
        let printer = context.printer;
        let is_human = printer.format().is_human();
        Self {
            live: context.live.clone(),
            started: Instant::now(),
            streams: is_stream && is_human,
            tells: is_human && (is_stream || printer.shows_progress()),
            has_text: AtomicBool::new(false),
            tool_calls: AtomicU64::new(0),
            caveats: Mutex::default(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// What is to be known before relying on the answers, each thing once.
    pub(super) fn caveats(&self) -> BTreeSet<String> {
        let caveats = self.caveats.lock().unwrap_or_else(PoisonError::into_inner);
        caveats.clone()
    }

    /// Ends the line of the answer, so that what follows stands on its own.
    pub(super) fn end(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            self.live.out("\n");
        }
    }

    fn tell(&self, line: &str) {
        if self.tells {
            self.end();
            self.live.err(&format!("{}\n", visible_lines(line)));
        }
    }
}

impl RunObserver for Watcher {
    fn started(&self, path: &StepPath, kind: &str) {
        self.tell(&format!("· {path} ({kind})"));
    }

    fn finished(&self, step: &Step, is_recalled: bool) {
        let how = match (&step.error, is_recalled) {
            (Some(error), _) => format!("✗ {}", short(error, 200)),
            (None, true) => "✓ done before".to_owned(),
            (None, false) => "✓".to_owned(),
        };
        self.tell(&format!("  {} {how}", step.path));
    }

    fn watches(&self) -> bool {
        self.tells
    }
}

impl RunWatcher for Watcher {
    fn text(&self, _path: &StepPath, piece: &str) {
        if self.streams {
            self.has_text.store(true, Ordering::Relaxed);
            self.live.out(&visible_lines(piece));
        }
    }

    fn retrying(&self, path: &StepPath, retry: &Retry, shown: bool) {
        self.tell(&format!(
            "  {path} {}",
            retry_line(retry, shown && self.streams)
        ));
    }

    fn calling(&self, path: &StepPath, tool: &ToolCall) {
        self.tool_calls.fetch_add(1, Ordering::Relaxed);
        self.tell(&format!("  {path} {}", calling_line(tool)));
    }

    fn called(&self, path: &StepPath, tool: &ToolCall, outcome: &CallOutcome) {
        self.tell(&format!("  {path}{}", called_line(tool, outcome)));
    }

    fn caveat(&self, path: &StepPath, what: &str) {
        let mut caveats = self.caveats.lock().unwrap_or_else(PoisonError::into_inner);
        caveats.insert(format!("step `{path}`: {what}"));
    }
}
