//! [`RefusalReason`]: reason for which the gate refused a call, with advice for the model.

use cleveragents_domain::{Code, MicroUsd};
use serde::Serialize;

use super::Phase;
use crate::model_tools::{model_name, with_model_names};
use crate::name::ToolName;
use crate::ports::Redact;

/// Reason of a refused call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// No tool has this name.
    #[error("tool `{name}` does not exist{}", did_you_mean(.nearest))]
    UnknownTool {
        /// The name as the model wrote it.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// The arguments are not valid JSON, do not match the schema, or are inconsistent.
    #[error("the arguments are invalid: {0}")]
    BadArguments(String),
    /// A path is outside the sandbox or invalid.
    #[error("`{path}` is not a path in the sandbox: {why}")]
    OutsideSandbox {
        /// The path as the model wrote it.
        path: String,
        /// Reason of the refusal.
        why: String,
    },
    #[error("the plan is read-only, and `{tool}` makes changes")]
    ReadOnlyPlan { tool: String },
    /// The phase allows no changes.
    #[error("the phase {} allows no changes, and `{tool}` makes changes", .phase.as_str())]
    ReadOnlyPhase { tool: String, phase: Phase },
    /// The phase allows commands, whose changes are rolled back, but no tools that change files.
    #[error("the phase {} allows no changes to files, and `{tool}` changes files", .phase.as_str())]
    TrialPhase { tool: String, phase: Phase },
    /// The part of the sandbox is read-only.
    #[error("the part `{0}` of the sandbox is read-only")]
    ReadOnlyPart(String),
    /// The tool requires a container that is not available.
    #[error("the tool requires {0}, which is not available")]
    NoContainer(String),
    /// The safety profile does not allow the call.
    #[error("the safety profile does not allow it: {0}")]
    Profile(String),
    /// The tool is on the denylist of the guards.
    #[error("`{0}` is on the denylist")]
    Denylist(String),
    /// The tool is not on the allowlist of the guards.
    #[error("`{0}` is not on the allowlist")]
    NotOnAllowlist(String),
    /// The response of the model, or the step of the plan, reached its limit of tool calls.
    #[error("the limit of {limit} tool calls in this step is reached")]
    CallLimit {
        /// Maximum number of calls.
        limit: u64,
    },
    /// The cost would exceed the budget.
    #[error("the call would exceed the budget of {:.2} USD ({:.2} USD spent or reserved)", .limit.as_usd(), .used.as_usd())]
    Budget {
        /// Maximum cost.
        limit: MicroUsd,
        /// Cost spent or reserved so far.
        used: MicroUsd,
    },
    /// A permission rule denies the call.
    #[error("a permission rule denies it: {0}")]
    Rule(String),
    /// The tool needs a sandbox, and there is none.
    #[error("`{tool}` requires a sandbox, and there is none")]
    MissingSandbox { tool: String },
    /// A checkpoint is required but cannot be created.
    #[error("a checkpoint is required before `{tool}`, but cannot be created: {why}")]
    MissingCheckpoint {
        tool: String,
        /// Reason of the refusal.
        why: String,
    },
    /// The user rejected the call.
    #[error("the user rejected it{}", .note.as_deref().map(|note| format!(": {note}")).unwrap_or_default())]
    ApprovalRefused {
        /// The user's message for the model.
        note: Option<String>,
    },
    /// The call needs approval, and no user is available.
    #[error("it needs approval, but no user is available: {reason}{}", allowed_by(.rules))]
    NoApprover {
        /// Reason for the approval.
        reason: String,
        /// Permission rules that would allow the call without approval; one of them is enough.
        rules: Vec<String>,
    },
    /// The run was cancelled before the call started.
    #[error("the run was cancelled before the call started")]
    Cancelled,
}

fn allowed_by(rules: &[String]) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let rules: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
    let rules = rules.join(" or ");
    format!("; the rule {rules} allows it without approval")
}

fn did_you_mean(nearest: &[String]) -> String {
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
    /// Stable identifier of the reason, for the ledger and events.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "unknown_tool",
            Self::BadArguments(_) => "bad_arguments",
            Self::OutsideSandbox { .. } => "outside_sandbox",
            Self::ReadOnlyPlan { .. } => "read_only_plan",
            Self::ReadOnlyPhase { .. } | Self::TrialPhase { .. } => "read_only_phase",
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
            Self::NoApprover { .. } => "nobody_to_approve",
            Self::Cancelled => "cancelled",
        }
    }

    /// Error code for front ends.
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownTool { .. } => Code::ToolNotFound,
            Self::NoApprover { .. } => Code::ApprovalNeeded,
            _ => Code::ToolRefused,
        }
    }

    /// Redacts the parts that repeat content of the call.
    pub(super) fn without_secrets(mut self, redactor: &dyn Redact) -> Self {
        let texts = match &mut self {
            Self::UnknownTool { name, .. } => vec![name],
            Self::OutsideSandbox { path, why } => vec![path, why],
            Self::BadArguments(text) | Self::Rule(text) => vec![text],
            Self::NoApprover { reason, rules } => rules.iter_mut().chain([reason]).collect(),
            Self::MissingCheckpoint { why, .. } => vec![why],
            Self::ApprovalRefused { note } => note.iter_mut().collect(),
            // The other reasons contain only names of tools and parts.
            _ => Vec::new(),
        };
        for text in texts {
            *text = redactor.redact(text).into_owned();
        }
        self
    }

    /// The reason as text, with the names under which tools are declared to models.
    pub(super) fn for_model(&self) -> String {
        let Self::UnknownTool { name, nearest } = self else {
            return with_model_names(&self.to_string());
        };
        let named = nearest.iter().map(|name| {
            let tool = name.parse::<ToolName>();
            tool.map_or_else(|_| name.clone(), |tool| model_name(&tool))
        });
        let nearest: Vec<String> = named.collect();
        let name = name.clone();
        Self::UnknownTool { name, nearest }.to_string()
    }

    /// Advice for the model about its next call.
    pub(super) const fn advice(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "Call one of your declared tools.",
            Self::BadArguments(_) | Self::OutsideSandbox { .. } => "Correct the call and retry.",
            Self::ReadOnlyPlan { .. } | Self::ReadOnlyPhase { .. } => {
                "Continue with tools that only read."
            }
            Self::TrialPhase { .. } => {
                "Read, or run commands: what a command changes is rolled back when the phase ends."
            }
            Self::CallLimit { .. } | Self::Budget { .. } => "Finish with what you have.",
            Self::ApprovalRefused { .. } => "Do not repeat the call; ask what to do instead.",
            Self::Cancelled => "Stop.",
            _ => "Do not try to bypass this; continue without the call or inform the user.",
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
