//! What is told of a turn: a line for each call, and everything of it for programs.

use std::time::Duration;

use cleveragents_application::{Ending, Interrupted, TurnReport};
use cleveragents_domain::Session;
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::{CallOutcome, ToolName};
use serde_json::{Value, json};

use crate::commands::call_view::{call_status, files_changed};
use crate::commands::put_cost;

/// The tool of a call, as people call it.
pub(crate) fn tool_of(call: &ToolCall) -> String {
    ToolName::from_wire(&call.name).map_or_else(|_| call.name.clone(), |name| name.to_string())
}

/// A text on one line, cut to so many characters.
pub(crate) fn short(text: &str, longest: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// That a tool is about to be called.
pub(crate) fn calling_line(call: &ToolCall) -> String {
    format!("→ {} {}", tool_of(call), short(&call.arguments, 100))
}

/// That an attempt to get an answer failed and another follows.
pub(crate) fn retry_line(retry: &Retry, was_shown: bool) -> String {
    let restart = if was_shown {
        "; the answer restarts"
    } else {
        ""
    };
    format!("! {}{restart}", short(&retry.to_string(), 300))
}

/// How a call ended.
pub(crate) fn called_line(call: &ToolCall, outcome: &CallOutcome) -> String {
    let ending = match outcome {
        CallOutcome::Succeeded(_) => "✓ done".to_owned(),
        CallOutcome::Failed(failed) => format!("✗ failed: {}", short(&failed.message, 200)),
        CallOutcome::Refused(refusal) => format!("✗ refused: {}", refusal.reason),
    };
    format!("  {} {ending}", tool_of(call))
}

/// What becomes of a turn that was interrupted.
pub(crate) const fn recovered_line(interrupted: &Interrupted) -> &'static str {
    if interrupted.is_resumed {
        "going on with the turn that was interrupted"
    } else {
        "the last turn was interrupted; what it did is kept"
    }
}

fn call_json((call, outcome): &(ToolCall, CallOutcome)) -> Value {
    let (ending, why) = call_status(outcome);
    json!({
        "tool": tool_of(call),
        "outcome": ending,
        "reason": why,
        "invocation": outcome.invocation(),
    })
}

/// A turn that has an answer, and what was around it.
pub(crate) struct TurnView<'a> {
    pub(crate) session: &'a Session,
    pub(crate) prompt: Option<&'a str>,
    pub(crate) report: &'a TurnReport,
    pub(crate) sandbox: Option<&'a str>,
    /// `stream` or `whole`.
    pub(crate) mode: &'static str,
    pub(crate) elapsed: Duration,
}

/// A turn as programs read it.
pub(crate) fn turn_json(told: &TurnView<'_>) -> Value {
    let TurnView {
        session, report, ..
    } = told;
    let usage = report.usage;
    let mut data = json!({
        "session": {
            "id": session.id,
            "actor": report.model,
            "mode": told.mode,
            "automation": session.automation,
        },
        "prompt": told.prompt,
        "response": report.answer,
        "is_cut": report.ending == Ending::Cut,
        "is_withheld": report.ending == Ending::Withheld,
        "turn": report.turn,
        "sequences": report.sequences,
        "steps": report.steps,
        "tool_calls": report.calls.iter().map(call_json).collect::<Vec<_>>(),
        "files_changed": files_changed(report.calls.iter().map(|(_, outcome)| outcome)),
        "sandbox": told.sandbox,
        "messages_left_out": report.left_out,
        "interrupted": report.interrupted.as_ref().map(|left| json!({
            "turn": left.turn, "doubtful": left.doubtful, "resumed": left.is_resumed,
        })),
        "usage": {
            "tokens": usage.input_tokens.0 + usage.output_tokens.0,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": null,
            "duration_s": told.elapsed.as_secs_f64(),
            "tool_calls": report.calls.len(),
        },
    });
    let is_known = !report.is_cost_partial;
    put_cost(
        &mut data["usage"],
        "cost_usd",
        usage.cost_micro_usd,
        is_known,
    );
    data
}
