//! `builtin/output-read`: reads more of a truncated output.

use std::sync::Arc;

use cleveragents_domain::ToolInvocationId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::Capability;
use crate::ports::Window;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, PrepareError, Tool};

/// Default and maximum of `limit`.
const DEFAULT_BYTES: usize = 32 << 10;
const MAX_BYTES: usize = 48 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputArguments {
    /// The id of the call whose output to read.
    invocation: String,
    /// The first byte to read, counted from 0. Default: 0.
    offset: Option<u64>,
    /// Maximum number of bytes to read. Default: 32768.
    #[schemars(range(min = 1, max = 49152))]
    limit: Option<usize>,
    /// The first line to read, counted from 1, instead of `offset`.
    #[schemars(range(min = 1))]
    line: Option<u64>,
    /// Maximum number of lines to read. Default: as many as fit in one result.
    #[schemars(range(min = 1))]
    lines: Option<u64>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "output-read",
        about: "Reads more of the output of an earlier tool call whose output was truncated.",
        category: Category::Conversation,
        workspace_need: WorkspaceNeed::None,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<OutputArguments>(description, prepare)
}

fn prepare(arguments: OutputArguments, _context: PrepareContext<'_>) -> PrepareResult<'_> {
    let invocation: ToolInvocationId =
        arguments
            .invocation
            .parse()
            .map_err(|error: cleveragents_domain::IdError| {
                PrepareError::Arguments(error.to_string())
            })?;
    let window = Window {
        from: arguments.offset.unwrap_or(0),
        bytes: arguments.limit.unwrap_or(DEFAULT_BYTES).min(MAX_BYTES),
    };
    let first = match (arguments.line, arguments.offset) {
        (Some(_), Some(_)) => {
            return Err(PrepareError::Arguments(
                "give `line` or `offset`, not both".to_owned(),
            ));
        }
        (None, None) if arguments.lines.is_some() => Some(1),
        (line, _) => line,
    };
    let max_lines = arguments.lines.unwrap_or(u64::MAX);
    Ok(ready(Vec::new(), move |call| match first {
        Some(first) => lines(invocation, first, max_lines, call),
        None => page(invocation, window, call),
    }))
}

/// Copies lines of an output up to the size limit of one result, and adds a note with the line to continue at.
fn lines(
    invocation: ToolInvocationId,
    first: u64,
    max_lines: u64,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let whole_output = Window {
        from: 0,
        bytes: usize::MAX,
    };
    let page = call
        .ledger()
        .output(call.scope(), invocation, whole_output)?
        .ok_or_else(|| no_output(invocation))?;
    let limit = call.output.shown_limit();
    let all_lines = page.bytes.split_inclusive(|byte| *byte == b'\n');
    let (mut number, mut last, mut position) = (0, 0, 0);
    let (mut is_full, mut truncated_at) = (false, None);
    for line in all_lines {
        number += 1;
        if number >= first && number - first < max_lines && !is_full {
            // A line longer than the limit is shown from its start.
            let shown = &line[..line.len().min(limit)];
            is_full = call.output.len() + shown.len() as u64 > limit as u64;
            if !is_full {
                call.output.bytes(shown);
                last = number;
                is_full = shown.len() < line.len();
                truncated_at = is_full.then(|| position + shown.len());
            }
        }
        position += line.len();
    }
    if last == 0 {
        return Err(Failure::new(format!(
            "the output has {number} lines, so it cannot be read from line {first}"
        )));
    }
    let next = match truncated_at {
        Some(byte) => format!(" This line is truncated: continue with offset {byte}."),
        None if last < number => format!(" Continue with line {}.", last + 1),
        None => String::new(),
    };
    let note = format!("Lines {first}–{last} of {number}.{next}");
    Ok(Answer::written().with_note(Some(note)))
}

fn no_output(invocation: ToolInvocationId) -> Failure {
    Failure::new(format!(
        "there is no stored output of the call {invocation}"
    ))
}

fn page(
    invocation: ToolInvocationId,
    window: Window,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let page = call
        .ledger()
        .output(call.scope(), invocation, window)?
        .ok_or_else(|| no_output(invocation))?;
    if window.from >= page.total && page.total > 0 {
        let total = page.total;
        return Err(Failure::new(format!(
            "the output has {total} bytes, so it cannot be read from byte {}",
            window.from
        )));
    }
    call.output.bytes(&page.bytes);
    let next = window.from + page.bytes.len() as u64;
    let remaining = page.total.saturating_sub(next);
    let note =
        (remaining > 0).then(|| format!("{remaining} more bytes: continue with offset {next}."));
    Ok(Answer::written().with_note(note))
}
