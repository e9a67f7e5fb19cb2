//! Runs of actors: every finished node is a row before the run goes on, so a run that was cut off
//! anywhere is gone on with by whoever comes next.
//!
//! The walk itself is that of `cleveragents-actors`; here are what it asks for: [`StoreLog`](log) keeps
//! steps, [`Work`](work) asks models and calls tools, and [`RunService`] begins, goes on with, stops and
//! lists runs.

mod agent;
mod context;
mod error;
mod log;
pub mod operations;
mod question;
mod service;
mod tool;
mod trace;
mod usage;
mod work;

pub use context::{ModelSource, RunContext, RunWatcher, ToolSources, Unheard, UnknownOutcome};
pub use error::{RunServiceError, StoppedRun};
pub use question::{GivenAnswer, OpenQuestion};
pub use service::{RunReport, RunService, RunStart, RunView, StepView, run_namespace};
pub(crate) use trace::bounded;
