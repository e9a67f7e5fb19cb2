//! [`Ledger`]: stores every call before it has any effect.

use std::time::Duration;

use cleveragents_domain::{
    ActorName, CheckpointNumber, InvocationOutcome, PlanId, SessionId, ToolInvocationId,
};
use serde_json::Value;

use super::{CapturedChanges, PortError};
use crate::capability::Capability;
use crate::gate::RefusalReason;
use crate::name::ToolName;
use crate::output::SpooledOutput;

/// Session, plan and actor that make a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Session of the conversation, if any.
    pub session: Option<SessionId>,
    /// Plan that is being run, if any.
    pub plan: Option<PlanId>,
    /// Actor whose model made the call.
    pub actor: Option<ActorName>,
}

/// A call that is about to start.
#[derive(Debug)]
pub struct StartedCall<'a> {
    /// Id of the row to create.
    pub id: ToolInvocationId,
    /// Id that the model gave to the call.
    pub call_id: &'a str,
    /// Session, plan and actor that make the call.
    pub scope: &'a Scope,
    /// The tool to run.
    pub tool: &'a ToolName,
    /// Redacted arguments, with long texts truncated.
    pub arguments: &'a Value,
    /// Capability of the tool; decides whether the call may be repeated after a crash.
    pub capability: &'a Capability,
    /// Checkpoint taken before the call.
    pub checkpoint: Option<CheckpointNumber>,
    /// Whether the sandbox is restored when the call is interrupted, so that the call may be repeated.
    pub is_trial: bool,
}

#[derive(Debug)]
pub struct FinishedCall<'a> {
    /// Id of the row of the call.
    pub id: ToolInvocationId,
    /// Outcome; never `Running` or `Refused`.
    pub outcome: InvocationOutcome,
    /// The whole output, redacted.
    pub output: &'a mut SpooledOutput,
    /// Media type of the output, such as `image/png`, when it is an image instead of text.
    pub media_type: Option<&'static str>,
    /// The end of the tool's log, redacted; empty for most tools.
    pub log: &'a str,
    /// Error message of a failed call.
    pub error: Option<&'a str>,
    /// Changes that the call made in the sandbox.
    pub captured: &'a CapturedChanges,
    pub elapsed: Duration,
}

/// A call that the gate refused.
#[derive(Debug)]
pub struct RefusedCall<'a> {
    /// Id of the row to create.
    pub id: ToolInvocationId,
    /// Id that the model gave to the call.
    pub call_id: &'a str,
    /// Session, plan and actor that make the call.
    pub scope: &'a Scope,
    /// The tool as the model named it; it need not exist.
    pub tool: &'a str,
    /// Redacted arguments; a text when they are not valid JSON.
    pub arguments: &'a Value,
    pub reason: &'a RefusalReason,
}

/// A range of bytes of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Offset of the first byte.
    pub from: u64,
    /// Maximum number of bytes.
    pub bytes: usize,
}

/// A range of a stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// Bytes of the requested range; fewer at the end of the output.
    pub bytes: Vec<u8>,
    /// Size of the whole output, in bytes.
    pub total: u64,
}

/// Stores every call. The methods that write also record the corresponding event.
pub trait Ledger: Send + Sync {
    /// Stores a call before it has any effect. The call does not run if this fails.
    fn begin(&self, call: &StartedCall<'_>) -> Result<(), PortError>;

    /// Stores the outcome and the whole output of a call.
    fn finish(&self, call: &mut FinishedCall<'_>) -> Result<(), PortError>;

    /// Stores a refused call.
    fn refuse(&self, refused: &RefusedCall<'_>) -> Result<(), PortError>;

    /// Reads from the stored output of an earlier call of the same session or plan; `None` when
    /// there is no such call or it has no output.
    fn output(
        &self,
        scope: &Scope,
        invocation: ToolInvocationId,
        window: Window,
    ) -> Result<Option<OutputPage>, PortError>;
}
