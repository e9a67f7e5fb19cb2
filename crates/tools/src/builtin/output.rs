//! `builtin/output-read`: pages of an output that was too long to be shown whole.

use std::sync::Arc;

use cleveragents_domain::ToolInvocationId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Description, FILE_TIMEOUT, Preparing, builtin, ready};
use crate::capability::Capability;
use crate::ports::Window;
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Call, Failure, Grounds, Tool, Unprepared};

/// So many bytes are read when the call does not say, and at most.
const DEFAULT_BYTES: usize = 32 << 10;
const MOST_BYTES: usize = 48 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The number of the call whose output to read.
    invocation: String,
    /// The first byte to read, counted from 0.
    offset: Option<u64>,
    /// How many bytes to read; 32768 when not given.
    #[schemars(range(min = 1, max = 49152))]
    limit: Option<usize>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "output-read",
        about: "Reads more of the output of an earlier call that was too long to be shown whole.",
        category: Category::Conversation,
        ground: Ground::Nothing,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Arguments>(description, prepare)
}

fn prepare(arguments: Arguments, _grounds: Grounds<'_>) -> Preparing<'_> {
    let invocation: ToolInvocationId = arguments
        .invocation
        .parse()
        .map_err(|error: cleveragents_domain::IdError| Unprepared::Arguments(error.to_string()))?;
    let window = Window {
        from: arguments.offset.unwrap_or(0),
        bytes: arguments.limit.unwrap_or(DEFAULT_BYTES).min(MOST_BYTES),
    };
    Ok(ready(Vec::new(), move |call| {
        page(invocation, window, call)
    }))
}

fn page(
    invocation: ToolInvocationId,
    window: Window,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let page = call
        .ledger()
        .output(call.scope(), invocation, window)?
        .ok_or_else(|| Failure::new(format!("there is no output of a call {invocation} here")))?;
    if window.from >= page.total && page.total > 0 {
        let total = page.total;
        return Err(Failure::new(format!(
            "the output has {total} bytes, so it cannot be read from byte {}",
            window.from
        )));
    }
    call.output.bytes(&page.bytes);
    let next = window.from + page.bytes.len() as u64;
    let rest = page.total.saturating_sub(next);
    let note = (rest > 0).then(|| format!("{rest} bytes follow: read from offset {next}."));
    Ok(Answer::written().noting(note))
}
