//! What people see of a turn: as it happens, and when it is over.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cleveragents_domain::Session;
use cleveragents_engine::{Interrupted, TurnObserver, TurnReport};
use cleveragents_models::ToolCall;
use cleveragents_tools::{CallOutcome, ToolName};
use serde_json::{Value, json};

use crate::commands::tooling;
use crate::output::{Align, Cell, Panel, Printer, Report, Table, visible_lines};

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
}

impl Watcher {
    pub(super) fn new(printer: Printer, is_stream: bool) -> Self {
        let is_human = printer.format().is_human();
        Self {
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
            // Whoever closed the pipe does not want to see it.
            let _closed = writeln!(std::io::stdout());
        }
    }

    fn tell(&self, line: &str) {
        if self.tells {
            self.line_end();
            let _closed = writeln!(std::io::stderr(), "{}", visible_lines(line));
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
            let mut out = std::io::stdout().lock();
            let _closed = write!(out, "{}", visible_lines(piece)).and_then(|()| out.flush());
        }
    }

    fn calling(&self, call: &ToolCall) {
        self.tell(&format!("→ {} {}", tool(call), short(&call.arguments, 100)));
    }

    fn called(&self, call: &ToolCall, outcome: &CallOutcome) {
        let ending = match outcome {
            CallOutcome::Succeeded(_) => "✓ done".to_owned(),
            CallOutcome::Failed(failed) => format!("✗ failed: {}", short(&failed.message, 200)),
            CallOutcome::Refused(refusal) => format!("✗ refused: {}", refusal.reason),
        };
        self.tell(&format!("  {} {ending}", tool(call)));
    }

    fn recovered(&self, interrupted: &Interrupted) {
        let what = if interrupted.is_resumed {
            "going on with the turn that was interrupted"
        } else {
            "the last turn was interrupted; what it did is kept"
        };
        self.tell(what);
    }
}

fn tool(call: &ToolCall) -> String {
    ToolName::from_wire(&call.name).map_or_else(|_| call.name.clone(), |name| name.to_string())
}

fn short(text: &str, longest: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn call_json((call, outcome): &(ToolCall, CallOutcome)) -> Value {
    let (ending, why) = tooling::ending(outcome);
    json!({
        "tool": tool(call),
        "outcome": ending,
        "reason": why,
        "invocation": outcome.invocation(),
    })
}

/// The report of a turn that has an answer.
pub(super) fn report(
    session: &Session,
    prompt: Option<&str>,
    report: &TurnReport,
    sandbox: Option<&str>,
    is_stream: bool,
    elapsed: Duration,
) -> Report {
    let files = tooling::files_changed(report.calls.iter().map(|(_, outcome)| outcome));
    let usage = report.usage;
    let tokens = usage.input_tokens.0 + usage.output_tokens.0;
    let data = json!({
        "session": {
            "id": session.id,
            "actor": report.model,
            "mode": if is_stream { "stream" } else { "whole" },
            "automation": session.automation,
        },
        "prompt": prompt,
        "response": report.answer,
        "is_cut": report.is_cut,
        "turn": report.turn,
        "sequences": report.sequences,
        "steps": report.steps,
        "tool_calls": report.calls.iter().map(call_json).collect::<Vec<_>>(),
        "files_changed": files,
        "sandbox": sandbox,
        "messages_left_out": report.left_out,
        "interrupted": report.interrupted.as_ref().map(|left| json!({
            "turn": left.turn, "doubtful": left.doubtful, "resumed": left.is_resumed,
        })),
        "usage": {
            "tokens": tokens,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": (!report.is_cost_partial).then(|| usage.cost_micro_usd.as_usd()),
            "duration_s": elapsed.as_secs_f64(),
            "tool_calls": report.calls.len(),
        },
    });
    let mut shown = Report::new("session tell").data(data);
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
                    tool(call).into(),
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
    let cost: Cell = if report.is_cost_partial {
        Cell::Muted("not known".to_owned())
    } else {
        usage.cost_micro_usd.into()
    };
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
    if report.is_cut {
        shown = shown.warn("the answer is cut at the limit of tokens");
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
