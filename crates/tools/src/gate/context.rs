//! What the gate is asked, and everything it looks at to answer.

use cleveragents_process::Cancel;

use crate::ports::{Approver, Budget, Ledger, Redact, Scope, Workspace};
use crate::safety::{Guards, PermissionRules, SafetyProfile};

/// A call as a model makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// What the model calls it.
    pub call_id: String,
    /// The tool, by any of its names.
    pub tool: String,
    /// Its arguments, as the very text that the model wrote.
    pub arguments: String,
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A conversation.
    Session,
    /// A plan is being thought out: nothing may change.
    Strategize,
    /// A plan is being carried out.
    Execute,
    /// A plan's result is being applied: nothing may change beside it.
    Apply,
}

impl Phase {
    /// The phase as printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Strategize => "strategize",
            Self::Execute => "execute",
            Self::Apply => "apply",
        }
    }

    pub(super) const fn allows_writing(self) -> bool {
        matches!(self, Self::Session | Self::Execute)
    }
}

/// What the plan or session allows at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanMode {
    /// Nothing may change, whatever the phase.
    ReadOnly,
    /// What the phase allows.
    Normal(Phase),
}

impl PlanMode {
    /// Whether anything may change.
    pub const fn allows_writing(self) -> bool {
        match self {
            Self::ReadOnly => false,
            Self::Normal(phase) => phase.allows_writing(),
        }
    }
}

/// Everything a decision rests on.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// For whom the call is made.
    pub scope: &'a Scope,
    /// What the plan allows.
    pub mode: PlanMode,
    /// The safety profile.
    pub profile: &'a SafetyProfile,
    /// The guards.
    pub guards: &'a Guards,
    /// The permission rules.
    pub rules: &'a PermissionRules,
    /// The sandbox, when there is one.
    pub workspace: Option<&'a dyn Workspace>,
    /// Who is asked.
    pub approver: &'a dyn Approver,
    /// Calls and money.
    pub budget: &'a dyn Budget,
    /// Where calls are written down.
    pub ledger: &'a dyn Ledger,
    /// What takes secrets out.
    pub redactor: &'a dyn Redact,
    /// What stops the call.
    pub cancel: &'a Cancel,
    /// How much of an output the model is shown.
    pub shown_bytes: usize,
}
