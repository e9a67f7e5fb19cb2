//! The input of the gate: the call, and the context for the decision.

use cleveragents_process::Cancel;

use crate::ports::{Approver, Budget, Ledger, Redact, Scope, Workspace};
use crate::safety::{Guards, PermissionRules, SafetyProfile};

/// A call as a model makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// Id that the model gave to the call.
    pub call_id: String,
    /// Name of the tool, in any of its spellings.
    pub tool: String,
    /// JSON text of the arguments, exactly as the model wrote it.
    pub arguments: String,
}

/// The phase in which a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A conversation.
    Session,
    /// A plan is being strategized: nothing may change, except by commands in a [`PlanMode::Trial`].
    Strategize,
    /// A plan is being executed.
    Execute,
    /// A plan's result is being applied: tools may not make other changes.
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

/// The kinds of changes that the plan or session currently allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanMode {
    /// No changes, in any phase.
    ReadOnly,
    /// The changes that the phase allows.
    Normal(Phase),
    /// Commands may run, because the sandbox is restored afterwards
    /// (`SandboxWorkspace::without_trace`); other tools may only read.
    Trial(Phase),
}

impl PlanMode {
    /// Returns whether any changes are allowed.
    pub const fn allows_writing(self) -> bool {
        match self {
            Self::ReadOnly | Self::Trial(_) => false,
            Self::Normal(phase) => phase.allows_writing(),
        }
    }

    /// Returns whether tools that change files are offered to a model. A trial offers them, although the gate refuses
    /// most of their calls: a list of tools that is the same in every phase keeps the providers' prompt caches valid.
    pub const fn offers_writing(self) -> bool {
        self.allows_writing() || self.is_trial()
    }

    /// Returns whether the sandbox is restored when the phase ends.
    pub const fn is_trial(self) -> bool {
        matches!(self, Self::Trial(_))
    }
}

/// The context for the decision about a call.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// Session, plan and actor that make the call.
    pub scope: &'a Scope,
    /// Allowed changes.
    pub mode: PlanMode,
    /// Safety profile of the plan or session, already narrowed by all other profiles that apply.
    pub profile: &'a SafetyProfile,
    /// Limits on automatic work.
    pub guards: &'a Guards,
    /// Permission rules: allow, ask or deny.
    pub rules: &'a PermissionRules,
    /// The sandbox, if there is one.
    pub workspace: Option<&'a dyn Workspace>,
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Limits on calls and cost.
    pub budget: &'a dyn Budget,
    /// Stores every call and its outcome.
    pub ledger: &'a dyn Ledger,
    /// Removes secrets from stored and shown texts.
    pub redactor: &'a dyn Redact,
    pub cancel: &'a Cancel,
    /// Maximum number of bytes of an output that the model is shown.
    pub shown_bytes: usize,
}
