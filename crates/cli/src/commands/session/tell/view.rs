//! Output of a turn, while it runs and when it has finished.

use cleveragents_application::session_operations::{TurnResult, TurnToolCall};
use cleveragents_application::{AgentEvent, Observer, ToolCallStatus};

use crate::commands::cost_cell;
use crate::commands::turn_view::{
    ProgressPrinter, call_finished_line, call_started_line, checklist_lines, compacted_line,
    recovered_line, retry_line, short,
};
use crate::context::Context;
use crate::output::{Align, Cell, Panel, Report, Table};

/// Maximum number of characters of a prompt in a panel.
const MAX_PROMPT_CHARS: usize = 200;

/// Shows the events of a turn on a terminal.
pub(super) struct TurnWatcher(ProgressPrinter);

impl TurnWatcher {
    pub(super) fn new(context: &Context, is_stream: bool) -> Self {
        Self(ProgressPrinter::new(context, is_stream))
    }

    /// Ends the line of the answer, so that later output starts on a new line.
    pub(super) fn end(&self) {
        self.0.end_answer();
    }
}

impl Observer for TurnWatcher {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::WaitingForSession => {
                self.0.line("waiting for another turn of this session …");
            }
            AgentEvent::Text { text, .. } if self.0.streams => self.0.text(text),
            AgentEvent::Retry {
                message,
                answer_restarts,
                ..
            } => self
                .0
                .line(&retry_line(message, *answer_restarts && self.0.streams)),
            AgentEvent::ToolCallStarted {
                tool, arguments, ..
            } => self.0.line(&call_started_line(tool, arguments)),
            AgentEvent::ToolCallFinished {
                tool,
                status,
                message,
                ..
            } => self
                .0
                .line(&call_finished_line(tool, *status, message.as_deref())),
            AgentEvent::Compacted {
                tokens_before,
                tokens_after,
                ..
            } => self.0.line(&compacted_line(*tokens_before, *tokens_after)),
            AgentEvent::Checklist { entries, .. } => {
                for line in checklist_lines(entries) {
                    self.0.line(&line);
                }
            }
            AgentEvent::TurnRecovered { resumed, .. } => self.0.line(recovered_line(*resumed)),
            _ => {}
        }
    }

    fn is_watching(&self) -> bool {
        self.0.streams || self.0.prints_lines
    }
}

pub(super) fn report(result: TurnResult, is_stream: bool) -> Report {
    let session = &result.session;
    let mut report = Report::new("session tell");
    if is_stream {
        report = report.panel(
            Panel::new("Session")
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Actor", session.actor.clone())
                .row("Sandbox", result.sandbox.clone()),
        );
    } else {
        let prompt = result.prompt.as_deref();
        report = report.panel(
            Panel::new("Plan Request")
                .row("Actor", session.actor.clone())
                .row("Session", Cell::Id(session.id.to_string()))
                .row("Automation", session.automation.clone())
                .row(
                    "Prompt",
                    prompt.map(|prompt| short(prompt, MAX_PROMPT_CHARS)),
                ),
        );
        if !result.tool_calls.is_empty() {
            report = report.table(calls(&result.tool_calls));
        }
        report = report.text(result.response.clone());
        if !result.files_changed.is_empty() {
            let mut panel = Panel::new("Result").row("Sandbox", result.sandbox.clone());
            for file in &result.files_changed {
                panel = panel.row("Changed", file.clone());
            }
            report = report.panel(panel);
        }
    }
    let usage = &result.usage;
    let (cost, is_known) = usage.known_cost();
    report = report.panel(
        Panel::new("Usage")
            .row("Input tokens", usage.input_tokens.0)
            .row("Output tokens", usage.output_tokens.0)
            .row("Cost", cost_cell(cost, is_known))
            .row("Tool calls", usage.tool_calls)
            .row("Seconds", format!("{:.1}", usage.duration_s)),
    );
    let report = notes(report, &result).data(result);
    report.ok(if is_stream {
        "Stream complete"
    } else {
        "Answered"
    })
}

fn calls(calls: &[TurnToolCall]) -> Table {
    let table = Table::new("Commands Executed")
        .column("Tool", Align::Left)
        .column("Arguments", Align::Left)
        .column("Outcome", Align::Left);
    table.rows(calls.iter().map(|call| {
        let reason = call.reason.as_deref().unwrap_or_default();
        vec![
            call.tool.as_str().into(),
            short(&call.arguments, 80).into(),
            match call.outcome {
                ToolCallStatus::Succeeded => Cell::Good("done".to_owned()),
                ToolCallStatus::Failed => Cell::Warn(short(reason, 80)),
                ToolCallStatus::Refused => Cell::Warn(format!("refused: {reason}")),
            },
        ]
    }))
}

/// Adds warnings and the next commands to the report.
fn notes(mut report: Report, result: &TurnResult) -> Report {
    if let Some(turn) = &result.interrupted
        && !turn.doubtful.is_empty()
    {
        report = report.warn(format!(
            "an earlier turn was interrupted during {}: its outcome is unknown, check whether it took effect",
            turn.doubtful.join(", ")
        ));
    }
    for caveat in &result.caveats {
        report = report.warn(caveat.clone());
    }
    let sandbox = result.sandbox.as_ref();
    if let Some(name) = sandbox.filter(|_| !result.files_changed.is_empty()) {
        report = report.info(format!(
            "show the changes with `agents sandbox diff {name}`, apply them with `agents sandbox apply {name}`"
        ));
    }
    report
}
