//! Progress of a plan on a terminal: one line per finished item, and below these a status line with
//! the running step and the usage.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cleveragents_application::{AgentEvent, FailedCheck, Observer};
use cleveragents_domain::{MicroUsd, PlanId, PlanStage, PlanStrategy};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::answer_filter::AnswerFilter;
use super::child_lines::{ChildLines, is_important, plain_line};
use crate::commands::cost_cell;
use crate::commands::turn_view::{
    call_finished_line, call_started_line, compacted_line, retry_line, short,
};
use crate::context::Context;
use crate::output::{console, fold_lines, visible_lines, write_err};

/// Redraw interval.
const REDRAW: Duration = Duration::from_millis(120);

/// Maximum number of output lines of a failed check; the last ones are shown.
const OUTPUT_LINES: usize = 20;

/// Maximum number of characters of an output line.
const LINE_LENGTH: usize = 500;

/// Shows the events of a plan on a terminal.
pub(crate) struct PlanWatcher {
    /// Whether output of models is streamed.
    streams: bool,
    /// Whether events are printed to standard error.
    prints_events: bool,
    /// Maximum width of printed lines.
    width: usize,
    has_text: AtomicBool,
    /// Answers that are being streamed, by step; steps can run in parallel.
    answers: Mutex<HashMap<String, AnswerFilter>>,
    bar: ProgressBar,
    state: Mutex<State>,
    children: ChildLines,
}

#[derive(Default)]
struct State {
    phase: String,
    step: String,
    number: usize,
    count: usize,
    usage: String,
    /// Number of finished steps.
    done: usize,
}

/// Whether the events of a plan are printed to standard error.
pub(super) fn prints_events(context: &Context, is_stream: bool) -> bool {
    let printer = context.printer;
    printer.format().is_human() && (is_stream || printer.shows_progress())
}

/// Lines of the outline of a strategy: its summary and the titles of its steps.
pub(super) fn strategy_lines(strategy: &PlanStrategy) -> impl Iterator<Item = String> {
    let summary = format!("  {}", short(&strategy.summary, 300));
    let steps = (1..)
        .zip(&strategy.steps)
        .map(|(number, step)| format!("  {number}. {}", short(&step.title, 100)));
    std::iter::once(summary).chain(steps)
}

impl PlanWatcher {
    pub(crate) fn new(context: &Context, is_stream: bool) -> Self {
        let printer = context.printer;
        let is_human = printer.format().is_human();
        let bar = if printer.shows_progress() {
            let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]{prefix}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner())
                .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ");
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style);
            bar.enable_steady_tick(REDRAW);
            console::show(&bar);
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            streams: is_stream && is_human,
            prints_events: prints_events(context, is_stream),
            width: printer.error_width(),
            has_text: AtomicBool::new(false),
            answers: Mutex::default(),
            bar,
            state: Mutex::default(),
            children: ChildLines::default(),
        }
    }

    /// The progress display, to hide it while a question is open.
    pub(crate) fn progress(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Removes the display.
    pub(crate) fn end(&self) {
        self.end_line();
        self.bar.finish_and_clear();
    }

    /// Processes a piece of the answer of a step, or its end (`None`), and prints the part that is
    /// not JSON.
    fn show_answer(&self, path: &str, piece: Option<&str>) {
        if !self.streams {
            return;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let step = path.to_owned();
        let text = match piece {
            Some(piece) => answers.entry(step).or_default().push(piece),
            None => answers.remove(&step).unwrap_or_default().finish(),
        };
        drop(answers);
        if !text.is_empty() {
            self.has_text.store(true, Ordering::Relaxed);
            write_err(&visible_lines(&text));
        }
    }

    fn end_line(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            write_err("\n");
        }
    }

    fn print_line(&self, line: impl FnOnce() -> String) {
        if self.prints_events {
            self.end_line();
            let line = fold_lines(&visible_lines(&line()), self.width);
            let line = format!("{line}\n");
            self.bar.suspend(|| write_err(&line));
        }
    }

    fn show(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let mut line = state.phase.clone();
        if state.count > 0 {
            let filled = (state.done * 10).checked_div(state.count).unwrap_or(0);
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(10 - filled.min(10)));
            let _written = write!(line, " {bar} {}/{}", state.number, state.count);
        }
        for part in [&state.step, &state.usage] {
            if !part.is_empty() {
                line.push_str(" · ");
                line.push_str(part);
            }
        }
        self.bar.set_message(short(&line, 110));
    }
}

impl Observer for PlanWatcher {
    fn event(&self, event: &AgentEvent) {
        if let Some(path) = step_of(event) {
            self.show_run_event(path, event);
        } else {
            self.show_plan_event(event);
        }
    }

    fn is_watching(&self) -> bool {
        self.streams || self.prints_events
    }
}

/// The step that an event belongs to; `None` for events of the plan itself.
fn step_of(event: &AgentEvent) -> Option<&str> {
    match event {
        AgentEvent::Text { path, .. }
        | AgentEvent::Retry { path, .. }
        | AgentEvent::AnswerComplete { path }
        | AgentEvent::ToolCallStarted { path, .. }
        | AgentEvent::ToolCallFinished { path, .. }
        | AgentEvent::Compacted { path, .. }
        | AgentEvent::Caveat { path, .. } => Some(path.as_deref().unwrap_or_default()),
        _ => None,
    }
}

impl PlanWatcher {
    fn show_run_event(&self, path: &str, event: &AgentEvent) {
        match event {
            AgentEvent::Text { text, .. } => self.show_answer(path, Some(text)),
            AgentEvent::Retry {
                message,
                answer_restarts,
                ..
            } => {
                let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.remove(path);
                drop(answers);
                let was_shown = *answer_restarts && self.streams;
                self.print_line(|| format!("    {}", retry_line(message, was_shown)));
            }
            AgentEvent::AnswerComplete { .. } => {
                self.show_answer(path, None);
                self.end_line();
            }
            AgentEvent::ToolCallStarted {
                tool, arguments, ..
            } => {
                self.show_answer(path, None);
                self.print_line(|| format!("    {}", call_started_line(tool, arguments)));
            }
            AgentEvent::ToolCallFinished {
                tool,
                status,
                message,
                ..
            } => {
                let message = message.as_deref();
                self.print_line(|| format!("    {}", call_finished_line(tool, *status, message)));
            }
            AgentEvent::Compacted {
                tokens_before,
                tokens_after,
                ..
            } => {
                self.print_line(|| {
                    format!("    {}", compacted_line(*tokens_before, *tokens_after))
                });
            }
            AgentEvent::Caveat { text, .. } => self.print_line(|| format!("  ! {text}")),
            _ => {}
        }
    }

    fn show_plan_event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::StageChanged { stage, .. } => self.show_stage(*stage),
            AgentEvent::ChildPlan {
                plan_id,
                number,
                title,
                event,
            } => self.show_child_event(*plan_id, *number, title, event),
            AgentEvent::Strategy { strategy } => {
                for line in strategy_lines(strategy) {
                    self.print_line(|| line);
                }
            }
            AgentEvent::PlanStepStarted {
                number,
                count,
                title,
            } => {
                self.print_line(|| format!("  {number}/{count} {}", short(title, 100)));
                self.show(|state| {
                    state.step = short(title, 50);
                    (state.number, state.count) = (*number, *count);
                    state.done = number.saturating_sub(1);
                });
            }
            AgentEvent::PlanStepFinished {
                title,
                summary,
                succeeded,
            } => {
                if *succeeded {
                    self.show(|state| state.done = state.number);
                }
                let first_line = summary.lines().find(|line| !line.trim().is_empty());
                let first_line = short(first_line.unwrap_or("done"), 160);
                self.print_line(|| {
                    format!("  {} {} — {first_line}", mark(*succeeded), short(title, 60))
                });
            }
            AgentEvent::ValidationStarted { name } => {
                self.show(|state| state.step = format!("validating: {}", short(name, 50)));
            }
            AgentEvent::ValidationFinished {
                name,
                passed,
                message,
            } => {
                let (name, message) = (short(name, 80), short(message, 160));
                self.print_line(|| format!("  {} {name} — {message}", mark(*passed)));
            }
            AgentEvent::CheckFailed { plan_id, check } => self.show_failed_check(*plan_id, check),
            AgentEvent::Note { text } => self.print_line(|| format!("  ! {}", short(text, 300))),
            AgentEvent::Usage {
                input_tokens,
                output_tokens,
                cost_micro_usd,
                cost_is_partial,
                ..
            } => {
                let tokens = input_tokens.0 + output_tokens.0;
                self.show(|state| {
                    state.usage = match (*cost_micro_usd, *cost_is_partial) {
                        (0, false) => format!("{tokens} tokens"),
                        (cost, is_partial) => {
                            let cost = cost_cell(MicroUsd(cost), !is_partial).text();
                            format!("{tokens} tokens · cost {cost}")
                        }
                    };
                });
            }
            _ => {}
        }
    }

    fn show_child_event(&self, plan: PlanId, number: u64, title: &str, event: &AgentEvent) {
        let is_shown_in_place = !self.bar.is_hidden();
        if is_shown_in_place {
            let lines = self.children.update(plan, number, title, event);
            self.bar.set_prefix(lines);
        }
        if (!is_shown_in_place || is_important(event))
            && let Some(line) = plain_line(number, title, event)
        {
            self.print_line(|| line);
        }
    }

    fn show_stage(&self, stage: PlanStage) {
        self.children.clear();
        self.bar.set_prefix("");
        let phase = stage.phase().as_str();
        self.print_line(|| format!("● {phase}: {}", stage.state()));
        self.show(|state| {
            phase.clone_into(&mut state.phase);
            state.step.clear();
            (state.number, state.count, state.done) = (0, 0, 0);
        });
    }

    fn show_failed_check(&self, plan: PlanId, check: &FailedCheck) {
        if let Some(command) = &check.command {
            self.print_line(|| format!("    $ {command}"));
        }
        let lines: Vec<&str> = check.output.trim_end().lines().collect();
        let hidden = lines.len().saturating_sub(OUTPUT_LINES);
        if hidden > 0 {
            self.print_line(|| {
                format!("    … {hidden} more lines: `agents plan errors {plan}` shows them")
            });
        }
        for line in &lines[hidden..] {
            let end = line.char_indices().nth(LINE_LENGTH);
            let line = end.map_or(*line, |(end, _)| &line[..end]);
            self.print_line(|| format!("    | {line}"));
        }
    }
}

const fn mark(is_success: bool) -> &'static str {
    if is_success { "✓" } else { "✗" }
}
