//! [`RefusalReason`]: why a call was not allowed to run, in words that a model can act on.

use cleveragents_domain::{Code, MicroUsd};
use serde::Serialize;

use super::Phase;
use crate::ports::Redact;

/// Why a call was not allowed to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// There is no such tool.
    #[error("there is no tool named `{name}`{}", meant(.nearest))]
    UnknownTool {
        /// The name as it was given.
        name: String,
        /// Names that are much like it.
        nearest: Vec<String>,
    },
    /// The arguments are no JSON, do not fit the schema, or make no sense.
    #[error("the arguments are wrong: {0}")]
    BadArguments(String),
    /// A path leads out of the sandbox, or is none.
    #[error("`{path}` is not a path in the sandbox: {why}")]
    OutsideSandbox {
        /// The path as it was given.
        path: String,
        /// Why not.
        why: String,
    },
    /// The plan is read-only.
    #[error("the plan is read-only, and `{tool}` changes things")]
    ReadOnlyPlan {
        /// The tool.
        tool: String,
    },
    /// Nothing may change in this phase.
    #[error("nothing may be changed in the phase {}, and `{tool}` changes things", .phase.as_str())]
    ReadOnlyPhase {
        /// The tool.
        tool: String,
        /// The phase.
        phase: Phase,
    },
    /// The part of the sandbox is read-only.
    #[error("the part `{0}` of the sandbox is read-only")]
    ReadOnlyPart(String),
    /// The tool has to run in a container that is not there.
    #[error("the tool runs only in {0}, which is not there")]
    NoContainer(String),
    /// The safety profile does not allow it.
    #[error("the safety profile does not allow it: {0}")]
    Profile(String),
    /// The denylist has it.
    #[error("`{0}` is on the denylist")]
    Denylist(String),
    /// The allowlist does not have it.
    #[error("`{0}` is not on the allowlist")]
    NotOnAllowlist(String),
    /// The step has no call left.
    #[error("this step may call {limit} tools and has done so")]
    CallLimit {
        /// How many are allowed.
        limit: u64,
    },
    /// The money would not suffice.
    #[error("the budget of {:.2} USD is used up ({:.2} USD spent or reserved)", .limit.as_usd(), .used.as_usd())]
    Budget {
        /// How much is allowed.
        limit: MicroUsd,
        /// How much is spent or reserved.
        used: MicroUsd,
    },
    /// A permission rule forbids it.
    #[error("it is not permitted: {0}")]
    Rule(String),
    /// There is no sandbox, and it needs one.
    #[error("there is no sandbox, and `{tool}` may only act in one")]
    MissingSandbox {
        /// The tool.
        tool: String,
    },
    /// No checkpoint can be made, and one is demanded.
    #[error("a checkpoint is demanded before `{tool}`, and none can be made: {why}")]
    MissingCheckpoint {
        /// The tool.
        tool: String,
        /// Why not.
        why: String,
    },
    /// A person said no.
    #[error("the user refused it{}", .note.as_deref().map(|note| format!(": {note}")).unwrap_or_default())]
    ApprovalRefused {
        /// What the person said.
        note: Option<String>,
    },
    /// A person has to agree, and none is there.
    #[error("a person has to agree, and nobody is there: {reason}")]
    NobodyToApprove {
        /// Why somebody has to agree.
        reason: String,
    },
    /// The work was stopped before the call began.
    #[error("the work was cancelled before the call began")]
    Cancelled,
}

fn meant(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(
            "; did you mean {}?",
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(" or ")
        ),
    }
}

impl RefusalReason {
    /// The reason as a stable word, for rows and events.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "unknown_tool",
            Self::BadArguments(_) => "bad_arguments",
            Self::OutsideSandbox { .. } => "outside_sandbox",
            Self::ReadOnlyPlan { .. } => "read_only_plan",
            Self::ReadOnlyPhase { .. } => "read_only_phase",
            Self::ReadOnlyPart(_) => "read_only_part",
            Self::NoContainer(_) => "no_container",
            Self::Profile(_) => "profile",
            Self::Denylist(_) => "denylist",
            Self::NotOnAllowlist(_) => "not_on_allowlist",
            Self::CallLimit { .. } => "call_limit",
            Self::Budget { .. } => "budget",
            Self::Rule(_) => "rule",
            Self::MissingSandbox { .. } => "missing_sandbox",
            Self::MissingCheckpoint { .. } => "missing_checkpoint",
            Self::ApprovalRefused { .. } => "approval_refused",
            Self::NobodyToApprove { .. } => "nobody_to_approve",
            Self::Cancelled => "cancelled",
        }
    }

    /// The code under which a front end shows it.
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownTool { .. } => Code::ToolNotFound,
            Self::NobodyToApprove { .. } => Code::ApprovalNeeded,
            _ => Code::ToolRefused,
        }
    }

    /// The same with secrets taken out of what was repeated from the call.
    pub(super) fn without_secrets(mut self, redactor: &dyn Redact) -> Self {
        let texts = match &mut self {
            Self::UnknownTool { name, .. } => vec![name],
            Self::OutsideSandbox { path, why } => vec![path, why],
            Self::BadArguments(text) | Self::Rule(text) => vec![text],
            Self::NobodyToApprove { reason } => vec![reason],
            Self::MissingCheckpoint { why, .. } => vec![why],
            Self::ApprovalRefused { note } => note.iter_mut().collect(),
            // These repeat names of tools and parts only.
            _ => Vec::new(),
        };
        for text in texts {
            *text = redactor.redact(text).into_owned();
        }
        self
    }

    /// What the model can do about it.
    pub(super) const fn advice(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "Call one of the tools you were told of.",
            Self::BadArguments(_) | Self::OutsideSandbox { .. } => {
                "Correct the call and try again."
            }
            Self::ReadOnlyPlan { .. } | Self::ReadOnlyPhase { .. } => {
                "Go on with tools that only read."
            }
            Self::CallLimit { .. } | Self::Budget { .. } => "Come to an end with what you have.",
            Self::ApprovalRefused { .. } => "Do not try the same again; ask what to do instead.",
            Self::Cancelled => "Stop here.",
            _ => "Do not try to get around this; go on without it or tell the user.",
        }
    }
}

impl Serialize for RefusalReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("kind", self.kind())?;
        map.serialize_entry("message", &self.to_string())?;
        map.end()
    }
}
