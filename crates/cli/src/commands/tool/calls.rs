//! `tool calls` and `tool call`: arguments, outcome and output of tool calls.

use cleveragents_application::tool_operations::{ListToolCalls, ToolCallInfo};
use cleveragents_application::{Excerpt, ToolService};
use cleveragents_domain::{InvocationOutcome, ToolInvocation};
use serde_json::{Value, json};

use crate::arguments::{CallOutcomeName, ToolCallShow, ToolCalls};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Maximum number of bytes of the output, and of the log, that are shown with a call.
const SHOWN_BYTES: usize = 8 << 10;

pub(super) fn list(context: &Context, arguments: ToolCalls) -> Result<Report, CommandError> {
    let offset = arguments.offset;
    let listed = context.call(ListToolCalls {
        session: arguments.session,
        tool: arguments.tool,
        outcome: arguments.outcome.map(CallOutcomeName::outcome),
        limit: arguments.limit,
        offset,
    })?;
    let (count, matching) = (listed.summary.shown, listed.summary.matching);
    let table = Table::new("Tool Calls")
        .column("Id", Align::Left)
        .column("Tool", Align::Left)
        .column("Outcome", Align::Left)
        .column("Reason", Align::Left)
        .column("Took", Align::Right)
        .column("Began", Align::Left)
        .keep(["Tool", "Outcome"])
        .drop_first(["Took", "Reason"])
        .empty("No call matches")
        .rows(listed.calls.iter().map(row));
    let report = Report::new("tool calls").data(listed).table(table);
    let next = offset.saturating_add(count);
    let report = if count > 0 && next < matching {
        report.info(format!(
            "older calls: repeat the command with --offset {next}"
        ))
    } else {
        report
    };
    Ok(report.ok(format!("{} listed", counted(count, "call"))))
}

fn row(call: &ToolCallInfo) -> Vec<Cell> {
    vec![
        Cell::Id(call.id.to_string()),
        call.tool.as_str().into(),
        outcome_cell(call.outcome),
        call.reason.clone().into(),
        call.duration_s.map(Cell::Seconds).into(),
        call.started.into(),
    ]
}

fn outcome_cell(outcome: InvocationOutcome) -> Cell {
    let text = outcome.as_str().to_owned();
    match outcome {
        InvocationOutcome::Succeeded => Cell::Good(text),
        InvocationOutcome::Running => Cell::Warn(text),
        InvocationOutcome::Failed | InvocationOutcome::Refused => Cell::Bad(text),
    }
}

pub(super) fn show(tools: &ToolService, arguments: &ToolCallShow) -> Result<Report, CommandError> {
    let call = tools.call(&arguments.call)?;
    if arguments.output || arguments.log {
        return page(tools, &call, arguments);
    }
    let output = tools.excerpt(call.output, 0, SHOWN_BYTES)?;
    let log = tools.excerpt(call.log, 0, SHOWN_BYTES)?;
    let picture = call.media_type.as_deref();
    let info = ToolCallInfo::from(&call);
    let duration = info.duration_s;
    let mut data = json!(info);
    data["arguments"] = call.arguments.clone();
    data["media_type"] = json!(call.media_type);
    data["repeatable"] = call.is_repeatable.into();
    data["output"] = json!(output.as_ref().map(|output| excerpt_json(output, picture)));
    data["log"] = json!(log.as_ref().map(|log| excerpt_json(log, None)));
    let mut report = Report::new("tool call").data(data).panel(
        Panel::new("Call")
            .row("Id", Cell::Id(call.id.to_string()))
            .row("Tool", call.tool.as_str())
            .row("Outcome", outcome_cell(call.outcome))
            .row("Reason", call.reason.clone())
            .row("Error", call.error.clone())
            .row("Session", call.session.map(|id| Cell::Id(id.to_string())))
            .row("Turn", call.turn.map(|id| Cell::Id(id.to_string())))
            .row("Began", call.started_at)
            .row("Took", duration.map(Cell::Seconds))
            .row(
                "Output",
                output.as_ref().map(|excerpt| Cell::Bytes(excerpt.total)),
            )
            .row(
                "Log",
                log.as_ref().map(|excerpt| Cell::Bytes(excerpt.total)),
            ),
    );
    let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
    report = report.text(format!("Arguments:\n{arguments}"));
    for (title, option, excerpt, picture) in [
        ("Output", "--output", output, picture),
        ("Log", "--log", log, None),
    ] {
        let Some(excerpt) = excerpt else { continue };
        report = report.text(format!("{title}:\n{}", text(&excerpt, picture)));
        if excerpt.next().is_some() && picture.is_none() {
            report = report.info(format!(
                "{} of {} bytes are shown; `agents tool call {} {option}` shows more",
                excerpt.bytes.len(),
                excerpt.total,
                call.id
            ));
        }
    }
    Ok(report.ok("Call shown"))
}

/// A page of the output or log of a call.
fn page(
    tools: &ToolService,
    call: &ToolInvocation,
    arguments: &ToolCallShow,
) -> Result<Report, CommandError> {
    let (stored, name, option, picture) = if arguments.log {
        (call.log, "log", "--log", None)
    } else {
        let picture = call.media_type.as_deref();
        (call.output, "output", "--output", picture)
    };
    let length = usize::try_from(arguments.bytes).unwrap_or(usize::MAX);
    let from = match arguments.page {
        Some(page) => (page - 1).saturating_mul(arguments.bytes),
        None => arguments.from.unwrap_or(0),
    };
    let Some(excerpt) = tools.excerpt(stored, from, length)? else {
        return Ok(Report::new("tool call")
            .data(json!({"id": call.id, name: null}))
            .ok(format!("The call has no {name}")));
    };
    let (next, total) = (excerpt.next(), excerpt.total);
    let mut report = Report::new("tool call")
        .data(json!({"id": call.id, name: excerpt_json(&excerpt, picture)}))
        .text(text(&excerpt, picture));
    if let Some(next) = next {
        report = report.info(format!(
            "continue with `agents tool call {} {option} --from {next}`",
            call.id
        ));
    }
    let end = excerpt.from + excerpt.bytes.len() as u64;
    Ok(report.ok(format!("Bytes {} to {end} of {total} shown", excerpt.from)))
}

fn excerpt_json(excerpt: &Excerpt, picture: Option<&str>) -> Value {
    json!({
        "text": text(excerpt, picture),
        "from": excerpt.from,
        "bytes": excerpt.bytes.len(),
        "total_bytes": excerpt.total,
        "next_from": excerpt.next(),
    })
}

/// Readable text; for a picture, its type and size.
fn text(excerpt: &Excerpt, picture: Option<&str>) -> String {
    match picture {
        Some(kind) => format!("[{kind}, {} bytes]", excerpt.total),
        None => String::from_utf8_lossy(&excerpt.bytes).into_owned(),
    }
}
