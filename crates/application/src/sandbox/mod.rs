//! [`SandboxService`]: creates, opens, rolls back, applies and discards sandboxes.
//!
//! Every command holds the lease of the sandbox that it uses, so two commands never use a sandbox
//! concurrently. After a crash, the next command completes or undoes the interrupted operation
//! (create, rollback, apply, discard).

mod apply;
mod by_products;
mod disk_usage;
mod error;
mod exec;
mod follow;
mod fork;
mod history;
mod own_files;
mod query;
mod recover;
mod rollback;
mod servers;
mod service;
mod session;
mod target;
mod trial_run;
mod undo_ranges;

pub use apply::{ApplyRequest, ApplyResult};
pub(crate) use by_products::FILE_TOOLS;
pub use disk_usage::{CacheTotal, DiskUsage};
pub use error::SandboxError;
pub(crate) use exec::invocation;
pub use exec::{ExecReport, ExecRequest};
pub use follow::SourceChanges;
pub use fork::{ComputedMerge, ForkToMerge};
pub use history::{CaptureReport, ChangeAuthor, MemberChanges, SandboxDiff};
pub use query::{QueryReport, QueryRequest, Recording};
pub use recover::RecoveredOperation;
pub use rollback::{RollbackTarget, RolledBack};
pub(crate) use service::hide_database;
pub use service::{OpenSandbox, SandboxService, SandboxView};
pub use session::{IDLE_SANDBOX_HOURS, IdleSandbox, PendingChanges};
pub(crate) use session::{SESSION_SANDBOX, session_of_sandbox, session_sandbox};
pub use target::Target;
pub(crate) use undo_ranges::RangesToUndo;
