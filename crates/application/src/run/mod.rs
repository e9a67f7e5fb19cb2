//! Runs of actors: every finished node is stored before the run continues, so that any process can
//! resume an interrupted run.
//!
//! `cleveragents-actors` walks the graph. This module implements its ports: [`StoreLog`](log) stores
//! steps, and [`RunExecutor`](executor) asks models and calls tools. [`RunService`] starts, resumes,
//! cancels and lists runs.

mod agent;
mod context;
mod error;
mod executor;
mod log;
pub mod operations;
mod prune;
mod question;
mod service;
mod tool;
mod trace;
mod usage;

pub(crate) use context::{CarriedConversation, WorkState};
pub use context::{ModelSource, RunContext, ToolSources, UnknownOutcome};
pub use error::{RunServiceError, StoppedRun};
pub(crate) use prune::{prune, read_paths};
pub use question::{GivenAnswer, OpenQuestion};
pub use service::{RunReport, RunService, RunStart, RunView, StepView, run_namespace};
pub(crate) use trace::bounded;
