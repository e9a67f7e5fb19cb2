//! Plans: made from actions, thought out, carried out in a sandbox, judged, and applied.
//!
//! [`PlanService`] makes plans and lets people have a say; [`drive`] takes them from stage to stage through
//! [`strategize`], [`execute`], [`validate`] and [`apply`]; [`rollback`] takes them back and forward again.
//! [`PlanExecutionContext`] records the changes of a plan run.

mod apply;
mod approver;
mod built_in;
mod context;
mod deterministic;
mod drive;
mod error;
mod execute;
mod gates;
mod registry;
mod rollback;
mod rules;
mod service;
mod strategize;
mod validate;
mod world;

pub use built_in::{
    DETERMINISTIC, ESTIMATOR, EXECUTOR, PROMPTS, REVIEWER, STRATEGIST, built_in_actors,
};
pub use context::{ContextError, OpenChangeset, PlanExecutionContext};
pub use error::PlanError;
pub use rollback::{PlanRollbackPreview, PlanRolledBack};
pub use service::{DefaultActors, DriveOptions, PlanDefaults, PlanService, UseAction};
pub use world::{PlanJob, PlanWatcher, PlanWorld};
