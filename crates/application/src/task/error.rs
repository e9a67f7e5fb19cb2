//! [`TaskError`]: why a task does not take a request.

use cleveragents_domain::TaskId;
use cleveragents_store::Error;

/// Why a task does not take a request.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// It does not exist.
    #[error("the task `{0}` does not exist")]
    NotFound(TaskId),
    /// It is in a final state.
    #[error("the task is over")]
    Over,
    /// A server works on it, and it waits for nothing.
    #[error("the task is being worked on")]
    Busy,
    /// It is pushed to as many addresses as it may be.
    #[error("a task is pushed to {0} places at most")]
    TooManyPushConfigs(u64),
    /// Another process created the context of the task at the same time, twice in a row.
    #[error("the context is being made")]
    ContextBusy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
