//! [`Gate`]: the only code that calls tools.
//!
//! [`admission`](self) checks a call in a fixed order; this file runs admitted calls and stores their
//! outcomes. A refusal or a failed tool is a result for the model; an error means that a port failed.

mod admission;
mod call;
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
pub use outcome::{CallFailure, CallOutcome, CallSuccess, Picture, Refusal, data_for_model};
pub use permit::Permit;
pub use refusal::RefusalReason;

use crate::argument_errors::schema_errors;
use crate::name::ToolName;
use crate::output::{Log, Output, SpooledOutput};
use crate::ports::{
    Attribution, CapturedChanges, FinishedCall, PortError, Redact, RefusedCall, StartedCall,
    redact_value, shortened,
};
use crate::registry::{Entry, Registry};
use crate::safety::PathPermissions;
use crate::spec::{Source, ToolSpec};
use crate::tool::{Answer, Body, Call, Failure, FailureKind, PreparedCall, TouchedPaths};
use admission::{AdmittedCall, Stop};

/// Maximum size of a JSON answer that is validated against its schema, in bytes.
const MAX_JSON_SIZE: u64 = 16 << 20;

/// Maximum size of an image that a model is shown, in bytes.
pub(crate) const MAX_IMAGE_SIZE: u64 = 4 << 20;

/// Maximum size of a skill's instructions that are shown, in bytes.
const MAX_INSTRUCTIONS_SIZE: usize = 64 << 10;

/// Maximum number of bytes of a failed tool's log that the model is shown.
const SHOWN_LOG: usize = 2 << 10;

/// The only code that calls tools.
#[derive(Clone)]
pub struct Gate {
    registry: Arc<Registry>,
    /// The tool that reads files. If the rules deny a path to this tool, no other tool shows the path either.
    reader: ToolName,
}

impl Gate {
    /// Creates a gate for these tools.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            reader: ToolName::builtin("file-read"),
        }
    }

    /// The tools that can be called.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Checks a call, runs it if it is admitted, and stores its outcome.
    ///
    /// May be called from several threads at the same time.
    pub fn call(
        &self,
        request: &CallRequest,
        context: &CallContext<'_>,
    ) -> Result<CallOutcome, GateError> {
        self.call_as(ToolInvocationId::generate(), request, context)
    }

    /// Like [`call`](Self::call), with an id that the caller generated. Ids of concurrent calls must be generated in
    /// the order of the calls, because stored calls are ordered by their ids.
    pub fn call_as(
        &self,
        id: ToolInvocationId,
        request: &CallRequest,
        context: &CallContext<'_>,
    ) -> Result<CallOutcome, GateError> {
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
        admitted: AdmittedCall<'_>,
        context: &CallContext<'_>,
    ) -> Result<CallOutcome, GateError> {
        let spec = admitted.entry.tool.spec();
        let checkpoint = match checkpoint(admitted.entry, context) {
            Ok(checkpoint) => checkpoint,
            Err(reason) => return refuse(id, request, context, reason),
        };
        let started = StartedCall {
            id,
            call_id: &request.call_id,
            scope: context.scope,
            tool: &spec.name,
            arguments: &shortened(admitted.arguments),
            capability: &spec.capability,
            checkpoint,
            is_trial: context.mode.is_trial(),
        };
        context
            .ledger
            .begin(&started)
            .map_err(|source| GateError::Before {
                tool: spec.name.to_string(),
                action: "storing the record of the call",
                source,
            })?;
        let path_permissions =
            PathPermissions::new(context.rules, &spec.name, &self.reader, admitted.consent);
        let executed = execute(admitted.entry, admitted.prepared, path_permissions, context);
        record_outcome(id, spec, executed, checkpoint, context).and_then(|outcome| {
            admitted
                .reservation
                .charge(spec.cost)
                .map_err(|source| error_after_run(id, spec, "recording its cost", source))?;
            Ok(outcome)
        })
    }
}

/// Result of running a tool.
struct ExecutedCall {
    answer: Result<Answer, Failure>,
    spool: SpooledOutput,
    log: String,
    elapsed: Duration,
}

/// Runs a tool with its time limit, output limits and permission rules.
fn execute(
    entry: &Entry,
    prepared: Box<dyn PreparedCall + '_>,
    path_permissions: PathPermissions<'_>,
    context: &CallContext<'_>,
) -> ExecutedCall {
    let started = Instant::now();
    // The model needs the complete instructions of a skill.
    let shown_bytes = match entry.tool.spec().source {
        Source::AgentSkill => context.shown_bytes.max(MAX_INSTRUCTIONS_SIZE),
        _ => context.shown_bytes,
    };
    let mut call = Call {
        output: Output::new(context.redactor, shown_bytes),
        log: Log::default(),
        workspace: context.workspace,
        approver: context.approver,
        ledger: context.ledger,
        scope: context.scope,
        cancel: context.cancel,
        path_permissions,
        started_at: started,
        timeout: entry.tool.spec().timeout,
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        prepared.run(Permit::granted(), &mut call)
    }));
    let result = result.unwrap_or_else(|_| {
        let failure = Failure::new("it panicked; this is a bug in the tool");
        Err(failure.touching(TouchedPaths::Anything))
    });
    let log = call.log.text(context.redactor);
    let (answer, spool) = finish_output(result, call.output, entry, context);
    ExecutedCall {
        answer,
        spool,
        log,
        elapsed: started.elapsed(),
    }
}

fn error_after_run(
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

/// Records the changes of a call, stores its outcome, and returns it.
fn record_outcome(
    id: ToolInvocationId,
    spec: &ToolSpec,
    executed: ExecutedCall,
    checkpoint: Option<CheckpointNumber>,
    context: &CallContext<'_>,
) -> Result<CallOutcome, GateError> {
    let ExecutedCall {
        answer,
        mut spool,
        log,
        elapsed,
    } = executed;
    let touched = match &answer {
        Ok(answer) => &answer.touched,
        Err(failure) => &failure.touched,
    };
    let (captured, answer) = match capture(spec, touched, id, context) {
        Ok(captured) => (captured, answer),
        // The call has run, so its outcome is stored all the same. The next use of the sandbox records the changes.
        Err(source) if source.code() == Code::CaptureInterrupted => {
            let failure = failure_with_unrecorded_changes(&answer);
            (CapturedChanges::default(), Err(failure))
        }
        Err(source) => return Err(error_after_run(id, spec, "recording its changes", source)),
    };
    let answer = answer.map_err(|failure| Failure {
        message: context.redactor.redact(&failure.message).into_owned(),
        ..failure
    });
    let mut finished = FinishedCall {
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
        .finish(&mut finished)
        .map_err(|source| error_after_run(id, spec, "storing its outcome", source))?;
    let tool = spec.name.clone();
    let shown = spool.shown();
    Ok(match answer {
        Ok(answer) => CallOutcome::Succeeded(CallSuccess {
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
        Err(failure) => CallOutcome::Failed(CallFailure {
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

/// Outcome of a finished call whose changes were not recorded, because recording was interrupted.
fn failure_with_unrecorded_changes(answer: &Result<Answer, Failure>) -> Failure {
    let outcome = match answer {
        Ok(_) => "it succeeded".to_owned(),
        Err(failure) => failure.message.clone(),
    };
    let message = format!(
        "{outcome}, but recording its changes was interrupted; the changes are still in the sandbox, and the next \
         command on it records them"
    );
    Failure::with_kind(FailureKind::Cancelled, message)
}

/// Returns the output as an image; `None` when it is too large or cannot be read.
fn picture(media_type: &'static str, spool: &mut SpooledOutput) -> Option<Picture> {
    let data = spool.bytes_up_to(MAX_IMAGE_SIZE).ok()??;
    Some(Picture { media_type, data })
}

/// Returns the end of a log, for the model: whole lines, unless a single line exceeds the limit.
fn last_lines(log: &str) -> &str {
    let end = &log[log.ceil_char_boundary(log.len().saturating_sub(SHOWN_LOG))..];
    if end.len() == log.len() {
        return end;
    }
    end.split_once('\n').map_or(end, |(_, lines)| lines)
}

/// Stores a refusal and returns it.
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

/// Creates the checkpoint before a writing call, if the sandbox supports it.
fn checkpoint(
    entry: &Entry,
    context: &CallContext<'_>,
) -> Result<Option<CheckpointNumber>, RefusalReason> {
    let spec = entry.tool.spec();
    let Some(workspace) = context.workspace else {
        return Ok(None);
    };
    let creates_checkpoint =
        workspace.has_checkpoints() && workspace.requires_checkpoint_before_writing();
    if !spec.capability.is_writing() || !creates_checkpoint {
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

/// Finishes the output of a tool and validates it against the output schema.
fn finish_output(
    result: Result<Answer, Failure>,
    mut output: Output<'_>,
    entry: &Entry,
    context: &CallContext<'_>,
) -> (Result<Answer, Failure>, SpooledOutput) {
    let json = match &result {
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
            let touched = result.map_or_else(|failure| failure.touched, |answer| answer.touched);
            let failure = Failure::new(format!("storing its output failed: {error}"));
            return (
                Err(failure.touching(touched)),
                SpooledOutput::new(context.shown_bytes),
            );
        }
    };
    let checked = result.and_then(|answer| {
        match check_output(entry, json.as_ref(), &mut spool, context.redactor) {
            Ok(()) => Ok(answer),
            Err(message) => {
                Err(Failure::with_kind(FailureKind::BadOutput, message).touching(answer.touched))
            }
        }
    });
    (checked, spool)
}

fn check_output(
    entry: &Entry,
    json: Option<&Value>,
    spool: &mut SpooledOutput,
    redactor: &dyn Redact,
) -> Result<(), String> {
    let Some(schema) = &entry.output else {
        return Ok(());
    };
    let parsed;
    let value = if let Some(value) = json {
        value
    } else {
        let bytes = spool
            .bytes_up_to(MAX_JSON_SIZE)
            .map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("its answer is too long to validate against its schema")?;
        parsed = serde_json::from_slice::<Value>(&bytes)
            .map_err(|error| format!("its answer is not valid JSON: {error}"))?;
        &parsed
    };
    let declared = entry.tool.spec().output_schema.as_ref();
    match schema_errors(schema, declared.unwrap_or(&Value::Null), value, redactor) {
        None => Ok(()),
        Some(errors) => Err(format!(
            "its answer does not match its output schema: {errors}"
        )),
    }
}

/// Records the changes of a writing call.
fn capture(
    spec: &ToolSpec,
    touched: &TouchedPaths,
    invocation: ToolInvocationId,
    context: &CallContext<'_>,
) -> Result<CapturedChanges, PortError> {
    let by = Attribution {
        tool: &spec.name,
        invocation,
    };
    match (context.workspace, touched) {
        (None, _) | (_, TouchedPaths::Nothing) => Ok(CapturedChanges::default()),
        (Some(workspace), TouchedPaths::Paths(paths)) => workspace.capture_paths(by, paths),
        (Some(workspace), TouchedPaths::Anything) => workspace.capture_all(by),
    }
}
