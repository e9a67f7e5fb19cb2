//! Pools: dispatch of work items to workers with a role, under rules that are code over stored rows.
//!
//! A [`RoleRunner`] does the work of one [`Dispatch`] and returns a typed [`RoleReport`]. Only the engine turns a report
//! into transitions, rows and events; nothing that a model writes in prose has an effect. A cycle reads one
//! [`PoolSnapshot`], decides with the pure function [`plan_dispatches()`], and claims each attempt in one unit of work.

mod claim;
mod dispatch;
mod escalate;
mod plan_dispatches;
mod reconciler;
mod recover;
mod service;
mod settle;
mod snapshot;
mod watch;

pub use dispatch::{Dispatch, RoleFailure, RoleReport, RoleRunner, item_lease, require_may_apply};
pub use plan_dispatches::{DispatchPlan, Escalation, PlannedDispatch, WaitReason, plan_dispatches};
pub use reconciler::{PoolDefinitions, PoolEvent, PoolRunSummary, Reconciler, ReconcilerOptions};
pub use service::{PoolReading, PoolService};
pub use settle::{SettledAttempt, record_base};
pub use snapshot::{PoolSnapshot, PoolView, RunningAttempt};
