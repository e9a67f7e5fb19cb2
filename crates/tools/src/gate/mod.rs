//! [`Gate`]: the only caller of a tool.
//!
//! [`admission`](self) looks at everything before a call may run, in one fixed order; this file runs
//! what was admitted and writes down what came of it. A refusal or a failed tool is an answer for the
//! model; an error is something that broke behind a port.

mod admission;
mod context;
mod error;
mod outcome;
mod permit;
mod refusal;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::{
    CheckpointNumber, Code, Diagnose as _, InvocationOutcome, ToolInvocationId,
};
use serde_json::Value;

pub use context::{CallContext, CallRequest, Phase, PlanMode};
pub use error::GateError;
pub use outcome::{CallOutcome, Failed, Picture, Refusal, Succeeded};
pub use permit::Permit;
pub use refusal::RefusalReason;

use crate::name::ToolName;
use crate::output::{Log, Output, Spool};
use crate::ports::{
    Attribution, Begun, Captured, Ended, PortError, Redact, RefusedCall, redact_value, shortened,
};
use crate::registry::{Entry, Registry};
use crate::safety::Fence;
use crate::spec::ToolSpec;
use crate::tool::{Answer, Body, Call, Failure, FailureKind, Prepared, Touched};
use admission::{Admitted, Stop};

/// JSON answers are checked up to this size.
const LONGEST_JSON: u64 = 16 << 20;

/// Larger pictures are not shown.
pub(crate) const LARGEST_PICTURE: u64 = 4 << 20;

/// So much of a log the model is shown when a tool failed.
const SHOWN_LOG: usize = 2 << 10;

/// The only caller of a tool.
#[derive(Clone)]
pub struct Gate {
    registry: Arc<Registry>,
    /// What this tool may not read, no other tool shows.
    reader: ToolName,
}

impl Gate {
    /// A gate to these tools.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            reader: ToolName::builtin("file-read"),
        }
    }

    /// The tools behind it.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Decides on a call, runs it if it may run, and writes down what came of it.
    ///
    /// May be called from several threads at a time.
    pub fn call(
        &self,
        request: &CallRequest,
        context: &CallContext<'_>,
    ) -> Result<CallOutcome, GateError> {
        let id = ToolInvocationId::generate();
        match admission::admit(&self.registry, request, context) {
            Ok(admitted) => self.run(id, request, admitted, context),
            Err(Stop::Refused(reason)) => refuse(id, request, context, reason),
            Err(Stop::Broken(action, source)) => Err(GateError::Before {
                tool: request.tool.clone(),
                action,
                source,
            }),
        }
    }

    fn run(
        &self,
        id: ToolInvocationId,
        request: &CallRequest,
        admitted: Admitted<'_>,
        context: &CallContext<'_>,
    ) -> Result<CallOutcome, GateError> {
        let spec = admitted.entry.tool.spec();
        let checkpoint = match checkpoint(admitted.entry, context) {
            Ok(checkpoint) => checkpoint,
            Err(reason) => return refuse(id, request, context, reason),
        };
        let begun = Begun {
            id,
            call_id: &request.call_id,
            scope: context.scope,
            tool: &spec.name,
            arguments: &shortened(admitted.arguments),
            capability: &spec.capability,
            checkpoint,
        };
        context
            .ledger
            .begin(&begun)
            .map_err(|source| GateError::Before {
                tool: spec.name.to_string(),
                action: "storing its row",
                source,
            })?;
        let fence = Fence::new(context.rules, &spec.name, &self.reader, admitted.consent);
        let performed = perform(admitted.entry, admitted.prepared, fence, context);
        conclude(id, spec, performed, checkpoint, context).and_then(|outcome| {
            admitted
                .reservation
                .settle(spec.cost)
                .map_err(|source| after(id, spec, "settling its cost", source))?;
            Ok(outcome)
        })
    }
}

/// What a call did and said.
struct Performed {
    answer: Result<Answer, Failure>,
    spool: Spool,
    log: String,
    elapsed: Duration,
}

/// Sets a tool off, with all that bounds it.
fn perform(
    entry: &Entry,
    prepared: Box<dyn Prepared + '_>,
    fence: Fence<'_>,
    context: &CallContext<'_>,
) -> Performed {
    let started = Instant::now();
    let mut call = Call {
        output: Output::new(context.redactor, context.shown_bytes),
        log: Log::default(),
        workspace: context.workspace,
        approver: context.approver,
        ledger: context.ledger,
        scope: context.scope,
        cancel: context.cancel,
        fence,
        begun: started,
        timeout: entry.tool.spec().timeout,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        prepared.run(Permit::granted(), &mut call)
    }));
    let ran = ran.unwrap_or_else(|_| {
        let failure = Failure::new("it broke down; this is a defect of the tool");
        Err(failure.touching(Touched::Anything))
    });
    let log = call.log.text(context.redactor);
    let (answer, spool) = said(ran, call.output, entry, context);
    Performed {
        answer,
        spool,
        log,
        elapsed: started.elapsed(),
    }
}

fn after(
    invocation: ToolInvocationId,
    spec: &ToolSpec,
    action: &'static str,
    source: PortError,
) -> GateError {
    GateError::After {
        tool: spec.name.clone(),
        invocation,
        action,
        source,
    }
}

/// Records what a call changed, stores what came of it, and tells it.
fn conclude(
    id: ToolInvocationId,
    spec: &ToolSpec,
    performed: Performed,
    checkpoint: Option<CheckpointNumber>,
    context: &CallContext<'_>,
) -> Result<CallOutcome, GateError> {
    let Performed {
        answer,
        mut spool,
        log,
        elapsed,
    } = performed;
    let touched = match &answer {
        Ok(answer) => &answer.touched,
        Err(failure) => &failure.touched,
    };
    let (captured, answer) = match capture(spec, touched, id, context) {
        Ok(captured) => (captured, answer),
        // The call is over, and its outcome is stored. What it changed is recorded when the sandbox is used next.
        Err(source) if source.code() == Code::CaptureInterrupted => {
            let failure = unrecorded(&answer);
            (Captured::default(), Err(failure))
        }
        Err(source) => return Err(after(id, spec, "recording what it changed", source)),
    };
    let answer = answer.map_err(|failure| Failure {
        message: context.redactor.redact(&failure.message).into_owned(),
        ..failure
    });
    let mut ended = Ended {
        id,
        outcome: match answer {
            Ok(_) => InvocationOutcome::Succeeded,
            Err(_) => InvocationOutcome::Failed,
        },
        output: &mut spool,
        media_type: answer.as_ref().ok().and_then(|answer| answer.media_type),
        log: &log,
        error: answer
            .as_ref()
            .err()
            .map(|failure| failure.message.as_str()),
        captured: &captured,
        elapsed,
    };
    context
        .ledger
        .finish(&mut ended)
        .map_err(|source| after(id, spec, "storing what came of it", source))?;
    let tool = spec.name.clone();
    let shown = spool.shown();
    Ok(match answer {
        Ok(answer) => CallOutcome::Succeeded(Succeeded {
            invocation: id,
            tool,
            picture: answer
                .media_type
                .and_then(|media_type| picture(media_type, &mut spool)),
            shown,
            note: answer.note,
            captured,
            checkpoint,
            elapsed,
        }),
        Err(failure) => CallOutcome::Failed(Failed {
            invocation: id,
            tool,
            kind: failure.kind,
            message: failure.message,
            shown,
            log: last_lines(&log).to_owned(),
            captured,
            checkpoint,
            elapsed,
        }),
    })
}

/// The outcome of a call that ended and whose changes were not recorded, because that was interrupted.
fn unrecorded(answer: &Result<Answer, Failure>) -> Failure {
    let ended = match answer {
        Ok(_) => "it succeeded".to_owned(),
        Err(failure) => failure.message.clone(),
    };
    let message = format!(
        "{ended}, and recording what it changed was interrupted; the changes are still in the sandbox, and the next \
         command on it records them"
    );
    Failure::of(FailureKind::Cancelled, message)
}

/// What was written, as the picture that it is.
fn picture(media_type: &'static str, spool: &mut Spool) -> Option<Picture> {
    let data = spool.bytes_up_to(LARGEST_PICTURE).ok()??;
    Some(Picture { media_type, data })
}

/// The end of a log, as much as a model is shown: whole lines, unless one alone is too long.
fn last_lines(log: &str) -> &str {
    let end = &log[log.ceil_char_boundary(log.len().saturating_sub(SHOWN_LOG))..];
    if end.len() == log.len() {
        return end;
    }
    end.split_once('\n').map_or(end, |(_, lines)| lines)
}

/// Stores a refusal and tells it.
fn refuse(
    id: ToolInvocationId,
    request: &CallRequest,
    context: &CallContext<'_>,
    reason: RefusalReason,
) -> Result<CallOutcome, GateError> {
    let reason = reason.without_secrets(context.redactor);
    let tool = context.redactor.redact(&request.tool).into_owned();
    let arguments = serde_json::from_str(&request.arguments)
        .unwrap_or_else(|_| Value::String(request.arguments.clone()));
    let arguments = shortened(redact_value(context.redactor, &arguments));
    let refused = RefusedCall {
        id,
        call_id: &request.call_id,
        scope: context.scope,
        tool: &tool,
        arguments: &arguments,
        reason: &reason,
    };
    context
        .ledger
        .refuse(&refused)
        .map_err(|source| GateError::Before {
            tool: tool.clone(),
            action: "storing its refusal",
            source,
        })?;
    Ok(CallOutcome::Refused(Refusal {
        invocation: id,
        tool,
        reason,
    }))
}

/// Makes the checkpoint before a writing call, where the sandbox can.
fn checkpoint(
    entry: &Entry,
    context: &CallContext<'_>,
) -> Result<Option<CheckpointNumber>, RefusalReason> {
    let spec = entry.tool.spec();
    let Some(workspace) = context.workspace else {
        return Ok(None);
    };
    let is_wanted = workspace.has_checkpoints() && workspace.marks_before();
    if !spec.capability.is_writing() || !is_wanted {
        return Ok(None);
    }
    match workspace.checkpoint(&spec.name.to_string()) {
        Ok(number) => Ok(Some(number)),
        Err(error) if context.profile.require_checkpoints => {
            Err(RefusalReason::MissingCheckpoint {
                tool: spec.name.to_string(),
                why: error.to_string(),
            })
        }
        Err(_) => Ok(None),
    }
}

/// What a tool said, checked against its output schema.
fn said(
    ran: Result<Answer, Failure>,
    mut output: Output<'_>,
    entry: &Entry,
    context: &CallContext<'_>,
) -> (Result<Answer, Failure>, Spool) {
    let json = match &ran {
        Ok(Answer {
            body: Body::Json(value),
            ..
        }) => Some(value.clone()),
        _ => None,
    };
    if let Some(value) = &json {
        output.text(&value.to_string());
    }
    let mut spool = match output.finish() {
        Ok(spool) => spool,
        Err(error) => {
            let touched = ran.map_or_else(|failure| failure.touched, |answer| answer.touched);
            let failure = Failure::new(format!("its output cannot be kept: {error}"));
            return (
                Err(failure.touching(touched)),
                Spool::new(context.shown_bytes),
            );
        }
    };
    let checked = ran.and_then(|answer| {
        match check_output(entry, json.as_ref(), &mut spool, context.redactor) {
            Ok(()) => Ok(answer),
            Err(message) => {
                Err(Failure::of(FailureKind::BadOutput, message).touching(answer.touched))
            }
        }
    });
    (checked, spool)
}

fn check_output(
    entry: &Entry,
    json: Option<&Value>,
    spool: &mut Spool,
    redactor: &dyn Redact,
) -> Result<(), String> {
    let Some(schema) = &entry.output else {
        return Ok(());
    };
    let read;
    let value = if let Some(value) = json {
        value
    } else {
        let bytes = spool
            .bytes_up_to(LONGEST_JSON)
            .map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("its answer is too long to be checked against its schema")?;
        read = serde_json::from_slice::<Value>(&bytes)
            .map_err(|error| format!("its answer is not JSON: {error}"))?;
        &read
    };
    match admission::complaints(schema, value, redactor) {
        None => Ok(()),
        Some(complaints) => Err(format!(
            "its answer does not fit its own schema: {complaints}"
        )),
    }
}

/// Records what a writing call changed.
fn capture(
    spec: &ToolSpec,
    touched: &Touched,
    invocation: ToolInvocationId,
    context: &CallContext<'_>,
) -> Result<Captured, PortError> {
    let by = Attribution {
        tool: &spec.name,
        invocation,
    };
    match (context.workspace, touched) {
        (None, _) | (_, Touched::Nothing) => Ok(Captured::default()),
        (Some(workspace), Touched::Paths(paths)) => workspace.capture_paths(by, paths),
        (Some(workspace), Touched::Anything) => workspace.capture_all(by),
    }
}
