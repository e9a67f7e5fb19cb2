//! Pools: dispatch of work items to workers with a role, under rules that are code over stored rows.
//!
//! A [`RoleRunner`] does the work of one [`Dispatch`] and returns a typed [`RoleReport`]. Only the engine turns a report
//! into transitions, rows and events; nothing that a model writes in prose has an effect.

mod dispatch;
mod service;

pub use dispatch::{Dispatch, RoleFailure, RoleReport, RoleRunner, item_lease, require_may_apply};
pub use service::{PoolReading, PoolService};
