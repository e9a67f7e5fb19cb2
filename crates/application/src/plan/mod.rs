//! Plans: made from actions, thought out, carried out in a sandbox, judged, and applied.
//!
//! [`PlanService`] makes plans ([`make`]) and lets people have a say ([`say`]); [`drive`] takes them from stage to stage through
//! [`strategize`], [`execute`], [`validate`] and [`apply`]; [`rollback`] takes them back and forward again.
//! [`PlanBook`] looks up what is known of them; [`PlanExecutionContext`] records the changes of a plan run.

mod apply;
mod apply_preconditions;
mod approver;
mod book;
mod built_in;
mod context;
mod control;
mod deterministic;
mod draw;
mod drive;
mod error;
mod execute;
mod failed_check;
mod gates;
mod ground;
mod lookup;
mod make;
mod observer;
pub mod operations;
mod policy;
mod queue;
mod registry;
mod rollback;
mod rules;
mod service;
mod snapshot;
mod strategize;
mod strategy_parser;
mod uses;
mod validate;

pub use book::{
    Alternative, BookError, ChangeStatus, CorrectionImpact, DecisionNode, DecisionTree,
    Explanation, FileChange, Hunk, Impact, PhaseProgress, PlanBook, PlanCandidate, PlanChanges,
    PlanGuard, PlanQuery, PlanStatus, PlanTrouble, ProgressState, Spent, TreeOptions, TreeSummary,
    Trouble, TroubleKind, checkpoint_name, told, waiting_commands,
};
pub use built_in::{
    DETERMINISTIC, ESTIMATOR, EXECUTOR, PROMPTS, REVIEWER, STRATEGIST, built_in_actors,
};
pub use context::{ContextError, OpenChangeset, PlanExecutionContext};
pub use drive::calling_actor;
pub use error::PlanError;
pub use failed_check::FailedCheck;
pub use lookup::PlanLookup;
pub use observer::{PlanFrontEnd, PlanWatcher};
pub use policy::{CheckpointTrigger, SandboxCleanup, SandboxPolicy};
pub use queue::{PlanQueue, Queued, SERVER_LEASE, Served};
pub use rollback::{PlanRollbackPreview, PlanRolledBack};
pub use service::{
    DefaultActors, DriveOptions, KeptVariables, PlanDefaults, PlanService, UseAction,
};
pub(crate) use uses::{Used, active_plans_using, hint_to_end};
