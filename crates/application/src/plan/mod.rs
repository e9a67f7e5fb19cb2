//! Plans: created from actions, strategized, executed in a sandbox, validated, and applied.
//!
//! [`PlanService`] is the entry point of front ends. It creates plans ([`create`]), changes them
//! for the user ([`control`]) and rolls them back ([`rollback`]). [`runner`] runs them through the
//! phases [`strategize`], [`execute`] (with [`validate`]) and [`apply`]; each phase is a struct of its
//! dependencies. [`PlanQueries`] reads plans; [`PlanExecutionContext`] records the changes of a plan run.

mod actor_runner;
mod apply;
mod apply_guard;
mod approver;
mod built_in;
mod call_actor;
mod children;
mod context;
mod control;
mod conversation_digest;
mod correction;
mod create;
mod decision;
mod error;
mod execute;
mod failure;
mod front_end;
mod gates;
mod lineage;
pub mod operations;
mod plan_store;
mod policy;
mod progress;
mod prompt;
mod query;
mod registry;
mod report;
mod requirements;
mod role_access;
mod rollback;
mod runner;
mod service;
mod shared_conversation;
mod snapshot;
mod strategize;
mod typed_report;
mod validate;
mod workspace;

pub(crate) use apply::subject as commit_subject;
pub use apply_guard::ApplyGuard;
pub(crate) use built_in::RolePrompts;
pub use built_in::{
    DETERMINISTIC, ESTIMATOR, EXECUTOR, PROMPTS, REVIEWER, STRATEGIST, built_in_actors,
};
pub use call_actor::calling_actor;
pub(crate) use children::DEFAULT_CHILD_DEPTH;
pub use context::{ContextError, OpenChangeset, PlanExecutionContext};
pub use control::{
    AddedPart, ConflictChoice, ConflictSelection, PlanPartAdded, PlanQueue, QueueEntry,
    ResolvedConflicts, SERVER_LEASE, ServerClaim,
};
pub use correction::{
    AffectedCall, AffectedChild, AffectedDecision, AffectedStep, CorrectionAttempt, CorrectionMode,
    CorrectionPreview, PlanCorrected,
};
pub use create::one_off_action;
pub use error::PlanError;
pub use front_end::PlanFrontEnd;
pub use policy::{CheckpointTrigger, SandboxCleanup, SandboxPolicy};
pub use query::{
    Alternative, AppliedCommit, ChangeStatus, CorrectionImpact, DecisionNode, DecisionTree,
    Explanation, FileChange, Hunk, Impact, LimitUsage, PhaseProgress, PlanCandidate, PlanChanges,
    PlanFailure, PlanFailureKind, PlanFailures, PlanGuard, PlanListQuery, PlanLookup, PlanQueries,
    PlanQueryError, PlanStatus, ProgressState, TreeOptions, TreeSummary, UndoneApply,
    checkpoint_name, describe_event,
};
pub(crate) use query::{PlanDependency, active_plans_using, finish_hint};
pub use rollback::{PlanRollbackPreview, PlanRolledBack};
pub use service::{
    DefaultActors, DriveOptions, KeptVariables, PlanDefaults, PlanService, UseAction,
};
pub(crate) use typed_report::CAUSES;
pub use validate::FailedCheck;
