//! [`Ledger`]: where every call is written down, before it has any effect.

use std::time::Duration;

use cleveragents_domain::{
    ActorName, CheckpointNumber, InvocationOutcome, PlanId, SessionId, ToolInvocationId,
};
use serde_json::Value;

use super::{Captured, PortError};
use crate::capability::Capability;
use crate::gate::RefusalReason;
use crate::name::ToolName;
use crate::output::Spool;

/// For whom a call is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The session.
    pub session: Option<SessionId>,
    /// The plan.
    pub plan: Option<PlanId>,
    /// The actor whose model asked.
    pub actor: Option<ActorName>,
}

/// A call that is about to run.
#[derive(Debug)]
pub struct Begun<'a> {
    /// The row to make.
    pub id: ToolInvocationId,
    /// What the model calls it.
    pub call_id: &'a str,
    /// For whom.
    pub scope: &'a Scope,
    /// The tool.
    pub tool: &'a ToolName,
    /// Its arguments, without secrets, long texts shortened.
    pub arguments: &'a Value,
    /// What the tool declares; says whether the call may be repeated after a crash.
    pub capability: &'a Capability,
    /// The state of the sandbox before the call.
    pub checkpoint: Option<CheckpointNumber>,
}

/// A call that has run.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Its row.
    pub id: ToolInvocationId,
    /// How it ended; never `Running` or `Refused`.
    pub outcome: InvocationOutcome,
    /// Everything it said, without secrets.
    pub output: &'a mut Spool,
    /// What the output is, such as `image/png`, when it is a picture and not text.
    pub media_type: Option<&'static str>,
    /// The end of what it logged, without secrets; empty for most tools.
    pub log: &'a str,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// What it changed.
    pub captured: &'a Captured,
    /// How long it took.
    pub elapsed: Duration,
}

/// A call that was not allowed to run.
#[derive(Debug)]
pub struct RefusedCall<'a> {
    /// The row to make.
    pub id: ToolInvocationId,
    /// What the model calls it.
    pub call_id: &'a str,
    /// For whom.
    pub scope: &'a Scope,
    /// The tool as the model named it, which need not exist.
    pub tool: &'a str,
    /// Its arguments, without secrets; a text when they are not JSON.
    pub arguments: &'a Value,
    /// Why not.
    pub reason: &'a RefusalReason,
}

/// Which bytes of an output are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first byte.
    pub from: u64,
    /// How many at most.
    pub bytes: usize,
}

/// Some bytes of a stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many the whole output has.
    pub total: u64,
}

/// Where every call is written down. Each method also adds the event that tells of it.
pub trait Ledger: Send + Sync {
    /// Stores a call before it has any effect; it does not run when this fails.
    fn begin(&self, begun: &Begun<'_>) -> Result<(), PortError>;

    /// Stores how a call ended, and its whole output.
    fn finish(&self, ended: &mut Ended<'_>) -> Result<(), PortError>;

    /// Stores a call that was refused.
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
