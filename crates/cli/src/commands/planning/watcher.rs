//! What people see of a plan while it is driven: a line for each thing that is over, and below it what goes
//! on, with what it took so far.

use std::fmt::Write as _;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cleveragents_actors::ports::{RunObserver, Step, StepPath};
use cleveragents_domain::{MicroUsd, Plan, PlanPhase};
use cleveragents_engine::{PlanWatcher, RunWatcher};
use cleveragents_models::ToolCall;
use cleveragents_tools::CallOutcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::commands::conversation::{called_line, calling_line, short};
use crate::context::Context;
use crate::output::{Live, visible_lines};

/// How often the display is redrawn.
const REDRAW: Duration = Duration::from_millis(120);

/// Watches a plan, and shows it as it happens where somebody looks.
pub(crate) struct Watcher {
    /// Whether what models say is shown as they say it.
    streams: bool,
    /// Whether what happens is told on standard error.
    tells: bool,
    has_text: AtomicBool,
    live: Live,
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: String,
    step: String,
    number: usize,
    count: usize,
    took: String,
}

impl Watcher {
    pub(crate) fn new(context: &Context, is_stream: bool) -> Self {
        let printer = context.printer;
        let is_human = printer.format().is_human();
        let bar = if printer.shows_progress() {
            let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]")
                .unwrap_or_else(|_| ProgressStyle::default_spinner())
                .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ");
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style);
            bar.enable_steady_tick(REDRAW);
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            streams: is_stream && is_human,
            tells: is_human && (is_stream || printer.shows_progress()),
            has_text: AtomicBool::new(false),
            live: context.live.clone(),
            bar,
            state: Mutex::default(),
        }
    }

    /// Ends the display.
    pub(crate) fn end(&self) {
        self.end_text();
        self.bar.finish_and_clear();
    }

    fn end_text(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            self.live.err("\n");
        }
    }

    fn tell(&self, line: &str) {
        if self.tells {
            self.end_text();
            let line = format!("{}\n", visible_lines(line));
            self.bar.suspend(|| self.live.err(&line));
        }
    }

    fn show(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let mut line = state.phase.clone();
        if state.count > 0 {
            let done = state.number.saturating_sub(1);
            let full = (done * 10).checked_div(state.count).unwrap_or(0);
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(10 - full.min(10)));
            let _written = write!(line, " {bar} {}/{}", state.number, state.count);
        }
        for part in [&state.step, &state.took] {
            if !part.is_empty() {
                line.push_str(" · ");
                line.push_str(part);
            }
        }
        self.bar.set_message(short(&line, 110));
    }
}

impl RunObserver for Watcher {
    fn started(&self, _path: &StepPath, _kind: &str) {}

    fn finished(&self, _step: &Step, _is_recalled: bool) {}

    fn watches(&self) -> bool {
        false
    }
}

impl RunWatcher for Watcher {
    fn text(&self, _path: &StepPath, piece: &str) {
        if self.streams {
            self.has_text.store(true, Ordering::Relaxed);
            self.live.err(&visible_lines(piece));
        }
    }

    fn calling(&self, _path: &StepPath, tool: &ToolCall) {
        self.tell(&format!("    {}", calling_line(tool)));
    }

    fn called(&self, _path: &StepPath, tool: &ToolCall, outcome: &CallOutcome) {
        self.tell(&format!("    {}", called_line(tool, outcome)));
    }

    fn caveat(&self, _path: &StepPath, what: &str) {
        self.tell(&format!("  ! {what}"));
    }
}

impl PlanWatcher for Watcher {
    fn stage(&self, plan: &Plan) {
        let phase = match plan.stage.phase() {
            PlanPhase::Strategize => "strategize",
            PlanPhase::Execute => "execute",
            PlanPhase::Apply => "apply",
        };
        self.tell(&format!("● {phase}: {}", plan.stage.state()));
        self.show(|state| {
            phase.clone_into(&mut state.phase);
            state.step.clear();
            (state.number, state.count) = (0, 0);
        });
    }

    fn step(&self, number: usize, count: usize, title: &str) {
        self.tell(&format!("  {number}/{count} {}", short(title, 100)));
        self.show(|state| {
            state.step = short(title, 50);
            (state.number, state.count) = (number, count);
        });
    }

    fn step_ended(&self, title: &str, summary: &str, is_done: bool) {
        let mark = if is_done { "✓" } else { "✗" };
        let first = summary.lines().find(|line| !line.trim().is_empty());
        self.tell(&format!(
            "  {mark} {} — {}",
            short(title, 60),
            short(first.unwrap_or("done"), 160)
        ));
    }

    fn validating(&self, name: &str) {
        self.show(|state| state.step = format!("validating: {}", short(name, 50)));
    }

    fn validated(&self, name: &str, passed: bool, message: &str) {
        let mark = if passed { "✓" } else { "✗" };
        self.tell(&format!(
            "  {mark} {} — {}",
            short(name, 80),
            short(message, 160)
        ));
    }

    fn note(&self, text: &str) {
        self.tell(&format!("  ! {}", short(text, 300)));
    }

    fn taken(&self, plan: &Plan) {
        let tokens = plan.usage.input_tokens.0 + plan.usage.output_tokens.0;
        self.show(|state| {
            state.took = match plan.usage.cost_micro_usd {
                // Nothing, or nobody knows: the report of the plan says which.
                MicroUsd(0) => format!("{tokens} tokens"),
                cost => format!("{tokens} tokens · ${:.4}", cost.as_usd()),
            };
        });
    }
}
