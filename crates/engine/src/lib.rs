//! The services every front end calls. A rule that matters is enforced here or below, never in a
//! front end.
//!
//! [`SessionService`] keeps conversations, [`PlanExecutionContext`] records what a plan run changes,
//! [`SandboxService`] keeps the copies in which work is done and carries it to the user, and
//! [`LeaseService`] gives one owner at a time the right to work on something.

mod lease;
mod plan;
mod process;
mod sandbox;
mod session;
mod sync;

pub use lease::{HeldLease, LeaseError, LeaseService};
pub use plan::{ContextError, OpenChangeset, PlanExecutionContext};
pub use process::{Liveness, current_owner, liveness};
pub use sandbox::{
    Applied, ApplyRequest, CaptureReport, ExecReport, ExecRequest, MemberChanges, OpenSandbox,
    Recovered, RollbackTarget, RolledBack, SandboxDiff, SandboxError, SandboxService, SandboxView,
    Target,
};
pub use session::{
    Answer, EXPORT_SCHEMA, ExportSummary, Failure, ImportCheck, ImportSummary, Question,
    SessionError, SessionService, SessionView, Stored,
};
