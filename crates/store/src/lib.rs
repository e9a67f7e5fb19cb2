//! The only crate that opens a database.
//!
//! An [`EngineCache`] returns the one [`Engine`] of a [`DatabaseUrl`]. An engine runs units of work: closures over a
//! [`UnitOfWork`] whose writes and events are committed together or not at all. Stored data is read and written through
//! repositories, one module per entity: [`sessions`], [`messages`], [`changesets`], [`leases`], [`resources`],
//! [`projects`], [`events`] and so on. They take a unit of work or a [`Reader`] and can neither commit nor roll back.
//!
//! SQLite is embedded and the default; PostgreSQL serves teams. Statements are written once in the common subset; where
//! the two must differ, both variants stand side by side.

mod cache;
mod counters;
mod dialect;
mod engine;
mod error;
mod group;
mod maintenance;
mod migrate;
mod pool;
mod postgres;
mod repository;
mod server;
mod sqlite;
mod sync;
mod transaction;
mod url;
mod value;

pub use dialect::Dialect;
pub use engine::{Engine, EngineCache, Options, ProgressCallback};
pub use error::Error;
pub use maintenance::{
    Check, Cleanup, Retention, SalvageReport, Severity, Status, VacuumResult, salvage,
};
pub use migrate::{AppliedMigration, Migration};
pub use repository::{
    attempts, audit, blobs, budgets, changesets, child_plans, context_summaries, contexts,
    decisions, definitions, events, invariants, invocations, item_sources, leases, messages,
    permission_rules, plan_steps, plans, pools, projects, pushes, request_keys, resource_types,
    resources, runs, sandboxes, search, sessions, tasks, tokens, tracker_outbox, turns,
    usage_metrics, validations, work_items,
};
pub use server::{Server, database_identity};
pub use transaction::{Reader, UnitOfWork};
pub use url::{DatabaseUrl, redact};
pub use value::{FromColumn, Param, Row, Value};

/// Version of the linked SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
