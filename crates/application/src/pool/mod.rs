//! Pools: dispatch of work items to workers with a role, under rules that are code over stored rows.
//!
//! A [`RoleRunner`] does the work of one [`Dispatch`] and returns a typed [`RoleReport`]. Only the engine turns a report
//! into transitions, rows and events; nothing that a model writes in prose has an effect. A cycle reads one
//! [`PoolSnapshot`], decides with the pure function [`plan_dispatches()`], and claims each attempt in one unit of work.

mod attempt_result;
mod claim;
mod dispatch;
mod escalate;
mod library;
pub mod operations;
mod plan_dispatches;
mod reconciler;
mod recover;
pub(crate) mod roles;
mod service;
mod snapshot;
mod watch;

pub use attempt_result::{StoredAttemptResult, record_base};
pub use dispatch::{Dispatch, RoleFailure, RoleReport, RoleRunner, item_lease, require_may_apply};
pub use library::{PoolActors, READY_MADE_POOLS, ReadyMadePool};
pub use plan_dispatches::{DispatchPlan, Escalation, PlannedDispatch, WaitReason, plan_dispatches};
pub use reconciler::{PoolDefinitions, PoolEvent, PoolRunSummary, Reconciler, ReconcilerOptions};
pub use roles::{PlanRoleRunner, RuntimeSource};
pub use service::{PoolReading, PoolService};
pub use snapshot::{PoolSnapshot, PoolView, RunningAttempt};
