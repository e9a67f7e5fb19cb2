//! [`TaskError`]: why a task refuses a request.

use cleveragents_domain::TaskId;
use cleveragents_store::Error;

/// Errors of requests to a task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// It does not exist.
    #[error("the task `{0}` does not exist")]
    NotFound(TaskId),
    /// It is in a final state.
    #[error("the task is finished")]
    Over,
    /// A server works on it, and it is not waiting for input.
    #[error("the task is being worked on")]
    Busy,
    /// It has the maximum number of push addresses.
    #[error("a task can be pushed to at most {0} addresses")]
    TooManyPushConfigs(u64),
    /// Another process created the context of the task at the same time, twice in a row.
    #[error("the context is being created")]
    ContextBusy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
