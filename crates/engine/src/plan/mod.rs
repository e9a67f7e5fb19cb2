//! What a plan run works with, and what can be looked up about plans.

mod book;
mod context;
pub mod draw;
mod registry;

pub use book::{
    Alternative, BookError, ChangeStatus, CorrectionImpact, DecisionNode, DecisionTree,
    Explanation, FileChange, Hunk, Impact, PhaseProgress, PlanBook, PlanCandidate, PlanChanges,
    PlanGuard, PlanQuery, PlanStatus, PlanTrouble, ProgressState, Spent, TreeOptions, TreeSummary,
    Trouble, TroubleKind, checkpoint_name, told, waiting_commands,
};
pub use context::{ContextError, OpenChangeset, PlanExecutionContext};
