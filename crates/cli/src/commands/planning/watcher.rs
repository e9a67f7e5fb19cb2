//! What people see of a plan while it is driven: a line for each thing that is over, and below it what goes
//! on, with what it took so far.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cleveragents_actors::ports::{RunObserver, Step, StepPath};
use cleveragents_application::{FailedCheck, PlanWatcher, RunWatcher};
use cleveragents_domain::{MicroUsd, Plan, PlanPhase, PlanStrategy};
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::CallOutcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::commands::cost_cell;
use crate::commands::turn_view::{called_line, calling_line, retry_line, short};
use crate::context::Context;
use crate::output::{Live, console, visible_lines};

/// How often the display is redrawn.
const REDRAW: Duration = Duration::from_millis(120);

/// How many lines of the output of a failed check are shown: its last ones.
const OUTPUT_LINES: usize = 20;

/// Maximum number of characters of such a line.
const LINE_LENGTH: usize = 500;

/// Watches a plan, and shows it as it happens where somebody looks.
pub(crate) struct Watcher {
    /// Whether what models say is shown as they say it.
    streams: bool,
    /// Whether what happens is told on standard error.
    tells: bool,
    has_text: AtomicBool,
    live: Live,
    /// The answers that are being given, by the step that gives them: several may at once.
    answers: Mutex<HashMap<String, Hearing>>,
    bar: ProgressBar,
    state: Mutex<State>,
}

/// An answer as it comes, as far as people see it. One that is meant for the program is not shown: what the
/// program makes of it is told instead.
#[derive(Debug, Default)]
enum Hearing {
    /// Nothing of it came yet.
    #[default]
    Nothing,
    /// It is not known yet for whom it is; the text so far.
    Beginning(String),
    /// It is for people.
    Shown,
    /// It is JSON.
    Hidden,
}

impl Hearing {
    /// Hears a piece, and gives what of it is shown.
    fn hear(&mut self, piece: &str) -> String {
        let text = match std::mem::take(self) {
            Self::Shown => {
                *self = Self::Shown;
                return piece.to_owned();
            }
            Self::Hidden => {
                *self = Self::Hidden;
                return String::new();
            }
            Self::Nothing => piece.to_owned(),
            Self::Beginning(text) => text + piece,
        };
        match is_json(&text) {
            None => *self = Self::Beginning(text),
            Some(true) => *self = Self::Hidden,
            Some(false) => {
                *self = Self::Shown;
                return text;
            }
        }
        String::new()
    }

    /// Ends the answer, and gives what of it was kept back.
    fn end(self) -> String {
        match self {
            Self::Beginning(text) => text,
            _ => String::new(),
        }
    }
}

/// Whether an answer that begins so is JSON, bare or in a block of code; nothing while that is open.
fn is_json(text: &str) -> Option<bool> {
    const FENCE: &str = "```";
    let text = text.trim_start();
    let inside = match text.strip_prefix(FENCE) {
        Some(rest) => match rest.split_once('\n') {
            Some((language, inside)) => match language.trim() {
                "json" => return Some(true),
                "" => inside.trim_start(),
                _ => return Some(false),
            },
            // The line that names the language is not whole.
            None => return None,
        },
        None if FENCE.starts_with(text) => return None,
        None => text,
    };
    let first = inside.chars().next()?;
    Some(matches!(first, '{' | '['))
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
            console::show(&bar);
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            streams: is_stream && is_human,
            tells: is_human && (is_stream || printer.shows_progress()),
            has_text: AtomicBool::new(false),
            live: context.live.clone(),
            answers: Mutex::default(),
            bar,
            state: Mutex::default(),
        }
    }

    /// The display, for questions to take it off the screen.
    pub(crate) fn progress(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Ends the display.
    pub(crate) fn end(&self) {
        self.end_line();
        self.bar.finish_and_clear();
    }

    /// Hears more of the answer of a step, or its end, and shows what of it is for people.
    fn hear(&self, path: &StepPath, piece: Option<&str>) {
        if !self.streams {
            return;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let step = path.to_string();
        let text = match piece {
            Some(piece) => answers.entry(step).or_default().hear(piece),
            None => answers.remove(&step).unwrap_or_default().end(),
        };
        drop(answers);
        if !text.is_empty() {
            self.has_text.store(true, Ordering::Relaxed);
            self.live.err(&visible_lines(&text));
        }
    }

    fn end_line(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            self.live.err("\n");
        }
    }

    fn tell(&self, line: impl FnOnce() -> String) {
        if self.tells {
            self.end_line();
            let line = format!("{}\n", visible_lines(&line()));
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
    fn text(&self, path: &StepPath, piece: &str) {
        self.hear(path, Some(piece));
    }

    fn retrying(&self, path: &StepPath, retry: &Retry, shown: bool) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.remove(&path.to_string());
        drop(answers);
        self.tell(|| format!("    {}", retry_line(retry, shown && self.streams)));
    }

    fn answered(&self, path: &StepPath) {
        self.hear(path, None);
        self.end_line();
    }

    fn calling(&self, path: &StepPath, tool: &ToolCall) {
        self.hear(path, None);
        self.tell(|| format!("    {}", calling_line(tool)));
    }

    fn called(&self, _path: &StepPath, tool: &ToolCall, outcome: &CallOutcome) {
        self.tell(|| format!("    {}", called_line(tool, outcome)));
    }

    fn caveat(&self, _path: &StepPath, what: &str) {
        self.tell(|| format!("  ! {what}"));
    }
}

impl PlanWatcher for Watcher {
    fn stage(&self, plan: &Plan) {
        let phase = match plan.stage.phase() {
            PlanPhase::Strategize => "strategize",
            PlanPhase::Execute => "execute",
            PlanPhase::Apply => "apply",
        };
        self.tell(|| format!("● {phase}: {}", plan.stage.state()));
        self.show(|state| {
            phase.clone_into(&mut state.phase);
            state.step.clear();
            (state.number, state.count) = (0, 0);
        });
    }

    fn strategy(&self, strategy: &PlanStrategy) {
        self.tell(|| format!("  {}", short(&strategy.summary, 300)));
        for (number, step) in (1..).zip(&strategy.steps) {
            self.tell(|| format!("  {number}. {}", short(&step.title, 100)));
        }
    }

    fn step(&self, number: usize, count: usize, title: &str) {
        self.tell(|| format!("  {number}/{count} {}", short(title, 100)));
        self.show(|state| {
            state.step = short(title, 50);
            (state.number, state.count) = (number, count);
        });
    }

    fn step_ended(&self, title: &str, summary: &str, is_done: bool) {
        let mark = if is_done { "✓" } else { "✗" };
        let first = summary.lines().find(|line| !line.trim().is_empty());
        self.tell(|| {
            format!(
                "  {mark} {} — {}",
                short(title, 60),
                short(first.unwrap_or("done"), 160)
            )
        });
    }

    fn validating(&self, name: &str) {
        self.show(|state| state.step = format!("validating: {}", short(name, 50)));
    }

    fn validated(&self, name: &str, passed: bool, message: &str) {
        let mark = if passed { "✓" } else { "✗" };
        self.tell(|| format!("  {mark} {} — {}", short(name, 80), short(message, 160)));
    }

    fn check_failed(&self, plan: &Plan, check: &FailedCheck) {
        if let Some(command) = &check.command {
            self.tell(|| format!("    $ {command}"));
        }
        let lines: Vec<&str> = check.output.trim_end().lines().collect();
        let hidden = lines.len().saturating_sub(OUTPUT_LINES);
        if hidden > 0 {
            self.tell(|| {
                format!(
                    "    … {hidden} more lines: `agents plan errors {}` shows them",
                    plan.id
                )
            });
        }
        for line in &lines[hidden..] {
            let end = line.char_indices().nth(LINE_LENGTH);
            let line = end.map_or(*line, |(end, _)| &line[..end]);
            self.tell(|| format!("    | {line}"));
        }
    }

    fn note(&self, text: &str) {
        self.tell(|| format!("  ! {}", short(text, 300)));
    }

    fn taken(&self, plan: &Plan) {
        let tokens = plan.usage.input_tokens.0 + plan.usage.output_tokens.0;
        self.show(|state| {
            let cost = plan.usage.cost_micro_usd;
            state.took = match (cost, plan.is_cost_partial) {
                (MicroUsd(0), false) => format!("{tokens} tokens"),
                (cost, is_partial) => {
                    let cost = cost_cell(cost, !is_partial).text();
                    format!("{tokens} tokens · cost {cost}")
                }
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Hearing;

    /// What is shown of an answer that comes in these pieces.
    fn shown(pieces: &[&str]) -> String {
        let mut hearing = Hearing::default();
        let mut shown: String = pieces.iter().map(|piece| hearing.hear(piece)).collect();
        shown.push_str(&hearing.end());
        shown
    }

    #[test]
    fn what_is_meant_for_the_program_is_not_shown() {
        for pieces in [
            &["{\"summary\": ", "\"x\"}"][..],
            &[" \n", "[1,", "2]"],
            &["`", "``js", "on\n{\"a\"", ": 1}\n```"],
            &["```\n", " {}\n```"],
        ] {
            assert_eq!(shown(pieces), "", "{pieces:?}");
        }
    }

    #[test]
    fn what_is_meant_for_people_is_shown_whole() {
        for pieces in [
            &["It is", " {done}", "\n{really}\n"][..],
            &["```", "rust\n{ }\n```"],
            &["``", "x`` is a name"],
            &["```\nls\n```"],
            &["``"],
            &["```rust"],
            &[],
        ] {
            assert_eq!(shown(pieces), pieces.concat());
        }
    }
}
