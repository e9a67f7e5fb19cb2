//! What people see of a turn: as it happens, and when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cleveragents_application::{Interrupted, TurnObserver, TurnReport};
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::CallOutcome;

use crate::commands::call_view::files_changed;
use crate::commands::cost_cell;
use crate::commands::turn_view::{
    TurnView, called_line, calling_line, recovered_line, retry_line, short, tool_of, turn_json,
};
use crate::context::Context;
use crate::output::{Align, Cell, Live, Panel, Report, Table, visible_lines};

/// The longest prompt that a panel shows.
const LONGEST_PROMPT: usize = 200;

/// Watches a turn, and shows it as it happens where somebody looks.
pub(super) struct Watcher {
    started: Instant,
    /// Whether the answer is shown as it comes.
    streams: bool,
    /// Whether calls are told on standard error.
    tells: bool,
    has_text: AtomicBool,
    live: Live,
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
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Ends the line of the answer, so that what follows stands on its own.
    pub(super) fn end(&self) {
        self.line_end();
    }

    fn line_end(&self) {
        if self.has_text.swap(false, Ordering::Relaxed) {
            self.live.out("\n");
        }
    }

    fn tell(&self, line: &str) {
        if self.tells {
            self.line_end();
            self.live.err(&format!("{}\n", visible_lines(line)));
        }
    }
}

impl TurnObserver for Watcher {
    fn waiting(&self) {
        self.tell("waiting for another turn of this session …");
    }

    fn text(&self, piece: &str) {
        if self.streams {
            self.has_text.store(true, Ordering::Relaxed);
            self.live.out(&visible_lines(piece));
        }
    }

    fn retrying(&self, retry: &Retry, shown: bool) {
        self.tell(&retry_line(retry, shown && self.streams));
    }

    fn calling(&self, call: &ToolCall) {
        self.tell(&calling_line(call));
    }

    fn called(&self, call: &ToolCall, outcome: &CallOutcome) {
        self.tell(&called_line(call, outcome));
    }

    fn recovered(&self, interrupted: &Interrupted) {
        self.tell(recovered_line(interrupted));
    }
}

/// The report of a turn that has an answer.
pub(super) fn report(told: &TurnView<'_>, is_stream: bool) -> Report {
    let TurnView {
        session,
        prompt,
        report,
        sandbox,
        elapsed,
        ..
    } = *told;
    let files = files_changed(report.calls.iter().map(|(_, outcome)| outcome));
    let usage = report.usage;
    let mut shown = Report::new("session tell").data(turn_json(told));
    if is_stream {
        shown = shown.panel(
            Panel::new("Session")
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Actor", report.model.clone())
                .row("Sandbox", sandbox.map(str::to_owned)),
        );
    } else {
        shown = shown.panel(
            Panel::new("Plan Request")
                .row("Actor", report.model.clone())
                .row("Session", Cell::Id(session.id.to_string()))
                .row("Automation", session.automation.clone())
                .row("Prompt", prompt.map(|prompt| short(prompt, LONGEST_PROMPT))),
        );
        if !report.calls.is_empty() {
            let mut table = Table::new("Commands Executed")
                .column("Tool", Align::Left)
                .column("Arguments", Align::Left)
                .column("Outcome", Align::Left);
            for (call, outcome) in &report.calls {
                table = table.row(vec![
                    tool_of(call).into(),
                    short(&call.arguments, 80).into(),
                    match outcome {
                        CallOutcome::Succeeded(_) => Cell::Good("done".to_owned()),
                        CallOutcome::Failed(failed) => Cell::Warn(short(&failed.message, 80)),
                        CallOutcome::Refused(refusal) => {
                            Cell::Warn(format!("refused: {}", refusal.reason))
                        }
                    },
                ]);
            }
            shown = shown.table(table);
        }
        shown = shown.text(report.answer.clone());
        if !files.is_empty() {
            let mut result = Panel::new("Result").row("Sandbox", sandbox.map(str::to_owned));
            for file in &files {
                result = result.row("Changed", file.clone());
            }
            shown = shown.panel(result);
        }
    }
    let cost = cost_cell(usage.cost_micro_usd, !report.is_cost_partial);
    shown = shown.panel(
        Panel::new("Usage")
            .row("Input tokens", usage.input_tokens.0)
            .row("Output tokens", usage.output_tokens.0)
            .row("Cost", cost)
            .row("Tool calls", report.calls.len())
            .row("Seconds", format!("{:.1}", elapsed.as_secs_f64())),
    );
    notes(
        shown,
        report,
        sandbox.filter(|_| !files.is_empty()),
        is_stream,
    )
}

/// What a person should know besides the answer.
fn notes(mut shown: Report, report: &TurnReport, sandbox: Option<&str>, is_stream: bool) -> Report {
    if let Some(left) = &report.interrupted
        && !left.doubtful.is_empty()
    {
        shown = shown.warn(format!(
            "an earlier turn was interrupted in the middle of {}: look whether it took effect",
            left.doubtful.join(", ")
        ));
    }
    for caveat in report.caveats() {
        shown = shown.warn(caveat);
    }
    if let Some(name) = sandbox {
        shown = shown.info(format!(
            "see the changes with `agents sandbox diff {name}`, take them with `agents sandbox apply {name}`"
        ));
    }
    shown.ok(if is_stream {
        "Stream complete"
    } else {
        "Answered"
    })
}
