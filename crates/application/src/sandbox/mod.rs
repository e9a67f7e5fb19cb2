//! [`SandboxService`]: sandboxes by name, their history, and the way of their changes to the user.
//!
//! Every command that works with a sandbox holds its lease, so two of them never meet. What was
//! interrupted (a sandbox being made, a rollback, an apply, a discard) is finished or undone by
//! whatever command comes next.

mod apply;
mod by_products;
mod error;
mod exec;
mod history;
mod own;
mod query;
mod recover;
mod rollback;
mod servers;
mod service;
mod target;
mod trial;

pub use apply::{Applied, ApplyRequest};
pub(crate) use by_products::FILE_TOOLS;
pub use error::SandboxError;
pub(crate) use exec::invocation;
pub use exec::{ExecReport, ExecRequest};
pub use history::{CaptureReport, Doer, MemberChanges, SandboxDiff};
pub use query::{QueryReport, QueryRequest, Recording};
pub use recover::Recovered;
pub use rollback::{RollbackTarget, RolledBack};
pub(crate) use service::hide_database;
pub use service::{OpenSandbox, SandboxService, SandboxView};
pub use target::Target;
